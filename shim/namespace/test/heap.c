/* SPDX-License-Identifier: Apache-2.0
 * The namespace's heap with many threads: blocks keep their contents, are in listed memory, and are
 * reused after they are freed. */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "shim/namespace/namespace.h"
#include "test/support/tap.h"

#define THREADS 4
#define BLOCKS 512
#define STEPS 100000

static struct gck_ns_exclusions owned;
static struct gck_error err;

static int find(char *path, size_t size, struct gck_error *error)
{
	(void)error;
	return snprintf(path, size, "libm.so.6") < 0 ? -1 : 0;
}

static const struct gck_namespace_library library = {.name = "library", .find = find};

static void *(*get)(size_t), *(*get_zeroed)(size_t, size_t), *(*resize)(void *, size_t),
	*(*get_aligned)(size_t, size_t);
static void (*give_back)(void *);
static size_t (*usable)(void *);

static bool is_owned(const void *p)
{
	const struct gck_ns_range *r = (const struct gck_ns_range *)(uintptr_t)owned.ranges;

	for (uint64_t i = 0; i < owned.nranges; i++) {
		if ((uintptr_t)p - r[i].start < r[i].length)
			return true;
	}
	return false;
}

/* ---- sizes ---------------------------------------------------------------------------------- */

static void test_sizes(void)
{
	bool fits = true, aligned = true, own = true;

	for (size_t n = 0; n < 70000; n += n < 9000 ? 1 : 977) {
		char *p = get(n);

		fits &= p && usable(p) >= n && (n < 200 || usable(p) <= n * 5 / 4 + 4096);
		aligned &= (uintptr_t)p % 16 == 0;
		own &= is_owned(p);
		memset(p, 1, usable(p));
		give_back(p);
	}
	ok(fits, "each block is large enough and not much larger");
	ok(aligned, "each block is aligned to 16 bytes");
	ok(own, "each block is in listed memory");
	own = true;
	for (size_t align = 16; align <= 1 << 21; align *= 2) {
		for (size_t n = 1; n < 100000; n = n * 3 + 1) {
			char *p = get_aligned(align, n);

			own &= p && (uintptr_t)p % align == 0 && usable(p) >= n && is_owned(p);
			memset(p, 1, n);
			give_back(p);
		}
	}
	ok(own, "blocks can be aligned to up to 2 MiB");
	ok(all_of(!get(SIZE_MAX), !get(SIZE_MAX / 2), !get_zeroed(SIZE_MAX / 2, 3),
		  !get(1ul << 45)), "sizes that are too large fail");
}

/* ---- many threads --------------------------------------------------------------------------- */

struct block {
	unsigned char *p, mark;
	size_t n;
};

static struct block blocks[THREADS][BLOCKS];
static bool broken;

static unsigned int next(unsigned int *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

static size_t some_size(unsigned int *seed)
{
	unsigned int kind = next(seed) % 16;

	if (kind < 10)
		return next(seed) % 512;
	return next(seed) % (kind < 15 ? 20000 : 500000);
}

static void check(const struct block *b)
{
	if (b->n && (b->p[0] != b->mark || b->p[b->n / 2] != b->mark || b->p[b->n - 1] != b->mark))
		broken = true;
}

static void fill(struct block *b, size_t n, unsigned char mark)
{
	b->n = n;
	b->mark = mark;
	memset(b->p, mark, n);
}

static void step(struct block *b, unsigned int *seed)
{
	size_t n = some_size(seed);

	check(b);
	if (b->p && next(seed) % 4 == 0) {
		unsigned char *p = resize(b->p, n + 1);

		if (b->n && n && p[0] != b->mark)
			broken = true;
		b->p = p;
	} else {
		give_back(b->p);
		b->p = next(seed) % 8 ? get(n) : get_zeroed(1, n);
	}
	fill(b, n, next(seed));
}

/* Each thread frees what its neighbour made, in turns. */
static void *work(void *arg)
{
	struct block *mine = arg;
	unsigned int seed = (uintptr_t)arg;

	for (int i = 0; i < STEPS; i++)
		step(&mine[next(&seed) % BLOCKS], &seed);
	return NULL;
}

static void run_threads(int shift)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, work, blocks[(i + shift) % THREADS]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void test_threads(void)
{
	run_threads(0);
	run_threads(1);
	for (int i = 0; i < THREADS; i++) {
		for (int k = 0; k < BLOCKS; k++) {
			check(&blocks[i][k]);
			give_back(blocks[i][k].p);
		}
	}
	ok(!broken, "blocks keep their contents while %d threads use the heap", THREADS);
}

static void *borrow(void *got)
{
	void **p = got;

	for (int i = 0; i < 4; i++)
		p[i] = get(8000);
	for (int i = 0; i < 4; i++)
		give_back(p[i]);
	return NULL;
}

static bool is_among(void *p, void **first, int n)
{
	for (int i = 0; i < n; i++) {
		if (first[i] == p)
			return true;
	}
	return false;
}

static void test_ends(void)
{
	void *early[80], *late[4];
	pthread_t thread;
	int others = 0;

	for (int i = 0; i < 100; i++) {
		pthread_create(&thread, NULL, borrow, i < 20 ? early + 4 * i : late);
		pthread_join(thread, NULL);
		for (int k = 0; i >= 20 && k < 4; k++)
			others += !is_among(late[k], early, 80);
	}
	is_int(others, 0, "blocks cached by a thread are reused after its end");
}

static void test_reuse(void)
{
	char *first, *p = get(30 << 20);
	bool zero = true, same = true;

	memset(p, 1, 30 << 20);
	give_back(p); /* joins the free pages beside it */
	first = get(30 << 20);
	give_back(first);
	for (int i = 0; i < 3000; i++) {
		p = get(30 << 20);
		same &= p == first;
		give_back(p);
	}
	ok(same, "large blocks are reused");
	p = get_zeroed(30, 1 << 20);
	for (size_t i = 0; i < 30 << 20; i += 4096)
		zero &= !p[i];
	ok(all_of(p == first, zero), "calloc's blocks are zero when reused");
	give_back(p);
	p = malloc(100);
	ok(!is_owned(p), "the program's malloc does not use the namespace's heap");
	give_back(p);
	ok(true, "the program's blocks can be freed inside, as the loader's are");
}

int main(void)
{
	if (!ok(gck_namespace_load(&library, &owned, &err) == 0, "the library is loaded: %s",
		err.text))
		return tap_done();
	get = dlsym(gck_namespace.root_handle, "malloc");
	get_zeroed = dlsym(gck_namespace.root_handle, "calloc");
	resize = dlsym(gck_namespace.root_handle, "realloc");
	get_aligned = dlsym(gck_namespace.root_handle, "memalign");
	give_back = dlsym(gck_namespace.root_handle, "free");
	usable = dlsym(gck_namespace.root_handle, "malloc_usable_size");
	test_sizes();
	test_threads();
	test_ends();
	test_reuse();
	return tap_done();
}
