/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/snapshot/device_copy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "shim/cuda/base/reclaim.h"
#include "shim/cuda/base/state.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/idle.h"
#include "shim/cuda/memory/slab.h"
#include "shim/cuda/snapshot/copy_queue.h"
#include "shim/cuda/snapshot/hash.h"
#include "shim/cuda/snapshot/snapshot.h"
#include "shim/cuda/stream/collect.h"
#include "shim/cuda/stream/ordered_memory.h"
#include "shim/inside/gate.h"

#define NAP_NS 50000
#define YIELD_LOOKS 10000 /* half a second and more; a copy takes less than a millisecond */
#define BUSY_NS 10000000000ll /* the lock may be held in a driver's call */
#define END_NAP_NS 20000
#define END_NAPS 500      /* for copies under way, which wait for no kernel */
#define TEND_MS 20        /* between attempts to free what has ended */
#define COMING_NS 3000000000ll /* how long memory may take to come */
#define PATIENCE_MS 1000  /* for memory that the program itself freed in a stream's order */
#define LATEST_NS 300000000ll
#define LATE_NAP_NS 1000000

static struct {
	pthread_mutex_t lock;
	bool stands;
	struct gck_error why;         /* why it stands no more */
	bool open;                    /* the queue is there, also after the end while a copy is
				       * under way */
	struct gck_cuda_copy_queue queue;
	struct gck_cuda_ring ring;    /* registered until the GPU is idle */
	uint64_t bytes[GCK_CUDA_DEVICES_MAX]; /* held by copies; with the slabs' lock */
	_Atomic bool there;           /* something of the copy is left */
	_Atomic uint64_t ends;        /* how often memory was given back */
	_Atomic int64_t freed_ns;     /* when it was last given back */
	const char *_Atomic wanted;   /* the reason to end it, for the next one who takes the
				       * lock */
	int64_t ended_ns;             /* when it last stood */
} copy = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* the value of `ends` that a thread of the program saw last */
static __thread uint64_t seen __attribute__((tls_model("initial-exec")));

/* ---- giving it back, with the lock held ----------------------------------------------------- */

/* Update copy.bytes, with the slabs' lock held. */
static void count(void)
{
	const struct gck_cuda_snapshot *s = &gck_cuda_snapshot;

	memset(copy.bytes, 0, sizeof copy.bytes);
	for (size_t i = 0; i < s->nblocks; i++) {
		const struct gck_cuda_slab *b = &s->blocks[i];

		if (b->device < GCK_CUDA_DEVICES_MAX && b->memory.vault_name)
			copy.bytes[b->device] += b->size;
	}
}

static void note_freed(void)
{
	copy.ends++;
	copy.freed_ns = gck_cuda_now_ns();
}

static void drop_all(void)
{
	if (copy.open)
		gck_cuda_copy_queue_end(&copy.queue);
	copy.open = false;
	gck_cuda_slabs_lock();
	gck_cuda_snapshot_drop();
	count();
	gck_cuda_slabs_unlock();
	copy.there = false;
	note_freed();
}

static void drop_unused(void)
{
	const struct gck_cuda_snapshot *s = &gck_cuda_snapshot;

	gck_cuda_slabs_lock();
	for (size_t i = 0; i < s->nblocks; i++) {
		const struct gck_cuda_slab *b = &s->blocks[i];

		if (b->memory.vault_name &&
		    !gck_cuda_copy_queue_uses(&copy.queue, b->base, b->size)) {
			gck_cuda_snapshot_drop_block(&s->blocks[i]);
			note_freed();
		}
	}
	count();
	gck_cuda_slabs_unlock();
}

/* Never waits, since a hash may be behind a kernel of the program that waits for the caller.
 * Copies under way keep their blocks until the next look. Captures of the calling thread are not
 * harmed. */
static void give_back(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
	if (!copy.open || gck_cuda_copy_queue_settle(&copy.queue))
		drop_all();
	else
		drop_unused();
	gck_cuda_real.cuThreadExchangeStreamCaptureMode(&mode);
}

