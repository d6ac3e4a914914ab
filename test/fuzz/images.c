/* SPDX-License-Identifier: Apache-2.0
 * Manifests of ranks: an image that is taken is in order, and what is written of it is taken and
 * written again as the same. Half of the mutations change one value of the document, since bytes
 * that are changed anywhere are mostly no JSON. */
#include <sanitizer/asan_interface.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/process/image/image.h"
#include "storage/document/document.h"
#include "storage/document/json.h"

#define VALUES_MAX 65536u
#define LAST_MAX 32768u

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

/* In place of document.c, which has all of encryption. */
bool gck_document_is_encrypted(const json_t *document)
{
	return json_object_get(document, "sealed") != NULL;
}

static void must(bool is)
{
	if (!is)
		abort();
}

/* ---- jansson's memory ------------------------------------------------------------------------ */

/* Pieces that are not used again before all are freed: faster than malloc. AddressSanitizer finds
 * here what it finds in malloc's: what is not allocated is poisoned, sizes before pieces, too. */
static _Alignas(16) unsigned char arena[64u << 20];
static size_t arena_used, pieces;

struct piece {
	_Alignas(16) size_t size; /* of what follows */
};

__attribute__((no_sanitize("address"))) static void *piece_alloc(size_t size)
{
	struct piece *p = (struct piece *)(arena + arena_used);

	must(size < sizeof arena / 2);
	arena_used += (sizeof *p + size + 15) / 16 * 16;
	must(arena_used <= sizeof arena);
	p->size = size;
	pieces++;
	ASAN_UNPOISON_MEMORY_REGION(p + 1, size);
	return p + 1;
}

__attribute__((no_sanitize("address"))) static void piece_free(void *data)
{
	if (!data)
		return;
	must(!__asan_address_is_poisoned(data));
	pieces--;
	ASAN_POISON_MEMORY_REGION(data, ((struct piece *)data - 1)->size);
}

static void reuse_arena(void)
{
	must(pieces == 0);
	arena_used = 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	ASAN_POISON_MEMORY_REGION(arena, sizeof arena);
	json_set_alloc_funcs(piece_alloc, piece_free);
	return 0;
}

/* ---- the image ------------------------------------------------------------------------------- */

static json_t *written(const struct gck_image *image, const json_t *from)
{
	json_t *j = gck_image_to_json(image, NULL);

	must(j && !json_object_set(j, "store", json_object_get(from, "store")));
	return j;
}

static void check_same(const struct gck_image *image, const json_t *from)
{
	json_t *document = written(image, from), *parsed, *again;
	char *text = gck_json_text(document);
	struct gck_image *back;

	parsed = gck_json_parse(text, strlen(text), NULL);
	free(text);
	back = gck_image_from_json(parsed, NULL);
	must(back != NULL);
	again = written(back, parsed);
	must(json_equal(document, again));
	gck_image_free(back);
	json_decref(parsed);
	json_decref(document);
	json_decref(again);
}

/* What restore takes for granted. */
static void check_order(const struct gck_image *image)
{
	for (size_t i = 0; i < image->nmaps; i++) {
		const struct gck_map *m = &image->maps[i];

		must(m->start < m->end && m->start % GCK_PAGE == 0 && m->end % GCK_PAGE == 0);
		must(!i || image->maps[i - 1].end <= m->start);
		must(m->content < (int64_t)image->ncontents);
		must(m->object < (int64_t)image->nobjects);
	}
	for (size_t i = 0; i < image->nfds; i++)
		must(image->fds[i].file < image->nfiles);
	for (size_t i = 0; i < image->nfiles; i++)
		must(image->files[i].object < (int64_t)image->nobjects);
	must(image->nthreads > 0 && image->exe[0] == '/' && image->cwd[0] == '/');
}

/* The last image that was taken: some mutations begin with it, since a change seldom mends what
 * another has spoilt. */
