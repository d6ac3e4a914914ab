/* SPDX-License-Identifier: Apache-2.0
 * Writing the rank's device data for the image, while the rank runs on. If the previous commit is
 * known, the GPU hashes its page groups, and only page groups that the commit lacks are
 * transferred. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/process/capture/capture.h"
#include "shim/process/gpu/gpu.h"

#define PIECES_MAX (1u << 22)
#define ADDRESS_MAX (1ull << 56)
#define LOOK_MS 100 /* interval of checks for a cancelled write */

_Static_assert(GCK_LINK_DATA_PAGE_GROUP == GCK_GROUP_BYTES,
	       "hashes are of the image's page groups");

/* A GET or HASH under way; answers come in the same order. */
struct asked {
	uint32_t type; /* GCK_LINK_DATA_GET, _HASH */
	struct gck_range range;
};

struct reading {
	struct gck_output *o;
	struct gck_device_channel d;
	bool hashes;                 /* ask for hashes first */
	struct gck_ranges pieces;    /* not asked for yet: from `piece` on */
	size_t piece;
	struct gck_ranges wanted;    /* bytes to GET: from `want` on */
	size_t want;
	struct asked asked[GCK_DEVICE_RING_SLOTS]; /* a ring, parallel to the slots of device
						    * data */
	unsigned first, n;
};

static int broken(struct reading *r, const struct gck_link_data *m)
{
	return gck_fail(r->o->err, EPROTO,
			"its CUDA part sent an invalid packet about device data: %u, %llx, %llx",
			m->type, (unsigned long long)m->address, (unsigned long long)m->size);
}

/* Wait for a packet, as long as the rank lives and nobody cancels the write. Callers that wait for
 * progress have limits of their own. */
static int receive(struct reading *r, struct gck_link_data *m)
{
	int rc;

	while ((rc = gck_device_channel_receive(&r->d, m, LOOK_MS, r->o->err)) == 0)
		if (gck_output_count(r->o, 0))
			return -1;
	return rc < 0 ? -1 : 0;
}

/* ---- the list ------------------------------------------------------------------------------ */

static int take_piece(struct reading *r, const struct gck_link_data *m)
{
	const struct gck_ranges *p = &r->pieces;

	if (!m->size || m->address % GCK_PAGE || m->size % GCK_PAGE || m->address >= ADDRESS_MAX ||
	    m->size >= ADDRESS_MAX || p->n == PIECES_MAX ||
	    (p->n && m->address <= p->v[p->n - 1].end))
		return broken(r, m);
	return gck_ranges_add(&r->pieces, m->address, m->address + m->size, r->o->err);
}

static int take_list(struct reading *r)
{
	struct gck_link_data m = {.type = GCK_LINK_DATA_LIST};

	gck_device_channel_send(&r->d, &m, NULL);
	for (;;) {
		if (receive(r, &m))
			return -1;
		if (m.type == GCK_LINK_DATA_END)
			return m.value ? gck_fail(r->o->err, (int)m.value, "%s", m.why) : 0;
		if (m.type != GCK_LINK_DATA_PIECE)
			return broken(r, &m);
		if (take_piece(r, &m))
			return -1;
	}
}

/* ---- questions ----------------------------------------------------------------------------- */

/* Take up to `most` bytes off the list's first range, to the end of a page group. */
static struct gck_range cut(const struct gck_ranges *list, size_t *first, uint64_t max_bytes)
{
	struct gck_range *r = &list->v[*first], taken = *r;
	uint64_t end = (taken.start / GCK_GROUP_BYTES + max_bytes / GCK_GROUP_BYTES) *
		       GCK_GROUP_BYTES;

	if (end < taken.end)
		r->start = taken.end = end;
	else
		++*first;
	return taken;
}

static void ask(struct reading *r, uint32_t type, struct gck_range range)
{
	unsigned slot = (r->first + r->n++) % GCK_DEVICE_RING_SLOTS;

	r->asked[slot] = (struct asked){type, range};
	gck_device_channel_send(&r->d, &(struct gck_link_data){.type = type, .address = range.start,
		       .size = range.end - range.start,
		       .number = (uint64_t)slot * GCK_LINK_DATA_GET_MAX}, NULL);
}

/* Add a range to `wanted`. Adjoining ranges belong to one piece, since pieces are not adjacent. */
static int want(struct reading *r, uint64_t start, uint64_t end)
{
	struct gck_ranges *w = &r->wanted;

	if (r->want == w->n)
		r->want = w->n = 0;
	if (w->n && w->v[w->n - 1].end == start) {
		w->v[w->n - 1].end = end;
		return 0;
	}
	return gck_ranges_add(w, start, end, r->o->err);
}

