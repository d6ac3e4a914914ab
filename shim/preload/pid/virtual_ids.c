/* SPDX-License-Identifier: Apache-2.0
 * The table of TIDs. An entry is one 64-bit word, so that it is read, taken and freed as a whole,
 * without a lock: a signal handler may read it at any moment. Entries are not removed when a thread
 * ends, since its TID must be known until it is gone; a thread that needs an entry checks whether
 * the old one's thread is gone. */
#include "config.h"

#include "shim/preload/pid/virtual_ids.h"

#include <pthread.h>

#include "shim/preload/pid/pid.h"

#define KERNEL_MAX_PID (1 << 22) /* PID_MAX_LIMIT: the kernel's numbers are below it */

union entry {
	struct gck_shim_tid tid;
	uint64_t word;
};

static int32_t next_vtid = KERNEL_MAX_PID;

static uint64_t *word_of(uint32_t i)
{
	return (uint64_t *)(void *)&gck_state.tids[i];
}

static union entry load(uint32_t i)
{
	return (union entry){ .word = __atomic_load_n(word_of(i), __ATOMIC_ACQUIRE) };
}

bool gck_is_rank(void)
{
	return gck_raw(SYS_getpid) == gck_state.rpid;
}

int32_t gck_pid_to_kernel(int32_t pid)
{
	if (pid == gck_state.vpid)
		return gck_state.rpid;
	return pid == -gck_state.vpid ? -gck_state.rpid : pid;
}

int32_t gck_pid_to_program(int32_t pid)
{
	if (pid == gck_state.rpid)
		return gck_state.vpid;
	return pid == -gck_state.rpid ? -gck_state.vpid : pid;
}

/* Length of the table. A child has the table, too, but not the threads. */
static uint32_t entries(void)
{
	return gck_state.ntids && gck_is_rank() ? gck_state.ntids : 0;
}

int32_t gck_tid_to_kernel(int32_t tid)
{
	uint32_t n = entries();

	if (tid <= 0)
		return tid;
	for (uint32_t i = 0; i < n; i++) {
		union entry e = load(i);

		if (e.tid.vtid == tid)
			return e.tid.rtid;
	}
	return gck_pid_to_kernel(tid);
}

int32_t gck_tid_to_program(int32_t tid)
{
	uint32_t n = entries();

	if (tid <= 0)
		return gck_pid_to_program(tid);
	for (uint32_t i = 0; i < n; i++) {
		union entry e = load(i);

		if (e.tid.vtid && e.tid.rtid == tid)
			return e.tid.vtid;
	}
	return gck_pid_to_program(tid);
}

static bool is_gone(int32_t rtid)
{
	return gck_raw(SYS_tgkill, gck_state.rpid, rtid, 0) == -ESRCH;
}

static bool take(uint32_t i, union entry e)
{
	uint64_t old = load(i).word;
	union entry had = { .word = old };

	if (had.tid.vtid && !is_gone(had.tid.rtid))
		return false;
	return __atomic_compare_exchange_n(word_of(i), &old, e.word, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

static void add(int32_t vtid, int32_t rtid)
{
	union entry e = { .tid = { .vtid = vtid, .rtid = rtid } };

	for (uint32_t i = 0; i < GCK_SHIM_MAX_TIDS; i++) {
		uint32_t n = __atomic_load_n(&gck_state.ntids, __ATOMIC_RELAXED);

		if (!take(i, e))
			continue;
		while (n <= i && !__atomic_compare_exchange_n(&gck_state.ntids, &n, i + 1, false,
							      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			;
		return;
	}
	gck_state.overflow = 1;
}

/* The kernel gave this number to the calling thread: its previous owner is gone. */
static void forget(int32_t rtid)
{
	for (uint32_t i = 0; i < gck_state.ntids; i++) {
		uint64_t old = load(i).word;

		if ((union entry){ .word = old }.tid.rtid == rtid)
			__atomic_compare_exchange_n(word_of(i), &old, 0, false, __ATOMIC_ACQ_REL,
						    __ATOMIC_RELAXED);
	}
}

static bool is_used(int32_t vtid)
{
	if (vtid == gck_state.vpid)
		return true;
	for (uint32_t i = 0; i < gck_state.ntids; i++) {
		union entry e = load(i);

		if (e.tid.vtid == vtid && !is_gone(e.tid.rtid))
			return true;
	}
	return false;
}

void gck_tid_make_unique(void)
{
	int32_t rtid = gck_raw(SYS_gettid);
	int32_t vtid;

	forget(rtid);
	if (!is_used(rtid) || !gck_state.tid_offset)
		return;
	vtid = __atomic_fetch_add(&next_vtid, 1, __ATOMIC_RELAXED);
	add(vtid, rtid);
	__atomic_store_n(gck_tid_of(pthread_self()), vtid, __ATOMIC_RELEASE);
}