static void end(int code, const char *why)
{
	if (copy.stands) {
		gck_fail(&copy.why, code, "%s", why);
		copy.ended_ns = gck_cuda_now_ns();
	}
	if (copy.stands || copy.open)
		give_back();
	copy.stands = false;
	copy.there = copy.open;
	copy.wanted = NULL;
}

static void end_if_wanted(void)
{
	const char *why = copy.wanted;

	if (why)
		end(ENOMEM, why);
}

/* ---- the program's threads ------------------------------------------------------------------ */

/* False: another thread has the lock. */
static bool try_end(const char *why)
{
	if (pthread_mutex_trylock(&copy.lock))
		return false;
	end(ENOMEM, why);
	pthread_mutex_unlock(&copy.lock);
	return true;
}

/* Wait until any thread gave memory back. A checkpoint, and a restart of its image, may happen
 * meanwhile. */
static void look_until_freed(const char *why)
{
	const struct timespec nap = {0, NAP_NS};
	int64_t end_ns = gck_cuda_now_ns() + BUSY_NS;
	bool had = false;

	for (int i = 0;
	     i < YIELD_LOOKS && copy.there && seen == copy.ends && gck_cuda_now_ns() < end_ns;) {
		had |= try_end(why);
		i += had;
		gck_gate_park_if_closed();
		if (copy.there)
			nanosleep(&nap, NULL);
	}
}

static void wait_until_freed(const char *why)
{
	copy.wanted = why;
	look_until_freed(why);
}

static bool was_freed(void)
{
	bool freed = seen != copy.ends;

	seen = copy.ends;
	return freed;
}

/* The driver may have memory free only a while after its last descriptor is closed (100 ms were
 * seen). A program that frees memory for lack of it, and asks again, would have got it at once
 * from the driver. */
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

/* Another thread may have given memory back since the call failed. */
static bool end_for_program(void)
{
	wait_until_freed("the program needed the device memory that held the checkpoint");
	return was_freed();
}

/* Unused memory first, then the copy, then memory that the GPU may release soon or that is on
 * its way back; other ranks last, whose memory takes as long to come. */
bool gck_cuda_device_copy_yield(CUdevice device, int64_t *late_ns)
{
	if (gck_cuda_ordered_reclaim(0) || end_for_program() ||
	    gck_cuda_ordered_reclaim(PATIENCE_MS) || comes_late(late_ns))
		return true;
	if (!gck_cuda_reclaim_from_ranks(device))
		return was_freed();
	*late_ns = gck_cuda_now_ns() + LATEST_NS;
	return true;
}

uint64_t gck_cuda_device_copy_bytes(CUdevice device)
{
	return device >= 0 && device < GCK_CUDA_DEVICES_MAX ? copy.bytes[device] : 0;
}

void gck_cuda_device_copy_pause(void)
{
	pthread_mutex_lock(&copy.lock);
}

static bool is_used(CUcontext context)
{
	for (size_t i = 0; i < gck_cuda_snapshot.nshares; i++) {
		if (gck_cuda_snapshot.shares[i].context == context)
			return true;
	}
	return false;
}

static void lose(CUcontext gone)
{
	if (copy.open)
		gck_cuda_copy_queue_lost(&copy.queue, gone);
	gck_cuda_snapshot_lost(gone);
	end(ECANCELED, "the program has ended a CUDA context that the checkpoint used");
}

void gck_cuda_device_copy_go_on(CUcontext gone)
{
	if (gone && is_used(gone))
		lose(gone);
	if (gone)
		gck_cuda_hash_modules_forget(gone);
	pthread_mutex_unlock(&copy.lock);
}

/* ---- the CUDA thread ------------------------------------------------------------------------ */

void gck_cuda_device_copy_begin(void)
{
	const struct gck_cuda_snapshot *s = &gck_cuda_snapshot;

	gck_cuda_hash_modules_load(s);
	pthread_mutex_lock(&copy.lock);
	copy.there = true;
	copy.stands = true;
	copy.wanted = NULL;
	copy.why = (struct gck_error){.code = 0};
	count();
	pthread_mutex_unlock(&copy.lock);
}

