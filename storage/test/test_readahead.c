/* SPDX-License-Identifier: Apache-2.0
 * Reading ahead: for any plan and any order of reading the bytes are those that were put;
 * neighbouring chunks are fetched together; damage is reported for the damaged chunk only. */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>

#include "storage/image/image.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"
#include "test/support/read_chunk.h"

#define CHUNKS 150u
#define SIZE GCK_CHUNK_MAX

static char root[ROOT_MAX], url[URL_MAX];
static struct gck_store *s;
static json_t *manifest;
static struct gck_chunk *chunks;

/* ---- a store whose gets are counted --------------------------------------------------------- */

static const struct gck_backend_ops *real;
static struct gck_backend_ops counting;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned gets, ngetters;
static pthread_t getters[64];

static int counted_get(struct gck_backend *b, const char *name, uint64_t offset, void *data,
		       size_t size, struct gck_error *err)
{
	unsigned i = 0;

	pthread_mutex_lock(&lock);
	gets++;
	while (i < ngetters && !pthread_equal(getters[i], pthread_self()))
		i++;
	if (i == ngetters && i < 64)
		getters[ngetters++] = pthread_self();
	pthread_mutex_unlock(&lock);
	return real->get(b, name, offset, data, size, err);
}

static void make_content(unsigned char *data, unsigned i)
{
	memset(data, (int)i, SIZE);
	fill(data, i % 3 ? SIZE / 4 : SIZE, i); /* every third is stored raw */
}

static void write_image(enum gck_compress method)
{
	struct gck_writer *w = open_writer(s, 1, "a", method, NULL, NULL);
	static unsigned char data[SIZE];
	char hashes[1][GCK_HASH_TEXT], hash[GCK_HASH_TEXT];
	json_t *m = json_object(), *commit;
	struct gck_chunk c;
	size_t n = 0;

	for (unsigned i = 0; i < CHUNKS; i++) {
		make_content(data, i);
		must(gck_writer_put(w, data, SIZE, &c, NULL));
	}
	must(gck_writer_manifest(w, 0, m, hashes[0], NULL));
	gck_writer_close(w);
	json_decref(m);
	commit = commit_of(1, "a", hashes, 1);
	must(gck_store_commit(s, 1, commit, hash, NULL));
	json_decref(manifest);
	manifest = gck_store_read_manifest(s, commit, 0, NULL);
	json_decref(commit);
	free(chunks);
	chunks = NULL;
	if (load_chunks(manifest, &chunks, &n, NULL) < 0 || n != CHUNKS)
		exit(99);
}

/* ---- plans ---------------------------------------------------------------------------------- */

struct order {
	unsigned v[4 * CHUNKS], n, at;
};

static bool next_planned(void *arg, struct gck_chunk *c)
{
	struct order *o = arg;

	if (o->at == o->n)
		return false;
	*c = chunks[o->v[o->at++]];
	return true;
}

static unsigned wrong(struct gck_reader *r, const struct order *asked)
{
	static unsigned char want[SIZE], got[SIZE];
	unsigned bad = 0;

	for (unsigned i = 0; i < asked->n; i++) {
		const struct gck_chunk *c = &chunks[asked->v[i]];
		const void *view = got;

		make_content(want, asked->v[i]);
		if (i % 2 ? read_chunk(r, c, got, NULL) < 0 :
			    !(view = gck_reader_view(r, c, NULL)))
			bad++;
		else
			bad += memcmp(view, want, SIZE) != 0;
	}
	return bad;
}

static void check(struct order *planned, const struct order *asked, const char *what)
{
	struct gck_reader *r = gck_reader_open(s, manifest, NULL);

	planned->at = 0;
	ok(all_of(gck_reader_plan(r, next_planned, planned, NULL) == 0, wrong(r, asked) == 0),
	   "%s", what);
	gck_reader_close(r);
}

