/* SPDX-License-Identifier: Apache-2.0
 * The pipeline with a backend in memory that can stop and fail: the objects do not depend on the
 * threads, adding waits for a free buffer, the first failure is reported and no put begins after
 * it, and closing leaves no put running. Writers of many processes at once. */
#include "config.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "storage/image/image.h"
#include "storage/image/pipeline.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"

#define SIZE 262144u
#define OBJECTS 24u
#define CHUNKS (OBJECTS * (GCK_OBJECT_MAX / SIZE))

struct memory_backend {
	struct gck_backend head;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned gate;            /* puts that may begin; UINT_MAX: all */
	unsigned begun, ended, under_way, most;
	unsigned fails;           /* the n-th put to begin fails, counted from 1; 0: none */
	char names[OBJECTS + 8][GCK_NAME_MAX];
};

static int memory_put(struct gck_backend *b, const char *name, const void *data, size_t size,
		      bool shared, struct gck_error *err)
{
	struct memory_backend *m = (struct memory_backend *)b;
	unsigned number;

	(void)data;
	(void)shared;
	pthread_mutex_lock(&m->lock);
	number = ++m->begun;
	if (++m->under_way > m->most)
		m->most = m->under_way;
	pthread_cond_broadcast(&m->changed);
	while (number > m->gate)
		pthread_cond_wait(&m->changed, &m->lock);
	m->under_way--;
	if (m->ended < OBJECTS + 8)
		snprintf(m->names[m->ended], GCK_NAME_MAX, "%s", name);
	m->ended++;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
	if (number == m->fails)
		return gck_fail(err, EIO, "put %s of %zu bytes: the test says no (%u)", name, size,
				number);
	return 0;
}

static const struct gck_backend_ops memory_ops = { .put_object = memory_put };

static void memory_init(struct memory_backend *m, unsigned gate, unsigned fails)
{
	memset(m, 0, sizeof *m);
	m->head.ops = &memory_ops;
	m->head.where = (char *)"memory";
	m->head.parallel = 3;
	m->gate = gate;
	m->fails = fails;
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->changed, NULL);
}

static void open_gate(struct memory_backend *m, unsigned gate)
{
	pthread_mutex_lock(&m->lock);
	m->gate = gate;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
}

static void await_begun(struct memory_backend *m, unsigned n)
{
	pthread_mutex_lock(&m->lock);
	while (m->begun < n)
		pthread_cond_wait(&m->changed, &m->lock);
	pthread_mutex_unlock(&m->lock);
}

struct told {
	unsigned objects, chunks, wrong;
};

static int count_done(void *arg, const struct gck_object_buffer *x, struct gck_error *err)
{
	struct told *t = arg;
	uint32_t at = 0;

	(void)err;
	for (uint32_t i = 0; i < x->n; i++) {
		t->wrong += x->chunks[i].offset != at;
		at += x->chunks[i].stored;
	}
	t->wrong += at != x->used || !gck_name_is_object(x->name);
	t->objects++;
	t->chunks += x->n;
	return 0;
}

static struct gck_pipeline *open_over(struct memory_backend *m, unsigned cpus, unsigned objects,
				      enum gck_compress method, struct told *t)
{
	struct gck_options o = options_(method);
	struct gck_pipeline_plan plan = { .dir = "1-a", .options = &o, .cpus = cpus,
					  .memory = objects * (size_t)GCK_OBJECT_MAX,
					  .done = count_done, .arg = t };

	return gck_pipeline_open(&m->head, &plan, NULL);
}

