/* SPDX-License-Identifier: Apache-2.0
 * Who asks the driver to be told of checkpoints: NVML, which has descriptors of the GPU
 * (doc/cuda-driver.md). The driver is not taken down in a checkpoint here, so they are told by us:
 * what is open of the GPU is in no image. The driver copies what it is given. */
#include "shim/cuda/records/listeners.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shim/cuda/base/state.h"
#include "shim/cuda/base/visible_devices.h"
#include "shim/cuda/records/jumps.h"
#include "shim/cuda/records/records.h"

#define LOCK_NS 100000000 /* at most, of the wait for NVML's lock */
#define ABOUT_SIZE 48     /* that of what is given, if its first word is 0 */

struct lock_request {
	uint64_t size;         /* 0 */
	int64_t end_ns;        /* CLOCK_MONOTONIC */
};

/* A GPU that was there, and the kernel module's number of the one that is in its place. */
struct gpu_now {
	unsigned char uuid[16];
	uint64_t unknown;
	uint32_t id, unknown_too;
};

struct restore_request {
	uint64_t size;         /* 0 */
	uint32_t n, none;
	const struct gpu_now *gpus;
};

struct about {
	uint64_t size;
	void *none;
	int (*lock)(const struct lock_request *request);
	int (*unlock)(void);
	int (*checkpoint)(void);
	int (*restore)(const struct restore_request *request);
};
_Static_assert(sizeof(struct about) == ABOUT_SIZE && sizeof(struct gpu_now) == 32, "the driver's");

static struct listener {
	struct listener *next;
	void *handle, *now; /* NVML's, the driver's */
	bool listed;
	bool closed;        /* it was told, and is locked */
	struct about about;
} *listeners; /* the newest first; with the records' lock */

static bool other_size; /* one was made with another size: what it is told is not known */
static bool lost;       /* one did not open the GPU again */

/* ---- the driver's functions ------------------------------------------------------------------ */

GCK_RECORD_GATED(, CUresult, gck_record_listener_make, (void **listener, const void *about),
		 (listener, about))
GCK_RECORD_GATED(, uint64_t, gck_record_listener_drop, (void *listener), (listener))
GCK_RECORD_GATED(, uint64_t, gck_record_listener_begin, (void *listener), (listener))
GCK_RECORD_GATED(, uint64_t, gck_record_listener_end, (void *listener), (listener))

static struct listener **find(const void *handle)
{
	struct listener **at = &listeners;

	while (*at && (*at)->handle != handle)
		at = &(*at)->next;
	return at;
}

static void *now(void *handle)
{
	const struct listener *l;

	gck_records_lock();
	l = *find(handle);
	gck_records_unlock();
	return l ? l->now : handle;
}

static void set_listed(const void *handle, bool listed)
{
	struct listener *l;

	gck_records_lock();
	l = *find(handle);
	if (l)
		l->listed = listed;
	gck_records_unlock();
}

static CUresult gck_record_listener_make_inside(void **listener, const void *about)
{
	CUresult rc = REAL(NVML, GCK_LISTENER_MAKE, gck_record_listener_make)(listener, about);
	struct listener *l;

	if (rc)
		return rc;
	l = calloc(1, sizeof *l);
	if (!l)
		abort();
	l->handle = l->now = *listener;
	memcpy(&l->about, about, sizeof l->about);
	gck_records_lock();
	other_size |= l->about.size && l->about.size != ABOUT_SIZE;
	l->next = listeners;
	listeners = l;
	gck_records_unlock();
	return rc;
}

static uint64_t gck_record_listener_drop_inside(void *listener)
{
	uint64_t result = REAL(NVML, GCK_LISTENER_DROP, gck_record_listener_drop)(now(listener));
	struct listener **at, *l;

	gck_records_lock();
	at = find(listener);
	l = *at;
	if (l)
		*at = l->next;
	gck_records_unlock();
	free(l);
	return result;
}

static uint64_t gck_record_listener_begin_inside(void *listener)
{
	uint64_t result = REAL(NVML, GCK_LISTENER_BEGIN, gck_record_listener_begin)(now(listener));

	set_listed(listener, true);
	return result;
}