static void test_plans(const char *what)
{
	static struct order all, back, few, random, twice, none;
	struct gck_reader *r;

	all.n = back.n = few.n = random.n = twice.n = 0;
	for (unsigned i = 0; i < CHUNKS; i++) {
		all.v[all.n++] = i;
		back.v[back.n++] = CHUNKS - 1 - i;
		if (i % 7 == 3 || i % 11 == 5)
			few.v[few.n++] = i;
		twice.v[twice.n++] = i;
		twice.v[twice.n++] = i / 2;
	}
	for (random.n = 0; random.n < CHUNKS; random.n++)
		random.v[random.n] = (unsigned)(rnd() % CHUNKS);
	printf("# %s\n", what);
	check(&all, &all, "in the order of the plan");
	check(&back, &back, "backwards, in the order of the plan");
	check(&random, &random, "in a random order of the plan");
	check(&twice, &twice, "the same chunks repeatedly, in the order of the plan");
	check(&all, &few, "some of the planned chunks");
	check(&few, &all, "more than the planned chunks");
	check(&all, &back, "in another order than planned");
	check(&none, &all, "without a plan");
	r = gck_reader_open(s, manifest, NULL);
	all.at = back.at = 0;
	must(gck_reader_plan(r, next_planned, &all, NULL));
	few.n = 3;
	ok(all_of(wrong(r, &few) == 0, gck_reader_plan(r, next_planned, &back, NULL) == 0,
		  wrong(r, &back) == 0), "another plan in the middle of a plan");
	ok(all_of(gck_reader_plan(r, NULL, NULL, NULL) == 0, wrong(r, &few) == 0),
	   "and then no plan");
	few.n = all.at = few.at = 0;
	for (unsigned i = 0; i < CHUNKS; i += 7)
		few.v[few.n++] = i;
	must(gck_reader_plan(r, next_planned, &few, NULL));
	gck_reader_rest(r);
	ok(all_of(wrong(r, &few) == 0, gck_reader_plan(r, next_planned, &all, NULL) == 0,
		  wrong(r, &all) == 0), "and a rest, and a plan");
	gck_reader_close(r);
}

/* A plan that replaces another, in the middle of it, reads nothing that only that one has. */
static void test_again(struct order *all)
{
	struct gck_reader *r = gck_reader_open(s, manifest, NULL);
	static struct order few = { .n = 3, .v = { 0, 1, 2 } }, twice;

	for (twice.n = 0; twice.n < 2 * CHUNKS; twice.n++)
		twice.v[twice.n] = twice.n % CHUNKS;
	ok(all_of(gck_reader_plan(r, next_planned, &twice, NULL) == 0, wrong(r, &few) == 0,
		  gck_reader_plan(r, NULL, NULL, NULL) == 0), "a few of many, and no plan");
	all->at = gets = 0;
	ok(all_of(gck_reader_plan(r, next_planned, all, NULL) == 0, wrong(r, all) == 0), "all");
	is_int(gets, 10, "the same requests as without an earlier plan");
	gck_reader_close(r);
}

static void test_together(void)
{
	static struct order all;

	for (all.n = 0; all.n < CHUNKS; all.n++)
		all.v[all.n] = all.n;
	gets = 0;
	check(&all, &all, "all");
	/* 37.5 MiB in three objects, 4 MiB at a time: 4 + 4 + 2 */
	is_int(gets, 10, "neighbouring chunks are fetched together");
	test_again(&all);
	for (all.n = 0; all.n < CHUNKS / 2; all.n++)
		all.v[all.n] = 2 * all.n;
	gets = 0;
	check(&all, &all, "every second chunk");
	is_int(gets, CHUNKS / 2, "other chunks are fetched once, each alone");
}

/* ---- damage --------------------------------------------------------------------------------- */

static void flip(const struct gck_chunk *c)
{
	const json_t *names = json_object_get(json_object_get(manifest, "store"), "objects");
	char path[600], byte;
	int fd;

	snprintf(path, sizeof path, "%s/%s", s->b->where,
		 json_string_value(json_array_get(names, c->object)));
	fd = open(path, O_RDWR);
	if (pread(fd, &byte, 1, c->offset + c->stored / 2) != 1 || (byte ^= 1, 0) ||
	    pwrite(fd, &byte, 1, c->offset + c->stored / 2) != 1)
		exit(99);
	close(fd);
}

