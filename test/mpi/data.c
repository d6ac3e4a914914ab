/* SPDX-License-Identifier: Apache-2.0
 * Random numbers, and buffers of which each byte is known. */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

enum { MARGIN = 64, UNTOUCHED = 0xc5 };

uint64_t tr_next(struct tr_rng *rng)
{
	uint64_t z = rng->state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

int tr_below(struct tr_rng *rng, int n)
{
	uint64_t v = tr_next(rng);

	return n < 2 ? 0 : (int)(v % (uint64_t)n);
}

int tr_between(struct tr_rng *rng, int low, int high)
{
	return low + tr_below(rng, high - low + 1);
}

bool tr_chance(struct tr_rng *rng, int percent)
{
	return tr_below(rng, 100) < percent;
}

uint64_t tr_mix(uint64_t a, uint64_t b)
{
	struct tr_rng rng = {a ^ (b + 0x632be59bd9b4e019u) * 0xd1342543de82ef95u};

	return tr_next(&rng);
}

uint64_t tr_key(const struct tr_run *r, int a, int b)
{
	return tr_mix(tr_mix(r->seed, (uint64_t)r->step), (uint64_t)a << 32 | (uint32_t)b);
}

struct tr_buffer *tr_buffer_new(const struct tr_type *t, int n)
{
	struct tr_buffer *b = malloc(sizeof(*b));
	size_t data = (size_t)n * (size_t)t->extent;

	if (!b)
		abort();
	b->length = data + 2 * MARGIN;
	b->bytes = malloc(b->length);
	if (!b->bytes)
		abort();
	memset(b->bytes, UNTOUCHED, b->length);
	b->at = b->bytes + MARGIN - t->lb;
	return b;
}

void tr_buffer_free(struct tr_buffer *b)
{
	if (!b)
		return;
	free(b->bytes);
	free(b);
}

void tr_buffer_fill(struct tr_buffer *b, const struct tr_type *t, int first, int n, uint64_t key)
{
	struct tr_rng stream = {key};
	uint64_t word = 0;
	int left = 0;

	for (int i = first; i < first + n; i++) {
		char *element = b->at + (ptrdiff_t)i * t->extent;

		for (int k = 0; k < t->size; k++) {
			if (!left--) {
				word = tr_next(&stream);
				left = 7;
			}
			element[t->at[k]] = (char)word;
			word >>= 8;
		}
	}
}

void tr_digest(struct tr_run *r, const void *data, size_t length)
{
	const unsigned char *p = data;
	uint64_t h = tr_mix(r->seed, length), w;

	for (; length >= 8; p += 8, length -= 8) {
		memcpy(&w, p, 8);
		h = (h ^ w) * 0x9fb21c651e98df25u;
		h ^= h >> 29;
	}
	w = 0;
	memcpy(&w, p, length);
	/* a sum, so that the digest does not depend on the order of arrival */
	r->digest += tr_mix(h, w);
}

void tr_buffer_check(struct tr_run *r, const char *what, const struct tr_buffer *got,
	const struct tr_buffer *want)
{
	size_t i = 0;

	if (memcmp(got->bytes, want->bytes, got->length)) {
		while (got->bytes[i] == want->bytes[i])
			i++;
		tr_fail(r, "%s: byte %td of %zu is 0x%02x, expected 0x%02x%s", what,
			got->bytes + i - got->at, got->length - 2 * MARGIN,
			(unsigned char)got->bytes[i], (unsigned char)want->bytes[i],
			(unsigned char)got->bytes[i] == UNTOUCHED ? " (never written)" : "");
	}
	tr_digest(r, got->bytes, got->length);
}