static int ask_on(struct reading *r)
{
	while (r->n < GCK_DEVICE_RING_SLOTS) {
		struct gck_range x;

		if (r->want < r->wanted.n) {
			ask(r, GCK_LINK_DATA_GET, cut(&r->wanted, &r->want, GCK_LINK_DATA_GET_MAX));
			continue;
		}
		if (r->piece == r->pieces.n)
			return 0;
		x = cut(&r->pieces, &r->piece, GCK_LINK_DATA_HASH_MAX);
		if (r->hashes)
			ask(r, GCK_LINK_DATA_HASH, x);
		else if (want(r, x.start, x.end))
			return -1;
	}
	return 0;
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Take the first page group off a range: the part of it that the range covers. */
static struct gck_page_group next_group(struct gck_range *x, uint64_t *size)
{
	struct gck_page_group w = {.address = x->start / GCK_GROUP_BYTES * GCK_GROUP_BYTES};
	uint64_t end = w.address + GCK_GROUP_BYTES < x->end ? w.address + GCK_GROUP_BYTES : x->end;
	unsigned n = (unsigned)((end - x->start) / GCK_PAGE);

	w.mask = (n == GCK_GROUP_PAGES ? ~0ull : (1ull << n) - 1)
		 << (x->start - w.address) / GCK_PAGE;
	*size = end - x->start;
	x->start = end;
	return w;
}

static bool all_zero(const unsigned char *data, uint64_t size)
{
	return !data[0] && !memcmp(data, data + 1, size - 1);
}

/* Store page groups whole, unless they are all zero: leaving out single pages would change the
 * hash. */
static int take_bytes(struct reading *r, struct gck_range x, const unsigned char *data)
{
	struct gck_output *o = r->o;

	while (x.start < x.end) {
		uint64_t size;
		struct gck_page_group w = next_group(&x, &size);
		int rc = all_zero(data, size) ? gck_output_count(o, size)
					      : gck_output_put(o, &o->c->img->device, w.address,
							       w.mask, (const char *)data);

		if (rc)
			return -1;
		data += size;
	}
	return 0;
}

static struct gck_hash hash_of_zeros(uint64_t size)
{
	static struct gck_hash known[GCK_GROUP_PAGES + 1];
	static const unsigned char zeros[GCK_GROUP_BYTES];
	struct gck_hash *h = &known[size / GCK_PAGE];

	if (!h->hi && !h->lo)
		*h = gck_hash_bytes(zeros, size);
	return *h;
}

static int take_hash(struct reading *r, struct gck_page_group *w, uint64_t start, uint64_t size,
		     struct gck_hash hash)
{
	struct gck_output *o = r->o;
	int known;

	if (gck_hash_same(hash, hash_of_zeros(size)))
		return gck_output_count(o, size);
	known = gck_writer_find(o->w, hash, (uint32_t)size, &w->chunk, o->err);
	if (known <= 0)
		return known < 0 ? -1 : want(r, start, start + size);
	return gck_page_groups_add(&o->c->img->device, w, o->err) || gck_output_count(o, size) ? -1
											       : 0;
}

static int take_hashes(struct reading *r, struct gck_range x, const unsigned char *data)
{
	while (x.start < x.end) {
		uint64_t size, start = x.start;
		struct gck_page_group w = next_group(&x, &size);
		struct gck_hash hash;

		memcpy(&hash, data, sizeof hash);
		if (take_hash(r, &w, start, size, hash))
			return -1;
		data += sizeof hash;
	}
	return 0;
}

static int take_answer(struct reading *r)
{
	const struct asked *a = &r->asked[r->first];
	const unsigned char *data = r->d.ring + (uint64_t)r->first * GCK_LINK_DATA_GET_MAX;
	struct gck_link_data m;

	if (receive(r, &m))
		return -1;
	if (m.type != GCK_LINK_DATA_READY || m.address != a->range.start ||
	    m.size != a->range.end - a->range.start)
		return broken(r, &m);
	r->first = (r->first + 1) % GCK_DEVICE_RING_SLOTS;
	r->n--;
	if (m.value == ENOTSUP && a->type == GCK_LINK_DATA_HASH) {
		r->hashes = false;
		return want(r, a->range.start, a->range.end);
	}
	if (m.value)
		return gck_fail(r->o->err, (int)m.value, "%s", m.why);
	return a->type == GCK_LINK_DATA_HASH ? take_hashes(r, a->range, data)
					     : take_bytes(r, a->range, data);
}

static int read_all(struct reading *r)
{
	if (take_list(r))
		return -1;
	do {
		if (ask_on(r))
			return -1;
		if (r->n && take_answer(r))
			return -1;
	} while (r->n || r->want < r->wanted.n || r->piece < r->pieces.n);
	gck_device_channel_send(&r->d, &(struct gck_link_data){.type = GCK_LINK_DATA_DONE}, NULL);
	return 0;
}

int gck_output_device(struct gck_output *o)
{
	struct reading r = {.o = o, .hashes = o->c->device_hashes};
	int result;

	if (o->c->device[0] < 0)
		return 0;
	if (gck_device_channel_open(&r.d, o->c->device, o->err))
		return -1;
	result = read_all(&r);
	gck_device_channel_close(&r.d);
	free(r.pieces.v);
	free(r.wanted.v);
	gck_page_groups_sort(&o->c->img->device);
	if (!result)
		return 0;
	if (o->err && o->err->code == ECONNRESET) /* it ends, or executes another program */
		o->err->code = EAGAIN;
	return gck_fail_in(o->err, "what its devices have");
}