static uint64_t gck_record_listener_end_inside(void *listener)
{
	uint64_t result = REAL(NVML, GCK_LISTENER_END, gck_record_listener_end)(now(listener));

	set_listed(listener, false);
	return result;
}

/* ---- a checkpoint ---------------------------------------------------------------------------- */

const char *gck_record_listeners_unable(void)
{
	if (lost)
		return "NVML, which did not open the GPU again after a checkpoint";
	return other_size ? "NVML of a version that is told of checkpoints in another way" : NULL;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* The GPUs, as NVML knew them when it closed them. */
static struct gck_cuda_devices known;

/* Its lock may be that of a thread that waits at the gate. */
static int close_one(struct listener *l, int64_t end_ns, struct gck_error *err)
{
	int64_t limit_ns = now_ns() + LOCK_NS;
	struct lock_request lock = {.end_ns = end_ns < limit_ns ? end_ns : limit_ns};
	int rc = l->about.lock(&lock);

	if (rc)
		return gck_fail(err, EBUSY, "NVML is in use by another thread (%d): try again "
				"later", rc);
	l->closed = true;
	rc = l->about.checkpoint();
	return rc ? gck_fail(err, EIO, "NVML cannot close the GPU: error %d", rc) : 0;
}

int gck_cuda_records_listeners_close(int64_t end_ns, struct gck_error *err)
{
	int failed = 0;

	known = gck_cuda_state.devices;
	for (struct listener *l = listeners; l && !failed; l = l->next)
		failed = l->listed ? close_one(l, end_ns, err) : 0;
	if (failed)
		gck_cuda_records_listeners_open();
	return failed;
}

/* ---- the way back ---------------------------------------------------------------------------- */

static uint32_t id_of(const unsigned char uuid[16], const struct gck_cuda_machine_gpu *gpus,
		      size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!memcmp(gpus[i].uuid, uuid, sizeof gpus[i].uuid))
			return gpus[i].id;
	return 0;
}

/* Which GPU is in the place of that one now: of those that the program sees the one of its number,
 * of the others the same, if it is there, else the first. */
static const unsigned char *present(uint32_t was, const struct gck_cuda_devices *here)
{
	for (uint32_t i = here->n; was >= known.n && i < here->all; i++)
		if (!memcmp(here->v[i].uuid, known.v[was].uuid, sizeof here->v[i].uuid))
			return here->v[i].uuid;
	return here->v[was < known.n && was < here->n ? was : 0].uuid;
}

static uint32_t find_gpus(struct gpu_now *to)
{
	struct gck_cuda_machine_gpu gpus[GCK_CUDA_DEVICES_MAX];
	size_t n = gck_cuda_machine_gpus(gpus, GCK_CUDA_DEVICES_MAX);

	for (uint32_t i = 0; i < known.all; i++) {
		to[i] = (struct gpu_now){.id = id_of(present(i, &gck_cuda_state.devices), gpus, n)};
		memcpy(to[i].uuid, known.v[i].uuid, sizeof to[i].uuid);
	}
	return known.all;
}

/* The job does without it rather than end. */
static void open_one(struct listener *l, const struct restore_request *request)
{
	int rc = l->about.restore(request);

	l->closed = false;
	l->about.unlock();
	if (!rc)
		return;
	lost = true;
	fprintf(stderr, "gpuckpt: NVML did not open the GPU again (error %d): its functions fail "
		"from now on, CUDA's do not\n", rc);
}

void gck_cuda_records_listeners_open(void)
{
	struct gpu_now gpus[GCK_CUDA_DEVICES_MAX];
	struct restore_request request = {.n = find_gpus(gpus), .gpus = gpus};

	for (struct listener *l = listeners; l; l = l->next)
		if (l->closed)
			open_one(l, &request);
}

int gck_record_listeners_again(struct gck_error *err)
{
	for (struct listener *l = listeners; l; l = l->next) {
		CUresult rc = REAL(NVML, GCK_LISTENER_MAKE, gck_record_listener_make)(&l->now,
										   &l->about);

		if (rc)
			return gck_fail(err, EIO, "a listener of NVML's: error %d", rc);
		if (l->listed)
			REAL(NVML, GCK_LISTENER_BEGIN, gck_record_listener_begin)(l->now);
	}
	return 0;
}
