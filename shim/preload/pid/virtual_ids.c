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

#include "shim/preload/helper/helper.h"
#include "shim/preload/pid/pid.h"

#define KERNEL_MAX_PID (1 << 22) /* PID_MAX_LIMIT: the kernel's numbers are below it */

union entry {
	struct gck_shim_tid tid;
	uint64_t word;
};

/* ---- calls --------------------------------------------------------------------------------- */

extern const char gck_guard_check[] __attribute__((visibility("hidden")));
extern const char gck_guard_call[] __attribute__((visibility("hidden")));

GCK_EACH void gck_guard_begin(void)
{
	gck_state.guard_check = (uint64_t)gck_guard_check;
	gck_state.guard_call = (uint64_t)gck_guard_call;
}

#ifdef __clang__ /* which makes no copies */
#define ONE_COPY __attribute__((noinline))
#else
#define ONE_COPY __attribute__((noinline, noclone))
#endif

/* A second copy would have the same labels. */
ONE_COPY long gck_raw_in(uint32_t start, long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("gck_guard_check:\n\t"
			 "cmpl %[start], %[now]\n\t"
			 "jne 1f\n"
			 "gck_guard_call:\n\t"
			 "syscall\n\t"
			 "jmp 2f\n"
			 "1:\tmovq %[stale], %%rax\n"
			 "2:"
			 : "=a"(result)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9),
			   [start] "r"(start), [now] "m"(gck_state.restarts),
			   [stale] "i"(GCK_STALE)
			 : "rcx", "r11", "cc", "memory");
	return result;
}

/* ---- the table ----------------------------------------------------------------------------- */

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
	uint32_t start;
	bool is;

	do {
		start = gck_start();
		is = gck_raw(SYS_getpid) == gck_state.rpid;
	} while (gck_start() != start);
	return is;
}

static int32_t to_kernel(int32_t id)
{
	for (uint32_t i = 0; i < gck_state.ntids; i++) {
		union entry e = load(i);

		if (e.tid.vtid == id)
			return e.tid.rtid;
	}
	return id == gck_state.vpid ? gck_state.rpid : id;
}

static int32_t to_program(int32_t id)
{
	for (uint32_t i = 0; i < gck_state.ntids; i++) {
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

static bool drop(uint32_t i, uint64_t old)
{
	return __atomic_compare_exchange_n(word_of(i), &old, 0, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

/* In this start the kernel gave this number to a new thread or child: its last owner is gone. */
static void forget(int32_t rtid, uint32_t start)
{
	for (uint32_t i = 0; i < gck_state.ntids; i++) {
		union entry e = load(i);

		if (e.tid.rtid == rtid && gck_start() == start)
			drop(i, e.word);
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

static bool drop_pair(int32_t vtid, int32_t rtid)
{
	union entry e = { .tid = { .vtid = vtid, .rtid = rtid } };
	bool found = false;

	for (uint32_t i = 0; i < gck_state.ntids; i++)
		found |= drop(i, e.word);
	return found;
}

/* The number that the program gets for one which the kernel gave in this start. If a restart has
 * come since, the thread or child was restored with the number that it had at the capture: the
 * kernel's, or the one in the table. An entry with the kernel's old number is newer than that. */
static int32_t make_unique(int32_t rtid, uint32_t start)
{
	int32_t vtid;

	forget(rtid, start);
	if (!is_used(rtid) || gck_start() != start)
		return rtid;
	vtid = unused_for(rtid);
	add(vtid, rtid);
	return gck_start() != start && drop_pair(vtid, rtid) ? rtid : vtid;
}

void gck_tid_make_unique(void)
{
	uint32_t start = gck_start();
	int32_t rtid = gck_raw(SYS_gettid);
	int32_t vtid;

	if (!gck_state.tid_offset)
		return;
	vtid = make_unique(rtid, start);
	if (vtid != rtid)
		__atomic_store_n(gck_tid_of(pthread_self()), vtid, __ATOMIC_RELEASE);
}

/* It has its parent's table, and its parent makes the same number for it. */
GCK_EACH void gck_child_begin(void)
{
	int32_t rpid = gck_raw(SYS_getpid);

	gck_link_leave();
	if (!(gck_state.features & GCK_SHIM_DESCENDANT))
		gck_state.features |= GCK_SHIM_DESCENDANT;
	gck_death_begin_child(rpid);
	if (gck_is_original())
		return;
	gck_tid_make_unique();
	gck_state.vpid = to_program(rpid);
	gck_state.rpid = rpid;
}

int32_t gck_child_make_unique(int32_t rpid, uint32_t start)
{
	return make_unique(rpid, start);
}

void gck_child_forget(int32_t vpid, int32_t rpid)
{
	if (!is_group(rpid))
		drop_pair(vpid, rpid);
}

bool gck_is_child(int32_t vpid)
{
	uint32_t start;
	long r;

	do {
		start = gck_start();
		r = gck_call_in(start, SYS_waitid, P_PID, gck_id_to_kernel(vpid), 0,
				WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL, 0);
	} while (r == GCK_STALE);
	return r == 0;
}
