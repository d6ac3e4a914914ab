/* SPDX-License-Identifier: Apache-2.0
 * The cache of a node: an object that many processes read is fetched once, a process that dies or
 * fails harms no other, and more objects than the cache holds are read correctly. */
#include "config.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "storage/image/image.h"
#include "storage/store/commit.h"
#include "storage/store/node_cache.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"

#define PROCESSES 5
#define OBJECTS 12
#define SIZE 9000000 /* three pieces */

static char root[ROOT_MAX], url[URL_MAX];

/* Shared by all processes. */
static struct shared {
	_Atomic unsigned gets[OBJECTS]; /* and pieces */
	_Atomic int die, fail; /* gets of object 0 that do this */
	_Atomic unsigned slow_ms;
} *shared;

static const struct gck_backend_ops *real;

static void name_of(char name[GCK_NAME_MAX], unsigned i)
{
	snprintf(name, GCK_NAME_MAX, "1-a/%032x", i);
}

static int counted_get(struct gck_backend *b, const char *name, uint64_t offset, void *data,
		       size_t size, struct gck_error *err)
{
	unsigned i = (unsigned)strtoul(strchr(name, '/') + 1, NULL, 16);

	shared->gets[i]++;
	if (shared->slow_ms)
		nanosleep(&(struct timespec){ .tv_nsec = shared->slow_ms * 1000000 }, NULL);
	if (i == 0 && shared->die > 0 && shared->die-- > 0)
		_exit(77);
	if (i == 0 && shared->fail > 0 && shared->fail-- > 0)
		return gck_fail(err, EIO, "told to fail");
	return real->get(b, name, offset, data, size, err);
}

static struct gck_store *far_store(int pool)
{
	static struct gck_backend_ops ops;
	struct gck_store *s = gck_store_open(url, "c", 1, 0, false, NULL);

	real = s->b->ops;
	ops = *real;
	ops.get = counted_get;
	s->b->ops = &ops;
	s->b->remote = true;
	gck_store_use_node_cache(s, pool);
	return s;
}

/* Read each object in three pieces. Returns how many objects have wrong bytes. */
static int read_all(int pool, unsigned objects)
{
	static char want[SIZE], got[SIZE];
	struct gck_store *s = far_store(pool);
	char name[GCK_NAME_MAX];
	int wrong = 0;

	for (unsigned i = 0; i < objects; i++) {
		name_of(name, i);
		fill(want, SIZE, i + 1);
		memset(got, 0, SIZE);
		for (size_t at = 0; at < SIZE; at += SIZE / 3)
			if (gck_node_cache_get(s, name, SIZE, at, got + at, SIZE / 3, NULL) < 0)
				memset(got + at, 0, SIZE / 3);
		wrong += memcmp(want, got, SIZE) != 0;
	}
	gck_store_close(s);
	return wrong;
}

/* Run all processes at once. Returns how many ended with another status than 0 and 77. */
static unsigned many(unsigned objects)
{
	int pool = gck_node_cache_create(NULL), status;
	unsigned bad = 0;

	memset(shared->gets, 0, sizeof shared->gets);
	for (unsigned i = 0; i < PROCESSES; i++)
		if (fork() == 0)
			_exit(read_all(pool, objects));
	while (wait(&status) > 0)
		bad += status != 0 && WEXITSTATUS(status) != 77;
	close(pool);
	return bad;
}

static void put_objects(void)
{
	struct gck_store *s = gck_store_open(url, "c", 1, 0, true, NULL);
	static char data[SIZE];
	char name[GCK_NAME_MAX];
	bool good = s;

	for (unsigned i = 0; good && i < OBJECTS; i++) {
		name_of(name, i);
		fill(data, SIZE, i + 1);
		good = s->b->ops->put_object(s->b, name, data, SIZE, false, NULL) == 0;
	}
	ok(all_of(good, s->b->ops->flush(s->b, NULL) == 0), "%d objects", OBJECTS);
	gck_store_close(s);
}

static void test_once(void)
{
	unsigned most = 0;

	shared->slow_ms = 20;
	is_int(many(3), 0, "five processes read three objects");
	for (unsigned i = 0; i < 3; i++)
		most = shared->gets[i] > most ? shared->gets[i] : most;
	is_int(most, 3, "each of the three blocks was fetched once");
	shared->slow_ms = 0;
}

static void test_full_cache(void)
{
	is_int(many(OBJECTS), 0, "more blocks than slots: all bytes are right");
}