/* Fill chunk i: half of it is noise, so that threads need time to compress it. */
static int add(struct gck_pipeline *p, unsigned i, struct gck_error *err)
{
	static unsigned char data[SIZE];
	struct gck_chunk c = { .index = i, .size = SIZE };

	fill(data, SIZE / 8, i);
	c.hash = gck_hash_bytes(data, SIZE);
	return gck_pipeline_add(p, data, &c, false, err);
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The objects are the same for any number of threads and buffers. */
static void test_same(enum gck_compress method, const char *what)
{
	static struct memory_backend first, m;
	const unsigned cpus[] = { 1, 2, 16 }, objects[] = { 2, 3, 8 };

	for (size_t k = 0; k < 3; k++) {
		struct memory_backend *b = k ? &m : &first;
		struct told t = { 0 };
		struct gck_pipeline *p;
		int rc = 0;

		memory_init(b, UINT_MAX, 0);
		p = open_over(b, cpus[k], objects[k], method, &t);
		for (unsigned i = 0; i < CHUNKS && rc == 0; i++)
			rc = add(p, i, NULL);
		rc |= gck_pipeline_finish(p, NULL);
		gck_pipeline_close(p);
		ok(all_of(rc == 0, t.objects == OBJECTS, t.chunks == CHUNKS, !t.wrong),
		   "%s: %u threads put all objects from %u buffers", what, cpus[k], objects[k]);
		ok(b->most <= objects[k], "no more puts at once than buffers: %u",
		   b->most);
		qsort(b->names, OBJECTS, GCK_NAME_MAX, compare);
	}
	ok(!memcmp(first.names, m.names, OBJECTS * (size_t)GCK_NAME_MAX), "%s: the same names",
	   what);
}

/* ---- back-pressure -------------------------------------------------------------------------- */

struct adder {
	struct gck_pipeline *p;
	pthread_mutex_t lock;
	unsigned added;
	int rc;
};

static void *add_all(void *arg)
{
	struct adder *a = arg;

	for (unsigned i = 0; i < CHUNKS && a->rc == 0; i++) {
		a->rc = add(a->p, i, NULL);
		pthread_mutex_lock(&a->lock);
		a->added += a->rc == 0;
		pthread_mutex_unlock(&a->lock);
	}
	a->rc |= gck_pipeline_finish(a->p, NULL);
	return NULL;
}

static unsigned added(struct adder *a)
{
	unsigned n;

	pthread_mutex_lock(&a->lock);
	n = a->added;
	pthread_mutex_unlock(&a->lock);
	return n;
}

/* Exactly this many chunks are added, however long the test waits. */
static bool stops_at(struct adder *a, unsigned n)
{
	while (added(a) < n)
		usleep(1000);
	usleep(50000);
	return added(a) == n;
}

/* No put ends: three objects are accepted. */
static void test_back_pressure(void)
{
	struct memory_backend m;
	struct told t = { 0 };
	struct adder a = { .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t thread;

	memory_init(&m, 0, 0);
	a.p = open_over(&m, 2, 3, GCK_COMPRESS_NONE, &t);
	pthread_create(&thread, NULL, add_all, &a);
	await_begun(&m, 3); /* the third is full: the next chunk does not fit */
	ok(stops_at(&a, 3 * (GCK_OBJECT_MAX / SIZE)), "adding waits when three objects are full");
	open_gate(&m, 1);
	await_begun(&m, 4);
	ok(stops_at(&a, 4 * (GCK_OBJECT_MAX / SIZE)), "an object that is done frees a buffer");
	open_gate(&m, UINT_MAX);
	pthread_join(thread, NULL);
	ok(all_of(a.rc == 0, t.objects == OBJECTS), "at the end all objects are put");
	gck_pipeline_close(a.p);
}

/* ---- failures ------------------------------------------------------------------------------- */

static void test_failure(unsigned which, unsigned cpus)
{
	struct memory_backend m;
	struct told t = { 0 };
	struct gck_error err = { 0 }, later = { 0 };
	struct gck_pipeline *p;
	unsigned i, begun;
	int rc = 0;

	memory_init(&m, UINT_MAX, which);
	p = open_over(&m, cpus, 3, GCK_COMPRESS_LZ4, &t);
	for (i = 0; i < CHUNKS && rc == 0; i++)
		rc = add(p, i, &err);
	if (rc == 0)
		rc = gck_pipeline_finish(p, &err);
	ok(all_of(rc < 0, err.code == EIO, strstr(err.text, "put 1-a/")),
	   "failure %u is reported: %s",
	   which, err.text);
	ok(i <= (which + 3) * (GCK_OBJECT_MAX / SIZE) + 1, "at once: at chunk %u", i);
	ok(all_of(gck_pipeline_finish(p, &later) < 0, !strcmp(later.text, err.text)),
	   "the error stays the same");
	pthread_mutex_lock(&m.lock);
	begun = m.begun;
	pthread_mutex_unlock(&m.lock);
	ok(begun < which + 3, "no put begins after it (%u)", begun);
	gck_pipeline_close(p);
	is_int(m.under_way, 0, "no put outlives the pipeline");
}

/* Two objects are full and the first fails: the put of the second does not begin, though the thread
 * is free. */
static void test_nothing_after(void)
{
	struct memory_backend m;
	struct told t = { 0 };
	struct gck_error err = { 0 };
	struct gck_pipeline *p;

	memory_init(&m, 0, 1);
	m.head.parallel = 1;
	p = open_over(&m, 1, 3, GCK_COMPRESS_NONE, &t);
	for (unsigned i = 0; i < 2 * (GCK_OBJECT_MAX / SIZE) + 1; i++)
		add(p, i, NULL);
	open_gate(&m, UINT_MAX);
	ok(all_of(gck_pipeline_finish(p, &err) < 0, err.code == EIO), "the first fails: %s",
	   err.text);
	for (int i = 0; i < 20; i++)
		usleep(1000);
	gck_pipeline_close(p);
	is_int(m.begun, 1, "no put begins after it");
}

/* Close with objects that are full, half full and being put. */
static void test_close(void)
{
	struct memory_backend m;
	struct told t = { 0 };
	struct gck_pipeline *p;

	memory_init(&m, UINT_MAX, 0);
	p = open_over(&m, 2, 4, GCK_COMPRESS_ZSTD, &t);
	for (unsigned i = 0; i < 3 * (GCK_OBJECT_MAX / SIZE) + 5; i++)
		add(p, i, NULL);
	gck_pipeline_close(p);
	ok(all_of(m.under_way == 0, m.begun == m.ended), "closed while puts are under way");
}

/* ---- many processes ------------------------------------------------------------------------- */

static const uint64_t common_seeds[] = { 1, 2, 3, 4, 5, 6, 7, 8 };

/* A worker: forked, then with its own threads. Common chunks come first. */
static int write_as_rank(const char *url, uint32_t rank, char hash[GCK_HASH_TEXT])
{
	struct gck_store *s = gck_store_open(url, "c", 1, 0, true, NULL);
	struct gck_writer *w;
	const uint64_t own[] = { 100 + rank, 200 + rank };
	static unsigned char data[GCK_CHUNK_MAX];
	struct gck_chunk c;
	int rc = 0;

	gck_store_limit(s, 2, 0);
	w = open_writer(s, 1, "a", GCK_COMPRESS_LZ4, NULL, NULL);
	rc |= gck_writer_shared(w, true, NULL);
	for (size_t i = 0; i < 8; i++) {
		fill(data, sizeof data, common_seeds[i]);
		rc |= gck_writer_put(w, data, sizeof data, &c, NULL);
	}
	rc |= gck_writer_shared(w, false, NULL);
	rc |= write_rank(w, rank, own, 2, GCK_CHUNK_MAX, hash, NULL);
	gck_writer_close(w);
	gck_store_close(s);
	return rc;
}

#define RANKS 12

static uint64_t bytes_in(const char *root, size_t *objects)
{
	char dir[256], path[600];
	struct dirent *e;
	struct stat st;
	uint64_t sum = 0;
	DIR *d;

	*objects = 0;
	snprintf(dir, sizeof dir, "%s/c/1/0/1-a", root);
	d = opendir(dir);
	while (d && (e = readdir(d))) {
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		if (strlen(e->d_name) == 32 && stat(path, &st) == 0) {
			sum += (uint64_t)st.st_size;
			++*objects;
		}
	}
	if (d)
		closedir(d);
	return sum;
}

static void test_processes(void)
{
	static char (*hashes)[GCK_HASH_TEXT];
	char root[ROOT_MAX], url[URL_MAX], hash[GCK_HASH_TEXT];
	struct gck_error err = { 0 };
	pid_t pids[RANKS];
	struct gck_store *s;
	json_t *commit;
	size_t objects;
	int status, bad = 0;

	make_root(root, url);
	hashes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	s = gck_store_open(url, "c", 1, 0, true, &err);
	fflush(stdout);
	for (uint32_t r = 0; r < RANKS; r++) {
		pids[r] = fork();
		if (pids[r] == 0)
			_exit(write_as_rank(url, r, hashes[r]) != 0);
	}
	for (uint32_t r = 0; r < RANKS; r++)
		bad += waitpid(pids[r], &status, 0) != pids[r] || status;
	is_int(bad, 0, "twelve processes write at once");
	commit = commit_of(1, "a", hashes, RANKS);
	ok(all_of(gck_store_commit(s, 1, commit, hash, &err) == 0,
		  gck_store_verify(s, 1, hash, NULL, &err) == 0), "what they wrote is intact %s",
	   err.text);
	is_int((long long)bytes_in(root, &objects), (8 + 2 * RANKS) * (long long)GCK_CHUNK_MAX,
	       "common chunks are stored once");
	is_int((long long)objects, 1 + RANKS, "in one common object");
	json_decref(commit);
	gck_store_close(s);
	munmap(hashes, 4096);
	remove_tree(root);
}

int main(void)
{
	test_same(GCK_COMPRESS_NONE, "none");
	test_same(GCK_COMPRESS_LZ4, "lz4");
	test_back_pressure();
	test_failure(1, 1);
	test_failure(1, 8);
	test_failure(7, 2);
	test_failure(OBJECTS, 2);
	test_nothing_after();
	test_close();
	test_processes();
	return tap_done();
}
