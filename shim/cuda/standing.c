/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/standing.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "shim/cuda/function.h"
#include "shim/cuda/hashers.h"
#include "shim/cuda/idle.h"
#include "shim/cuda/mover.h"
#include "shim/cuda/need.h"
#include "shim/cuda/ordered.h"
#include "shim/cuda/slab.h"
#include "shim/cuda/snapshot.h"
#include "shim/cuda/state.h"

#define NAP_NS 50000
#define YIELD_LOOKS 10000 /* half a second and more: a copy takes less than a millisecond */
#define TEND_NS 200000000ll
#define PATIENCE_MS 1000  /* with what the program itself has freed in a stream's order */
#define LATEST_NS 300000000ll
#define LATE_NAP_NS 1000000

static struct {
	pthread_mutex_t lock;
	bool stands;
	struct gck_error why;         /* it does not, any more */
	bool open;                    /* also after the end, while something of it is under way: */
	struct gck_cuda_mover mover;
	struct gck_cuda_ring ring;    /* and this one until the GPU is idle */
	uint64_t bytes[GCK_CUDA_DEVICES_MAX]; /* with the slabs' lock */
	_Atomic uint64_t ends;        /* times that something was given back */
} standing = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- giving it back, with the lock ---------------------------------------------------------- */

/* With the slabs' lock. */
static void count(void)
{
	const struct gck_cuda_snapshot *s = &gck_cuda_snapshot;

	memset(standing.bytes, 0, sizeof standing.bytes);
	for (size_t i = 0; i < s->nblocks; i++) {
		const struct gck_cuda_slab *b = &s->blocks[i].slab;

		if (b->device < GCK_CUDA_DEVICES_MAX && b->memory.kept)
			standing.bytes[b->device] += b->size;
	}
}

static void drop_all(void)
{
	if (standing.open)
		gck_cuda_mover_end(&standing.mover);
	standing.open = false;
	gck_cuda_snapshot_close();
	gck_cuda_slabs_lock();
	gck_cuda_snapshot_drop();
	count();
	gck_cuda_slabs_unlock();
	standing.ends++;
}

static void drop_unused(void)
{
	const struct gck_cuda_snapshot *s = &gck_cuda_snapshot;

	gck_cuda_slabs_lock();
	for (size_t i = 0; i < s->nblocks; i++) {
		const struct gck_cuda_slab *b = &s->blocks[i].slab;

		if (b->memory.kept && !gck_cuda_mover_uses(&standing.mover, b->base, b->size)) {
			gck_cuda_snapshot_drop_block(&s->blocks[i]);
			standing.ends++;
		}
	}
	count();
	gck_cuda_slabs_unlock();
}

/* Never waits: a hash may be behind a kernel of the program's that waits for the caller. What is under way keeps
 * its blocks, until somebody looks again. A capture of the calling thread's lives. */
static void give_back(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	if (!standing.open || gck_cuda_mover_settle(&standing.mover))
		drop_all();
	else
		drop_unused();
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
}

/* What is seen through windows goes later (gck_cuda_standing_tend). gone: a context that has ended, NULL: none. */
static void end(int code, const char *why, CUcontext gone)
{
	if (standing.stands)
		gck_fail(&standing.why, code, "%s", why);
	if (standing.open && gone)
		gck_cuda_mover_lost(&standing.mover, gone);
	if (gone)
		gck_cuda_snapshot_lost(gone);
	if ((standing.stands || standing.open) && !gck_cuda_snapshot_is_open())
		give_back();
	standing.stands = false;
}

/* ---- the program's threads ------------------------------------------------------------------ */

/* Whoever has the lock may be waiting for the GPU, for a moment. */
static bool try_end(void)
{
	bool all;

	if (pthread_mutex_trylock(&standing.lock))
		return false;
	end(ENOMEM, "the program needed the device memory that the checkpoint stood in", NULL);
	all = !standing.open && !gck_cuda_snapshot_is_open();
	pthread_mutex_unlock(&standing.lock);
	return all;
}

/* Another thread may have given something back since the call failed. */
static bool end_for_program(void)
{
	static __thread uint64_t seen __attribute__((tls_model("initial-exec")));
	const struct timespec nap = {0, NAP_NS};
	bool all = false;

	for (int i = 0; i < YIELD_LOOKS && !all && seen == standing.ends; i++) {
		if (i)
			nanosleep(&nap, NULL);
		all = try_end();
	}
	if (seen == standing.ends)
		return false;
	seen = standing.ends;
	return true;
}

/* The driver may have memory free only a while after its last descriptor is closed (100 ms were seen), where a
 * program that gives memory back for lack of it, and asks again, would have had it at once. */
static bool comes_late(int64_t *late_ns)
{
	const struct timespec nap = {0, LATE_NAP_NS};

	if (!*late_ns)
		*late_ns = gck_cuda_physical_dropped_ns() + LATEST_NS;
	if (gck_cuda_now_ns() >= *late_ns)
		return false;
	nanosleep(&nap, NULL);
	return true;
}

/* What nobody uses goes first; what the GPU may be done with soon, and what is on its way back, before other ranks
 * are asked, whose memory then comes as late. */