/* True: no copy is under way that needs a part of it. */
static bool end_now(int code, const char *why)
{
	bool settled;

	pthread_mutex_lock(&copy.lock);
	end(code, why);
	settled = !copy.open;
	pthread_mutex_unlock(&copy.lock);
	return settled;
}

void gck_cuda_device_copy_end(int code, const char *why)
{
	const struct timespec nap = {0, END_NAP_NS};

	for (int i = 0; !end_now(code, why) && i < END_NAPS; i++)
		nanosleep(&nap, NULL);
}

void gck_cuda_device_copy_forked(void)
{
	pthread_mutex_init(&copy.lock, NULL);
	copy.stands = copy.open = false;
	copy.there = false;
}

void gck_cuda_device_copy_tidy(const struct gck_cuda_contexts *all)
{
	CUcontext context;

	if (copy.open)
		drop_all();
	if (!copy.ring.at)
		return;
	for (size_t i = 0; i < all->n; i++) {
		if (gck_cuda_real.cuCtxPushCurrent_v2(all->v[i].context))
			continue;
		gck_cuda_ring_end(&copy.ring);
		gck_cuda_real.cuCtxPopCurrent_v2(&context);
		return;
	}
	gck_cuda_ring_end(&copy.ring);
}

/* A copy may be under way for longer than its reader waited. */
int gck_cuda_device_copy_tend(int most_ms)
{
	bool all;

	if (gck_gate_closed) /* for good: the rank has lost its GPU */
		return most_ms;
	if (pthread_mutex_trylock(&copy.lock))
		return TEND_MS;
	end_if_wanted();
	if (!copy.stands && copy.open)
		give_back();
	all = copy.stands || !copy.open;
	pthread_mutex_unlock(&copy.lock);
	return all ? most_ms : TEND_MS;
}

bool gck_cuda_device_copy_give(CUdevice device)
{
	const uint64_t before = copy.ends;
	uint64_t bytes;

	gck_cuda_slabs_lock();
	bytes = gck_cuda_device_copy_bytes(device);
	gck_cuda_slabs_unlock();
	if (!bytes)
		return gck_cuda_now_ns() < copy.freed_ns + LATEST_NS;
	copy.wanted = GCK_CUDA_RECLAIMED_BY_RANK;
	gck_cuda_device_copy_end(ENOMEM, GCK_CUDA_RECLAIMED_BY_RANK);
	return before != copy.ends || gck_cuda_now_ns() < copy.ended_ns + COMING_NS;
}

/* ---- the reader ----------------------------------------------------------------------------- */

struct gck_cuda_copy_queue *gck_cuda_device_copy_lock(struct gck_error *why)
{
	pthread_mutex_lock(&copy.lock);
	end_if_wanted();
	if (copy.stands)
		return &copy.queue;
	*why = copy.why;
	pthread_mutex_unlock(&copy.lock);
	return NULL;
}

void gck_cuda_device_copy_unlock(void)
{
	pthread_mutex_unlock(&copy.lock);
}

/* Map one block at a time. */
static int map(struct gck_error *err)
{
	bool others;
	CUresult rc;

	gck_cuda_slabs_lock();
	rc = gck_cuda_snapshot_map_one(&others);
	gck_cuda_slabs_unlock();
	return rc ? gck_cuda_fail(err, "mapping the copy of device memory", rc) : others;
}

int gck_cuda_device_copy_open(int ring, struct gck_error *err)
{
	if (copy.open)
		return map(err);
	if (gck_cuda_ring_map(&copy.ring, ring, err))
		return -1;
	copy.open = true;
	return gck_cuda_copy_queue_begin(&copy.queue, GCK_CUDA_OUT, &copy.ring, &gck_cuda_snapshot,
					 err)
		       ? -1
		       : 1;
}
