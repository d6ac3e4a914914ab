/* SPDX-License-Identifier: Apache-2.0
 * The managed swap: how often it stops the threads. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shim/cuda/gate/stop_world.h"
#include "shim/cuda/managed/managed_swap.h"
#include "test/support/tap.h"

#define ARENAS 3
#define SIZE (64 * GCK_CUDA_PAGE)

static struct {
	int begun, paused, ended;
	int lacks;           /* how often it fails for lack of a descriptor */
	bool refuses, waits; /* waits: a call in a pause waits for a thread */
} stops;

struct gck_cuda_stop_world *gck_cuda_stop_world_begin(int limit_ms, int traced_ms,
						      struct gck_error *err)
{
	(void)limit_ms;
	(void)traced_ms;
	if (stops.refuses || stops.lacks) {
		gck_fail(err, stops.lacks ? EMFILE : EPERM, "refused");
		stops.lacks -= stops.lacks > 0;
		return NULL;
	}
	stops.begun++;
	return (void *)&stops;
}

void gck_cuda_stop_world_pause(struct gck_cuda_stop_world *s)
{
	(void)s;
	stops.paused++;
}

bool gck_cuda_stop_world_again(struct gck_cuda_stop_world *s)
{
	(void)s;
	return !stops.waits;
}

void gck_cuda_stop_world_end(struct gck_cuda_stop_world *s)
{
	(void)s;
	stops.ended++;
}

static struct gck_cuda_managed arenas[ARENAS];
static int files[ARENAS];
static int pagemap;

static char *at(int i)
{
	return (char *)(uintptr_t)arenas[i].base;
}

static void make(void)
{
	for (int i = 0; i < ARENAS; i++) {
		void *memory = MAP_FAILED;

		files[i] = memfd_create("driver", MFD_CLOEXEC);
		if (ftruncate(files[i], SIZE) == 0)
			memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, files[i], 0);
		arenas[i] = (struct gck_cuda_managed){.base = (uintptr_t)memory, .size = SIZE};
		if (gck_cuda_arena_init(&arenas[i].suballocations, arenas[i].base, SIZE,
					GCK_CUDA_PAGE))
			abort();
		if (!gck_cuda_arena_take(&arenas[i].suballocations, SIZE))
			exit(99);
		memset(at(i), 'a' + i, SIZE);
	}
}

static bool hold(void)
{
	for (int i = 0; i < ARENAS; i++) {
		for (uint64_t k = 0; k < SIZE; k++) {
			if (at(i)[k] != 'a' + i)
				return false;
		}
	}
	return true;
}

/* Are all arenas the driver's? */
static bool are_there(void)
{
	bool there = true;
	char byte;

	for (int i = 0; i < ARENAS; i++) {
		at(i)[7] = 'z';
		there = there && pread(files[i], &byte, 1, 7) == 1 && byte == 'z';
		at(i)[7] = (char)('a' + i);
	}
	return there;
}

static void *memory(void)
{
	return mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int away(void)
{
	static unsigned char copied[SIZE / GCK_CUDA_PAGE];
	struct gck_cuda_managed_swap v[ARENAS];
	int rc, gone = 0;

	for (int i = 0; i < ARENAS; i++)
		v[i] = (struct gck_cuda_managed_swap){.arena = &arenas[i],
						      .copy = memory(),
						      .copied = copied,
						      .pagemap = pagemap};
	stops.begun = stops.paused = stops.ended = 0;
	rc = gck_cuda_managed_swap_out(v, ARENAS, NULL);
	for (int i = 0; i < ARENAS; i++)
		gone += v[i].away;
	return rc ? -1 : gone;
}

static int back(void)
{
	struct gck_cuda_swap_stop moment = {.stopped = NULL};
	int rc = 0;

	stops.begun = stops.paused = stops.ended = 0;
	for (int i = 0; i < ARENAS; i++) {
		struct gck_cuda_managed_swap x = {.arena = &arenas[i],
						  .copy = memory(),
						  .fd = files[i],
						  .moment = &moment};

		rc |= gck_cuda_managed_swap_in(&x);
		munmap(x.copy, SIZE);
	}
	gck_cuda_swap_stop_end(&moment);
	return rc;
}

int main(void)
{
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	make();
	stops.refuses = true;
	is_int(away(), -1, "a swap fails if the threads cannot be stopped");
	ok(all_of(are_there(), hold()), "the arenas are unchanged");
	stops.refuses = false;
	stops.lacks = 1;
	is_int(away(), -1, "a swap fails for lack of a descriptor");
	is_int(away(), ARENAS, "all arenas are swapped out");
	ok(all_of(stops.begun == 1, stops.ended == 1), "the threads are stopped once");
	ok(all_of(!are_there(), hold()), "ordinary memory has their contents");
	stops.refuses = true;
	is_int(back(), EPERM, "they are not swapped in if the threads cannot be stopped");
	stops.refuses = false;
	stops.lacks = 3;
	is_int(back(), 0, "they are swapped in if there is a descriptor after a while");
	ok(all_of(stops.begun == 1, stops.ended == 1), "the threads are stopped once");
	ok(all_of(are_there(), hold()), "they have their contents");
	stops.waits = true;
	ok(all_of(away() == ARENAS, back() == 0, hold()),
	   "they are swapped in although the driver waits for a stopped thread");
	ok(all_of(stops.begun == ARENAS, stops.ended == ARENAS, stops.paused == 1),
	   "one stop is tried for all arenas, then one for each");
	return tap_done();
}