bool gck_cuda_yield(CUdevice device, int64_t *late_ns)
{
	if (gck_cuda_ordered_yield(0) || end_for_program() || gck_cuda_ordered_yield(PATIENCE_MS) ||
	    comes_late(late_ns))
		return true;
	if (!gck_cuda_need(device))
		return false;
	*late_ns = gck_cuda_now_ns() + LATEST_NS;
	return true;
}

uint64_t gck_cuda_standing_bytes(CUdevice device)
{
	return device >= 0 && device < GCK_CUDA_DEVICES_MAX ? standing.bytes[device] : 0;
}

void gck_cuda_standing_pause(void)
{
	pthread_mutex_lock(&standing.lock);
}

static bool is_used(CUcontext context)
{
	for (size_t i = 0; i < gck_cuda_snapshot.nshares; i++) {
		if (gck_cuda_snapshot.shares[i].context == context)
			return true;
	}
	return false;
}

void gck_cuda_standing_go_on(CUcontext gone)
{
	if (gone && is_used(gone))
		end(ECANCELED, "the program has ended a CUDA context that the checkpoint used", gone);
	if (gone)
		gck_cuda_hashers_forget(gone);
	pthread_mutex_unlock(&standing.lock);
}

/* ---- the CUDA thread ------------------------------------------------------------------------ */

void gck_cuda_standing_begin(void)
{
	const struct gck_cuda_snapshot *s = &gck_cuda_snapshot;

	gck_cuda_hashers_load(s);
	pthread_mutex_lock(&standing.lock);
	standing.stands = true;
	standing.why = (struct gck_error){.code = 0};
	count();
	pthread_mutex_unlock(&standing.lock);
}

bool gck_cuda_standing_end(int code, const char *why)
{
	bool all;

	pthread_mutex_lock(&standing.lock);
	end(code, why, NULL);
	all = !standing.open;
	pthread_mutex_unlock(&standing.lock);
	return all;
}

void gck_cuda_standing_forked(void)
{
	pthread_mutex_init(&standing.lock, NULL);
	standing.stands = standing.open = false;
}

bool gck_cuda_standing_give(CUdevice device)
{
	bool there;

	pthread_mutex_lock(&standing.lock);
	there = gck_cuda_snapshot_is_on(device);
	if (there)
		end(ENOMEM, GCK_CUDA_NEEDED_BESIDE, NULL);
	pthread_mutex_unlock(&standing.lock);
	return there;
}

void gck_cuda_standing_tidy(const struct gck_cuda_contexts *all)
{
	CUcontext context;

	if (standing.open || gck_cuda_snapshot_is_open())
		drop_all();
	if (!standing.ring.at)
		return;
	for (size_t i = 0; i < all->n; i++) {
		if (gck_cuda_real.cuCtxPushCurrent_v2(all->v[i].context))
			continue;
		gck_cuda_ring_end(&standing.ring);
		gck_cuda_real.cuCtxPopCurrent_v2(&context);
		return;
	}
	gck_cuda_ring_end(&standing.ring);
}

/* ---- the reader ----------------------------------------------------------------------------- */

struct gck_cuda_mover *gck_cuda_standing_lock(struct gck_error *why)
{
	pthread_mutex_lock(&standing.lock);
	if (standing.stands)
		return &standing.mover;
	*why = standing.why;
	pthread_mutex_unlock(&standing.lock);
	return NULL;
}

void gck_cuda_standing_unlock(void)
{
	pthread_mutex_unlock(&standing.lock);
}

/* A block at a time. */
static int map(struct gck_error *err)
{
	bool others;
	CUresult rc;

	gck_cuda_slabs_lock();
	rc = gck_cuda_snapshot_map_one(&others);
	gck_cuda_slabs_unlock();
	return rc ? gck_cuda_fail(err, "mapping the copy of device memory", rc) : others;
}

/* A free that waits for kernels might keep the program from what they wait for. */
static bool is_idle(void)
{
	const struct gck_cuda_snapshot *s = &gck_cuda_snapshot;
	int64_t end_ns = gck_cuda_now_ns() + TEND_NS;
	bool idle = true;

	for (size_t i = 0; idle && i < s->nshares; i++)
		idle = !s->shares[i].context || gck_cuda_idle(s->shares[i].context, end_ns);
	return idle;
}

bool gck_cuda_standing_tend(void)
{
	bool open;

	pthread_mutex_lock(&standing.lock);
	if (gck_cuda_snapshot_is_open() && !standing.stands && is_idle())
		give_back();
	open = gck_cuda_snapshot_is_open();
	pthread_mutex_unlock(&standing.lock);
	return open;
}

int gck_cuda_standing_open(int ring, struct gck_error *err)
{
	if (standing.open)
		return map(err);
	if (gck_cuda_ring_map(&standing.ring, ring, err))
		return -1;
	standing.open = true;
	return gck_cuda_mover_begin(&standing.mover, GCK_CUDA_OUT, &standing.ring, &gck_cuda_snapshot, err)
	       ? -1 : 1;
}
