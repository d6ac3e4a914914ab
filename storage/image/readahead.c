/* SPDX-License-Identifier: Apache-2.0
 * Reading chunks ahead of the caller. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "storage/image/codec.h"
#include "storage/image/image.h"
#include "storage/store/node_cache.h"

#define RUN_MAX (4u * 1024 * 1024)
#define RUN_CHUNKS 256
#define HUGE (2u * 1024 * 1024)
#define RUNS_MAX 16u
#define THREADS_MAX 8u

/* Chunks that lie one after the other in an object and are planned in that order. */
struct run {
	enum { WAITING, TAKEN, READY, FAILED } state;
	const char *name;
	uint32_t n, stored, size; /* chunks, their bytes there and here */
	struct gck_chunk chunks[RUN_CHUNKS];
	char *data;
};

struct gck_readahead {
	struct gck_store *s;
	struct gck_readahead_source source;
	gck_plan_fn *plan;         /* NULL: none */
	void *arg;                 /* its */
	uint32_t run_size;
	struct gck_chunk pending;  /* of the plan, in no run yet; size 0: none */

	/* A ring: runs from head on, n of them; at and offset are the next chunk's in the first. */
	struct run runs[RUNS_MAX];
	unsigned nruns, head, n;
	uint32_t at, offset;

	pthread_mutex_t lock;      /* of the runs' states, head, n */
	pthread_cond_t task, ready;
	bool stop;
	unsigned nthreads;
	pthread_t threads[THREADS_MAX];
};

static struct run *run_at(struct gck_readahead *a, unsigned i)
{
	return &a->runs[(a->head + i) % a->nruns];
}

/* ---- threads -------------------------------------------------------------------------------- */

/* The buffers of a thread. */
struct buffers {
	struct gck_codec *codec;
	char *stored;
};

static int decode(struct run *r, struct gck_codec *codec, char *stored)
{
	uint32_t from = 0, to = 0;
	struct gck_hash hash;

	for (uint32_t i = 0; i < r->n; i++) {
		const struct gck_chunk *c = &r->chunks[i];

		if (gck_codec_decode(codec, c, stored + from, r->data + to, NULL) < 0)
			return -1;
		hash = gck_hash_bytes(r->data + to, c->size);
		if (hash.hi != c->hash.hi || hash.lo != c->hash.lo)
			return -1;
		from += c->stored;
		to += c->size;
	}
	return 0;
}

static int read_run(struct gck_readahead *a, const struct run *r, char *stored)
{
	const struct gck_chunk *first = &r->chunks[0];
	struct gck_backend *b = a->s->b;

	uint64_t end = a->source.ends[first->object];

	if (end)
		return gck_node_cache_get(a->s, r->name, end, first->offset, stored, r->stored,
					  NULL);
	return b->ops->get(b, r->name, first->offset, stored, r->stored, NULL);
}

/* Raw chunks are read directly to their destination. */
static int fetch(struct gck_readahead *a, struct run *r, struct buffers *h)
{
	bool raw = !a->source.key && r->stored == r->size;
	char *stored;

	if (!raw && !h->stored && !(h->stored = malloc(a->run_size + RUN_CHUNKS * GCK_CODEC_EXTRA)))
		return -1;
	stored = raw ? r->data : h->stored;
	if (read_run(a, r, stored) < 0)
		return -1;
	return decode(r, h->codec, stored);
}

static struct run *next_waiting(struct gck_readahead *a)
{
	for (unsigned i = 0; i < a->n; i++)
		if (run_at(a, i)->state == WAITING)
			return run_at(a, i);
	return NULL;
}

static void serve(struct gck_readahead *a, struct buffers *h)
{
	pthread_mutex_lock(&a->lock);
	while (!a->stop) {
		struct run *r = next_waiting(a);
		int rc;

		if (!r) {
			pthread_cond_wait(&a->task, &a->lock);
			continue;
		}
		r->state = TAKEN;
		pthread_mutex_unlock(&a->lock);
		rc = h->codec ? fetch(a, r, h) : -1;
		pthread_mutex_lock(&a->lock);
		r->state = rc < 0 ? FAILED : READY;
		pthread_cond_signal(&a->ready);
	}
	pthread_mutex_unlock(&a->lock);
}