static void test_damage(unsigned which)
{
	static struct order all;
	struct gck_reader *r = gck_reader_open(s, manifest, NULL);
	struct gck_error err = { 0 };
	unsigned failed = 0, first = CHUNKS;

	for (all.n = all.at = 0; all.n < CHUNKS; all.n++)
		all.v[all.n] = all.n;
	flip(&chunks[which]);
	must(gck_reader_plan(r, next_planned, &all, NULL));
	for (unsigned i = 0; i < CHUNKS; i++) {
		if (gck_reader_view(r, &chunks[i], &err))
			continue;
		first = failed++ ? first : i;
	}
	gck_reader_close(r);
	ok(all_of(failed == 1, first == which, err.code == EBADMSG, strstr(err.text, "damaged")),
	   "only chunk %u is damaged: %s", which, err.text);
	ok(gck_store_verify(s, 1, NULL, NULL, &err) < 0, "verify finds it");
	flip(&chunks[which]);
}

static void test_gone(void)
{
	const json_t *names = json_object_get(json_object_get(manifest, "store"), "objects");
	/* A fresh store has no objects open. */
	struct gck_store *fresh = gck_store_open(url, "c", 1, 0, false, NULL);
	struct gck_reader *r = gck_reader_open(fresh, manifest, NULL);
	static struct order all;
	struct gck_error err = { 0 };
	char path[600];
	unsigned read = 0;

	for (all.n = all.at = 0; all.n < CHUNKS; all.n++)
		all.v[all.n] = all.n;
	snprintf(path, sizeof path, "%s/%s", s->b->where,
		 json_string_value(json_array_get(names, chunks[CHUNKS - 1].object)));
	unlink(path);
	must(gck_reader_plan(r, next_planned, &all, NULL));
	while (read < CHUNKS && gck_reader_view(r, &chunks[read], &err))
		read++;
	ok(all_of(read < CHUNKS, chunks[read].object == chunks[CHUNKS - 1].object,
		  err.code == ENOENT, strstr(err.text, path + strlen(root))),
	   "an object is missing: %s", err.text);
	gck_reader_close(r);
	gck_store_close(fresh);
}

/* The number of threads shows when each has a chunk to fetch. */
static unsigned getters_with(size_t memory)
{
	static struct order all;

	for (all.n = 0; all.n < CHUNKS; all.n++)
		all.v[all.n] = all.n;
	gck_store_limit(s, 8, memory);
	ngetters = 0;
	check(&all, &all, "with little memory");
	return ngetters;
}

static void test_little(void)
{
	unsigned n;

	is_int(getters_with(0), 1, "one thread without memory");
	n = getters_with((size_t)8 * GCK_CHUNK_MAX);
	ok(n <= 3, "at most as many threads as the memory allows (%u)", n);
}

int main(void)
{
	const enum gck_compress methods[] = {GCK_COMPRESS_NONE, GCK_COMPRESS_LZ4,
					     GCK_COMPRESS_ZSTD};
	const char *const names[] = { "none", "lz4", "zstd" };

	make_root(root, url);
	s = gck_store_open(url, "c", 1, 0, true, NULL);
	real = s->b->ops;
	counting = *real;
	counting.get = counted_get;
	s->b->ops = &counting;
	for (size_t i = 0; i < 3; i++) {
		write_image(methods[i]);
		gck_store_limit(s, 3, (size_t)2 << 20); /* a chunk at a time */
		test_plans(names[i]);
		gck_store_limit(s, 1, (size_t)64 << 20);
		test_plans(names[i]);
		if (i == 0)
			test_together();
		test_damage(0);
		test_damage(CHUNKS / 2);
		test_damage(CHUNKS - 1);
	}
	test_little();
	test_gone();
	gck_store_close(s);
	json_decref(manifest);
	free(chunks);
	remove_tree(root);
	return tap_done();
}
