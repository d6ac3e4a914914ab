/* SPDX-License-Identifier: Apache-2.0
 * The table of the numbers of threads and children. An entry is one 64-bit word, so that it is
 * read, taken and freed as a whole, without a lock: a signal handler may read it at any moment.
 * Entries are not removed when a thread ends, since its TID must be known until it is gone; who
 * needs an entry checks whether the old one's thread is gone. A child's goes when it is waited
 * for. */
#include "config.h"

#include "shim/preload/pid/virtual_ids.h"

#include <pthread.h>
#include <sys/wait.h>

#include "shim/preload/pid/pid.h"

#define KERNEL_MAX_PID (1 << 22) /* PID_MAX_LIMIT: the kernel's numbers are below it */

union entry {
	struct gck_shim_tid tid;
	uint64_t word;
};

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

/* Length of the table. A child has the table, too, but not the threads and children. */
static uint32_t entries(void)
{
	return gck_state.ntids && gck_is_rank() ? gck_state.ntids : 0;
}

static int32_t to_kernel(int32_t id)
{
	uint32_t n = entries();

	for (uint32_t i = 0; i < n; i++) {
		union entry e = load(i);

		if (e.tid.vtid == id)
			return e.tid.rtid;
	}
	return id == gck_state.vpid ? gck_state.rpid : id;
}

static int32_t to_program(int32_t id)
{
	uint32_t n = entries();

	for (uint32_t i = 0; i < n; i++) {
		union entry e = load(i);

		if (e.tid.vtid && e.tid.rtid == id)
			return e.tid.vtid;
	}
	return id == gck_state.rpid ? gck_state.vpid : id;
}

int32_t gck_id_to_kernel(int32_t id)
{
	if (id > 0)
		return to_kernel(id);
	return id < -1 ? -to_kernel(-id) : id;
}

int32_t gck_id_to_program(int32_t id)
{
	if (id > 0)
		return to_program(id);
	return id < -1 ? -to_program(-id) : id;
}

/* A group keeps its number when its leader was waited for. */
static bool is_group(int32_t rtid)
{
	return gck_raw(SYS_kill, -rtid, 0) != -ESRCH;
}

static bool is_gone(int32_t rtid)
{
	return gck_raw(SYS_kill, rtid, 0) == -ESRCH && !is_group(rtid);
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

/* The kernel gave this number to a new thread or child: its previous owner is gone. */
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

/* A number that no process of the rank uses. It is made of the kernel's, so that two processes do
 * not give the same. */
static int32_t unused_for(int32_t rtid)
{
	int32_t vtid = rtid;

	do
		vtid += KERNEL_MAX_PID;
	while (is_used(vtid));
	return vtid;
}

void gck_tid_make_unique(void)
{
	int32_t rtid = gck_raw(SYS_gettid);
	int32_t vtid;

	forget(rtid);
	if (!is_used(rtid) || !gck_state.tid_offset)
		return;
	vtid = unused_for(rtid);
	add(vtid, rtid);
	__atomic_store_n(gck_tid_of(pthread_self()), vtid, __ATOMIC_RELEASE);
}

int32_t gck_child_make_unique(int32_t rpid)
{
	int32_t vpid;

	forget(rpid);
	if (!is_used(rpid))
		return rpid;
	vpid = unused_for(rpid);
	add(vpid, rpid);
	return vpid;
}

void gck_child_forget(int32_t vpid, int32_t rpid)
{
	union entry ended = { .tid = { .vtid = vpid, .rtid = rpid } };

	if (is_group(rpid))
		return;
	for (uint32_t i = 0; i < gck_state.ntids; i++) {
		uint64_t old = ended.word;

		__atomic_compare_exchange_n(word_of(i), &old, 0, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED);
	}
}

bool gck_is_child(int32_t vpid)
{
	return gck_raw(SYS_waitid, P_PID, gck_id_to_kernel(vpid), 0,
		       WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL, 0) == 0;
}