static void *work(void *arg)
{
	struct gck_readahead *a = arg;
	struct buffers h = { gck_codec_new(GCK_COMPRESS_NONE, 0, a->source.key, NULL), NULL };

	serve(a, &h);
	gck_codec_free(h.codec);
	free(h.stored);
	return NULL;
}

/* ---- the plan ------------------------------------------------------------------------------- */

static bool continues(const struct gck_readahead *a, const struct run *r, const struct gck_chunk *c)
{
	const struct gck_chunk *last = &r->chunks[r->n - 1];

	return r->n < RUN_CHUNKS && c->object == last->object &&
	       c->offset == last->offset + last->stored && r->size + c->size <= a->run_size;
}

static void append(struct run *r, const struct gck_chunk *c)
{
	r->chunks[r->n++] = *c;
	r->stored += c->stored;
	r->size += c->size;
}

/* Fill the next run from the plan. false: the plan has ended. */
static bool plan_run(struct gck_readahead *a, struct run *r)
{
	struct gck_chunk c;

	if (!a->plan || (!a->pending.size && !a->plan(a->arg, &a->pending)))
		return false;
	r->n = r->stored = r->size = 0;
	r->name = json_string_value(json_array_get(a->source.objects, a->pending.object));
	append(r, &a->pending);
	a->pending.size = 0;
	while (a->plan(a->arg, &c)) {
		if (!continues(a, r, &c)) {
			a->pending = c;
			break;
		}
		append(r, &c);
	}
	return true;
}

/* No thread looks at unused runs: they are filled without the lock. */
static void refill(struct gck_readahead *a)
{
	while (a->n < a->nruns && plan_run(a, run_at(a, a->n))) {
		pthread_mutex_lock(&a->lock);
		run_at(a, a->n)->state = WAITING;
		a->n++;
		pthread_cond_signal(&a->task);
		pthread_mutex_unlock(&a->lock);
	}
}

/* Drop the first run, once no thread works on it. */
static void drop_first(struct gck_readahead *a)
{
	pthread_mutex_lock(&a->lock);
	while (run_at(a, 0)->state == TAKEN)
		pthread_cond_wait(&a->ready, &a->lock);
	a->head = (a->head + 1) % a->nruns;
	a->n--;
	pthread_mutex_unlock(&a->lock);
	a->at = a->offset = 0;
}

static bool is_chunk(const struct gck_chunk *a, const struct gck_chunk *b)
{
	return a->index == b->index && a->object == b->object && a->offset == b->offset &&
	       a->size == b->size;
}

static bool is_near(struct gck_readahead *a, const struct gck_chunk *c)
{
	for (unsigned i = 0; i < a->n; i++) {
		const struct run *r = run_at(a, i);

		for (uint32_t k = i ? 0 : a->at; k < r->n; k++)
			if (is_chunk(&r->chunks[k], c))
				return true;
	}
	return false;
}

static bool await_first(struct gck_readahead *a)
{
	bool ready;

	pthread_mutex_lock(&a->lock);
	while (run_at(a, 0)->state < READY)
		pthread_cond_wait(&a->ready, &a->lock);
	ready = run_at(a, 0)->state == READY;
	pthread_mutex_unlock(&a->lock);
	return ready;
}

/* Go to the next chunk; a finished run is dropped. */
static void advance(struct gck_readahead *a)
{
	while (a->n && a->at == run_at(a, 0)->n)
		drop_first(a);
	refill(a);
}

const void *gck_readahead_next(struct gck_readahead *a, const struct gck_chunk *c)
{
	const void *data = NULL;
	bool found = false;

	advance(a);
	if (!is_near(a, c))
		return NULL;
	while (!found) {
		const struct run *r = run_at(a, 0);

		for (; a->at < r->n && !found; a->at++) {
			found = is_chunk(&r->chunks[a->at], c);
			if (found)
				data = r->data + a->offset;
			a->offset += r->chunks[a->at].size;
		}
		if (!found)
			drop_first(a);
	}
	return await_first(a) ? data : NULL;
}

/* Drop all runs, once no thread works on any. The next plan begins with the first, whose memory is
 * in the caches if the plans are short. */
