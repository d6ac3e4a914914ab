/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/base/obstacles.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/base/participant.h"
#include "shim/cuda/dispatch/dispatch.h"

/* The jumps of raw.S set these. */
#define USED(kind, object, reason, remedy) unsigned char gck_cuda_used_##kind;
#define DECLARE(kind, object, reason, remedy) extern unsigned char gck_cuda_used_##kind;
GCK_CUDA_RAW_KINDS(DECLARE)
GCK_CUDA_RAW_KINDS(USED)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gck_cuda_handle_map alive[GCK_CUDA_NKINDS];
static _Atomic uint32_t counts[GCK_CUDA_NKINDS]; /* skips the lock for kinds that the program
						  * does not use */

static void add(enum gck_cuda_kind kind, uint64_t handle, bool once)
{
	uint64_t *times;

	pthread_mutex_lock(&lock);
	if (!once || !gck_cuda_handle_map_get(&alive[kind], handle)) {
		counts[kind]++; /* if there is no memory for the entry it counts for good */
		times = gck_cuda_handle_map_put(&alive[kind], handle);
		if (times)
			++*times;
	}
	pthread_mutex_unlock(&lock);
}

void gck_cuda_obstacle_add(enum gck_cuda_kind kind, uint64_t handle)
{
	add(kind, handle, false);
}

void gck_cuda_obstacle_add_once(enum gck_cuda_kind kind, uint64_t handle)
{
	add(kind, handle, true);
}

void gck_cuda_obstacle_remove(enum gck_cuda_kind kind, uint64_t handle)
{
	uint64_t *times;

	if (!counts[kind])
		return;
	pthread_mutex_lock(&lock);
	times = gck_cuda_handle_map_get(&alive[kind], handle);
	if (times) {
		counts[kind]--;
		if (--*times == 0)
			gck_cuda_handle_map_drop(&alive[kind], handle);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- able ----------------------------------------------------------------------------------- */

struct words {
	const char *object, *reason, *remedy;
};

static const struct words kinds[] = {
#define WORDS(kind, object, reason, remedy) {object, reason, remedy},
	GCK_CUDA_KINDS(WORDS)
};

static const struct {
	const unsigned char *used;
	struct words words;
} raw[] = {
#define RAW(kind, object, reason, remedy) {&gck_cuda_used_##kind, {object, reason, remedy}},
	GCK_CUDA_RAW_KINDS(RAW)
};

static void able(gck_cuda_obstacle_fn *tell, void *arg)
{
	char object[160];

	for (size_t i = 0; i < GCK_CUDA_NKINDS; i++) {
		if (counts[i] > 1) {
			snprintf(object, sizeof object, "%u times %s", counts[i], kinds[i].object);
			tell(arg, object, kinds[i].reason, kinds[i].remedy);
		} else if (counts[i]) {
			tell(arg, kinds[i].object, kinds[i].reason, kinds[i].remedy);
		}
	}
	for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
		if (*raw[i].used)
			tell(arg, raw[i].words.object, raw[i].words.reason, raw[i].words.remedy);
	}
}

const struct gck_cuda_participant gck_cuda_obstacles_participant = {.name = "alive", .able = able};

void gck_cuda_obstacles_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}