static void test_death(void)
{
	shared->slow_ms = 20;
	shared->die = 2;
	is_int(many(2), 0, "two processes die while they fetch: the others read all bytes");
	ok(all_of(shared->gets[0] == 5, shared->gets[1] == 3),
	   "a third process fetched their block");
	shared->fail = 1;
	is_int(many(2), 0, "one process fails: all read all bytes");
	shared->fail = 1000;
	ok(many(1) == PROCESSES, "all fail: none of them hangs");
	shared->fail = 0;
	shared->slow_ms = 0;
}

/* Ranks with common content, read as in a restart. */
static void write_ranks(void)
{
	struct gck_store *s = gck_store_open(url, "c", 2, 0, true, NULL);
	char hashes[PROCESSES][GCK_HASH_TEXT], hash[GCK_HASH_TEXT];
	static char data[100000];
	struct gck_error err = { 0 };
	struct gck_chunk c;
	json_t *commit;
	int rc = 0;

	for (uint32_t r = 0; r < PROCESSES && rc == 0; r++) {
		struct gck_writer *w = open_writer(s, 1, "a", GCK_COMPRESS_LZ4, NULL, &err);
		json_t *m = json_object();

		for (unsigned i = 0; i < 8 && rc == 0; i++) {
			rc = gck_writer_shared(w, i < 5, &err);
			fill(data, sizeof data, i < 5 ? i : 100 * r + i);
			if (rc == 0)
				rc = gck_writer_put(w, data, sizeof data, &c, &err);
		}
		if (rc == 0)
			rc = gck_writer_manifest(w, r, m, hashes[r], &err);
		json_decref(m);
		gck_writer_close(w);
	}
	commit = commit_of(1, "a", hashes, PROCESSES);
	ok(all_of(rc == 0, gck_store_commit(s, 1, commit, hash, &err) == 0), "ranks: %s", err.text);
	json_decref(commit);
	gck_store_close(s);
}

static _Atomic unsigned *object_gets;

static int count_objects(struct gck_backend *b, const char *name, uint64_t offset, void *data,
			 size_t size, struct gck_error *err)
{
	*object_gets += gck_name_is_object(name);
	return real->get(b, name, offset, data, size, err);
}

struct all {
	struct gck_chunk *v;
	size_t n, at;
};

static bool next(void *arg, struct gck_chunk *c)
{
	struct all *a = arg;

	if (a->at == a->n)
		return false;
	*c = a->v[a->at++];
	return true;
}

static int read_rank(int pool, uint32_t rank)
{
	struct gck_store *s = gck_store_open(url, "c", 2, 0, false, NULL);
	struct gck_backend_ops ops = *s->b->ops;
	json_t *commit, *m;
	struct gck_reader *r;
	struct all all = { 0 };
	int bad = 0;

	real = s->b->ops;
	ops.get = count_objects;
	s->b->ops = &ops;
	s->b->remote = true;
	gck_store_use_node_cache(s, pool);
	commit = gck_store_read_commit(s, 1, NULL, NULL, NULL);
	m = gck_store_read_manifest(s, commit, rank, NULL);
	r = gck_reader_open(s, m, NULL);
	bad += load_chunks(m, &all.v, &all.n, NULL) < 0 || gck_reader_plan(r, next, &all, NULL) < 0;
	for (size_t i = 0; i < all.n; i++)
		bad += !gck_reader_view(r, &all.v[i], NULL);
	gck_reader_close(r);
	free(all.v);
	json_decref(m);
	json_decref(commit);
	s->b->ops = real;
	gck_store_close(s);
	return bad;
}

static void test_readers(void)
{
	int pool = gck_node_cache_create(NULL), status;
	unsigned bad = 0;
	uint64_t bytes;
	struct gck_store *s;

	write_ranks();
	for (uint32_t i = 0; i < PROCESSES; i++)
		if (fork() == 0)
			_exit(read_rank(pool, i));
	while (wait(&status) > 0)
		bad += status != 0;
	close(pool);
	is_int(bad, 0, "five ranks are read");
	is_int(*object_gets, PROCESSES + 1, "the shared object once, and each rank's own");
	s = gck_store_open(url, "c", 2, 0, false, NULL);
	ok(gck_store_verify(s, 1, NULL, &bytes, NULL) == 0, "they are verified");
	is_int((long long)bytes, (5 + 3 * PROCESSES) * 100000,
	       "the shared object is read once for that, too");
	gck_store_close(s);
}

int main(void)
{
	make_root(root, url);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	object_gets = (_Atomic unsigned *)(void *)((char *)shared + 2048);
	put_objects();
	test_once();
	test_full_cache();
	test_death();
	test_readers();
	remove_tree(root);
	return tap_done();
}