static void drop_all(struct gck_readahead *a)
{
	pthread_mutex_lock(&a->lock);
	for (unsigned i = 0; i < a->n; i++)
		if (run_at(a, i)->state == WAITING)
			run_at(a, i)->state = FAILED;
	for (unsigned i = 0; i < a->n; i++)
		while (run_at(a, i)->state == TAKEN)
			pthread_cond_wait(&a->ready, &a->lock);
	a->head = a->n = 0;
	pthread_mutex_unlock(&a->lock);
	a->at = a->offset = a->pending.size = 0;
}

void gck_readahead_plan(struct gck_readahead *a, gck_plan_fn *plan, void *arg)
{
	drop_all(a);
	a->plan = plan;
	a->arg = arg;
	refill(a);
}

/* ---- opening and closing -------------------------------------------------------------------- */

/* In huge pages if there are any: a page fault for each 4 KiB takes longer than reading them. */
static char *make_buffer(size_t size)
{
	char *data = size < HUGE ? malloc(size)
				 : aligned_alloc(HUGE, (size + HUGE - 1) / HUGE * HUGE);

	if (data && size >= HUGE)
		madvise(data, size, MADV_HUGEPAGE);
	return data;
}

static int make_runs(struct gck_readahead *a, unsigned threads, struct gck_error *err)
{
	size_t size = a->s->memory / RUNS_MAX;
	size_t most;

	a->run_size = size > RUN_MAX         ? RUN_MAX
		      : size < GCK_CHUNK_MAX ? GCK_CHUNK_MAX
					     : (uint32_t)size;
	most = a->s->memory / a->run_size;
	most = most > 2 * threads ? most - threads : threads + 1;
	for (; a->nruns < (most < RUNS_MAX ? most : RUNS_MAX); a->nruns++) {
		a->runs[a->nruns].data = make_buffer(a->run_size);
		if (!a->runs[a->nruns].data)
			return gck_fail(err, ENOMEM, "no memory to read from %s", a->s->b->where);
	}
	return 0;
}

/* Each thread fills a run and may need a buffer of the same size for its stored bytes; the caller
 * reads from one more run. */
static unsigned threads_within(const struct gck_store *s)
{
	unsigned wanted = s->cpus > s->b->parallel ? s->cpus : s->b->parallel;
	size_t chunks = s->memory / GCK_CHUNK_MAX, most = chunks > 3 ? (chunks - 1) / 2 : 1;

	if (most > THREADS_MAX)
		most = THREADS_MAX;
	return wanted < most ? wanted : (unsigned)most;
}

static int make_threads(struct gck_readahead *a, unsigned n, struct gck_error *err)
{
	sigset_t all, old;
	int code = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (a->nthreads < n && !code) {
		code = pthread_create(&a->threads[a->nthreads], NULL, work, a);
		a->nthreads += !code;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return a->nthreads ? 0 : gck_fail(err, code, "no thread can be made to read from %s: %s",
					  a->s->b->where, strerror(code));
}

struct gck_readahead *gck_readahead_open(struct gck_store *s,
					 const struct gck_readahead_source *source,
					 struct gck_error *err)
{
	struct gck_readahead *a = calloc(1, sizeof *a);
	unsigned threads = threads_within(s);

	if (!a) {
		gck_fail(err, ENOMEM, "no memory to read from %s", s->b->where);
		return NULL;
	}
	a->s = s;
	a->source = *source;
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->task, NULL);
	pthread_cond_init(&a->ready, NULL);
	if (make_runs(a, threads, err) == 0 && make_threads(a, threads, err) == 0)
		return a;
	gck_readahead_close(a);
	return NULL;
}

void gck_readahead_close(struct gck_readahead *a)
{
	if (!a)
		return;
	pthread_mutex_lock(&a->lock);
	a->stop = true;
	pthread_cond_broadcast(&a->task);
	pthread_mutex_unlock(&a->lock);
	for (unsigned i = 0; i < a->nthreads; i++)
		pthread_join(a->threads[i], NULL);
	for (unsigned i = 0; i < a->nruns; i++)
		free(a->runs[i].data);
	pthread_cond_destroy(&a->ready);
	pthread_cond_destroy(&a->task);
	pthread_mutex_destroy(&a->lock);
	free(a);
}