static uint8_t last[LAST_MAX];
static size_t last_size;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(1, size + 1);
	struct gck_error err = { 0 };
	json_t *document;
	struct gck_image *image;

	memcpy(text, data, size);
	document = gck_json_parse(text, size, NULL);
	free(text);
	image = document ? gck_image_from_json(document, &err) : NULL;
	if (image) {
		check_order(image);
		check_same(image, document);
		gck_image_free(image);
		if (size <= sizeof last) {
			memcpy(last, data, size);
			last_size = size;
		}
	}
	must(!document || image || (err.code && *err.text));
	json_decref(document);
	reuse_arena();
	return 0;
}

/* ---- mutations of one value ------------------------------------------------------------------ */

/* The containers and places of all values, in order. */
struct place {
	json_t *in;
	const char *key;
	size_t at;
};

static size_t find_places(json_t *j, struct place *places, size_t n)
{
	const char *key;
	json_t *value;
	size_t i;

	json_object_foreach(j, key, value) {
		if (n < VALUES_MAX)
			places[n++] = (struct place){j, key, 0};
		n = find_places(value, places, n);
	}
	json_array_foreach(j, i, value) {
		if (n < VALUES_MAX)
			places[n++] = (struct place){j, NULL, i};
		n = find_places(value, places, n);
	}
	return n;
}

static json_t *value_at(const struct place *p)
{
	return p->key ? json_object_get(p->in, p->key) : json_array_get(p->in, p->at);
}

static json_t *changed_text(const json_t *old)
{
	size_t size = json_string_length(old), max = size + 32;
	char *text = calloc(1, max + 1);
	json_t *new;

	memcpy(text, json_string_value(old), size);
	size = LLVMFuzzerMutate((uint8_t *)text, size, max);
	new = json_stringn(text, size);
	free(text);
	return new ? new : json_string("");
}

static json_t *changed_number(const json_t *old)
{
	json_int_t value = json_integer_value(old);
	static const json_int_t edges[] = {-1, 0, 1, INT32_MAX, UINT32_MAX, INT64_MAX, INT64_MIN};

	if (rand() % 2)
		return json_integer(edges[(size_t)rand() % (sizeof edges / sizeof *edges)]);
	LLVMFuzzerMutate((uint8_t *)&value, sizeof value, sizeof value);
	return json_integer(value);
}

static json_t *changed(const json_t *old)
{
	if (json_is_string(old))
		return changed_text(old);
	if (json_is_integer(old))
		return changed_number(old);
	return json_is_boolean(old) ? json_boolean(json_is_false(old)) : json_null();
}

static void change_one(const struct place *places, size_t n)
{
	const struct place *p = &places[(size_t)rand() % n], *q = &places[(size_t)rand() % n];
	int how = rand() % 8;

	if (how == 0 && p->key)
		json_object_del(p->in, p->key);
	else if (how == 0)
		json_array_remove(p->in, p->at);
	else if (how == 1 && !p->key)
		json_array_insert_new(p->in, p->at, json_deep_copy(value_at(p)));
	else if (p->key)
		json_object_set_new(p->in, p->key, how == 2 ? json_deep_copy(value_at(q)) :
							      changed(value_at(p)));
	else
		json_array_set_new(p->in, p->at, how == 2 ? json_deep_copy(value_at(q)) :
							    changed(value_at(p)));
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	static struct place places[VALUES_MAX];
	json_t *document;
	size_t n;

	srand(seed);
	if (seed % 16 == 1 && last_size && last_size <= max) {
		memcpy(data, last, last_size);
		size = last_size;
	}
	document = seed % 2 ? json_loadb((char *)data, size, 0, NULL) : NULL;
	n = find_places(document, places, 0);
	if (!n) {
		json_decref(document);
		reuse_arena();
		return LLVMFuzzerMutate(data, size, max);
	}
	change_one(places, n);
	n = json_dumpb(document, (char *)data, max, JSON_COMPACT);
	json_decref(document);
	reuse_arena();
	return n <= max ? n : size;
}
