/* SPDX-License-Identifier: Apache-2.0
 * Restore: empties the process. All threads but the main one exit, addresses that the kernel holds
 * for the main thread are unregistered, and everything but the vdso and the plant is unmapped. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "shim/process/proc/procfs.h"
#include "shim/process/memory/memory.h"
#include "shim/process/ptrace/restore_note.h"

#ifndef PTRACE_GET_RSEQ_CONFIGURATION
#define PTRACE_GET_RSEQ_CONFIGURATION 0x420f
#endif
#define RSEQ_UNREGISTER 1
#define LOWEST 0x300000000000ull /* far from heaps, stacks, and the addresses that mmap() and CUDA
				  * choose */
#define HIGHEST 0x7ffffffff000ull
#define GUARD 0x1000000ull /* free space around mappings: stacks and the heap grow */

struct rseq_configuration {
	uint64_t address;
	uint32_t size, signature, flags, unused;
};

/* start, if [start, end) is clear of a mapping at [from, to) and its guards; else the next address
 * to try. */
static uint64_t next_start(uint64_t start, uint64_t end, uint64_t from, uint64_t to)
{
	return start < to + GUARD && end + GUARD > from ? to + GUARD : start;
}

static uint64_t next_clear(const struct gck_restore *r, const struct gck_maps *now, uint64_t start,
			   uint64_t size)
{
	start = gck_maps_clear(now, start, size, GUARD);
	for (size_t i = 0; i < r->img->nmaps; i++)
		start = next_start(start, start + size, r->img->maps[i].start, r->img->maps[i].end);
	return start;
}

/* Find an address range that is free now and in the image. */
int gck_restore_free_range(struct gck_restore *r, uint64_t size, uint64_t *address,
			   struct gck_error *err)
{
	uint64_t start = LOWEST, before;
	struct gck_maps now = {0};

	if (gck_maps_read(r->proc, &now, err))
		return -1;
	do {
		before = start;
		start = next_clear(r, &now, start, size);
	} while (start != before && start + size <= HIGHEST);
	gck_maps_free(&now);
	if (start + size > HIGHEST)
		return gck_fail(err, ENOMEM,
				"process %d: no %llu bytes of address space are free in "
				"the image and in the new process",
				r->remote.pid, (unsigned long long)size);
	*address = start;
	return 0;
}

/* A previous restore left its own threads stopped and traced; other threads must be seized
 * first. */
static bool is_traced(pid_t tid)
{
	siginfo_t info;

	return ptrace(PTRACE_GETSIGINFO, tid, 0, &info) == 0 || errno == EINVAL;
}

static int end_threads(struct gck_restore *r, struct gck_error *err)
{
	int *tids, failed = 0;
	size_t n;

	if (gck_proc_list(r->proc, "task", &tids, &n, err))
		return -1;
	for (size_t i = 0; i < n && !failed; i++) {
		/* io_uring's own end with its descriptors */
		if (tids[i] == r->remote.pid || gck_proc_is_worker(r->proc, tids[i]))
			continue;
		failed = (!is_traced(tids[i]) && gck_remote_seize_thread(tids[i], err)) ||
			 gck_remote_exit(&r->remote, tids[i], err);
	}
	free(tids);
	return failed ? -1 : 0;
}

/* Unregister addresses that the kernel would write to after their memory is gone, and stop interval
 * timers, which an execve(2) leaves. */
static int forget(struct gck_restore *r, struct gck_error *err)
{
	struct rseq_configuration rseq = {0};
	const struct {
		stack_t stack;
		struct itimerval timer;
	} none = {.stack = {.ss_flags = SS_DISABLE}};
	const uint64_t timer = r->remote.scratch + sizeof none.stack;
	struct gck_batch b;

	b.n = 0;
	ptrace(PTRACE_GET_RSEQ_CONFIGURATION, r->remote.pid, sizeof rseq, &rseq);
	if (gck_remote_write(&r->remote, r->remote.scratch, &none, sizeof none, err))
		return -1;
	gck_batch_add(&b, SYS_set_robust_list, 0, 3 * sizeof(void *));
	gck_batch_add(&b, SYS_set_tid_address, 0);
	gck_batch_add(&b, SYS_sigaltstack, r->remote.scratch, 0);
	for (uint64_t i = ITIMER_REAL; i <= ITIMER_PROF; i++)
		gck_batch_add(&b, SYS_setitimer, i, timer, 0);
	if (rseq.address)
		gck_batch_add(&b, SYS_rseq, rseq.address, rseq.size, RSEQ_UNREGISTER,
			      rseq.signature);
	if (gck_remote_run(&r->remote, r->remote.pid, &b, err))
		return -1;
	if (rseq.address && b.calls[b.n - 1].result)
		return gck_fail(
			err, (int)-b.calls[b.n - 1].result,
			"process %d: its restartable sequences (rseq) cannot be unregistered: "
			"%s",
			r->remote.pid, strerror((int)-b.calls[b.n - 1].result));
	return 0;
}

static bool is_kept(const struct gck_restore *r, const struct gck_vma *v)
{
	return !strcmp(v->name, "[vdso]") || !strncmp(v->name, "[vvar", 5) || v->start >= HIGHEST ||
	       (v->start >= r->remote.plant && v->end <= r->remote.plant + GCK_REMOTE_PLANT);
}

static int unmap_all(struct gck_restore *r, struct gck_error *err)
{
	struct gck_maps now = {0};
	struct gck_batch b;
	uint64_t from = 0;
	int failed;

	b.n = 0;
	if (gck_maps_read(r->proc, &now, err))
		return -1;
	for (size_t i = 0; i < now.n; i++) {
		if (!is_kept(r, &now.v[i]))
			continue;
		if (from < now.v[i].start && from < HIGHEST)
			gck_batch_add(&b, SYS_munmap, from,
				      (now.v[i].start < HIGHEST ? now.v[i].start : HIGHEST) - from);
		from = now.v[i].end;
	}
	if (from < HIGHEST)
		gck_batch_add(&b, SYS_munmap, from, HIGHEST - from);
	gck_maps_free(&now);
	failed = gck_remote_run(&r->remote, r->remote.pid, &b, err);
	for (unsigned i = 0; i < b.n && !failed; i++)
		if (b.calls[i].result)
			failed = gck_fail(err, (int)-b.calls[i].result,
					  "process %d: its memory at %#llx "
					  "cannot be unmapped: %s",
					  r->remote.pid, (unsigned long long)b.calls[i].args[0],
					  strerror((int)-b.calls[i].result));
	return failed;
}

static int plant(struct gck_restore *r, struct gck_error *err)
{
	uint64_t address;

	return gck_restore_free_range(r, GCK_REMOTE_PLANT, &address, err) ||
	       gck_remote_plant(&r->remote, address, err) ? -1 : 0;
}

/* ---- the program's file -------------------------------------------------------------------- */

/* Whether this node has the image's program, with the same bytes. */
static bool has_program(const struct gck_restore *r)
{
	for (size_t i = 0; i < r->img->ncontents; i++)
		if (r->contents[i] >= 0 && !strcmp(r->img->contents[i].path, r->img->exe))
			return true;
	return false;
}

/* The new task's standard descriptors, where a previous build put them, outlive an execve(2). */
static int keep_stdio(struct gck_restore *r, struct gck_error *err)
{
	struct gck_batch b;

	b.n = 0;
	for (int i = 0; i < 3 && r->high; i++)
		gck_batch_add(&b, SYS_fcntl, (uint64_t)(r->high + i), F_SETFD, 0);
	return gck_remote_run(&r->remote, r->remote.pid, &b, err);
}

/* /proc/PID/exe is the file that a process has executed, and only a privileged process may set it.
 * The rank may have executed another one than the new task (`bash -c 'exec program'`). */
static int execute(struct gck_restore *r, struct gck_error *err)
{
	struct stat want, now;
	struct gck_error why;

	if (fstatat(r->proc, "exe", &now, 0))
		return gck_fail(err, errno, "process %d: its program: %s", r->remote.pid,
				strerror(errno));
	if (!stat(r->img->exe, &want) && want.st_ino == now.st_ino && want.st_dev == now.st_dev)
		return 0;
	if (keep_stdio(r, err))
		return -1;
	gck_fail(&why, ENOENT, "it is not there with the same content");
	if (has_program(r) && !gck_remote_execute(&r->remote, r->img->exe, &why))
		return plant(r, err);
	return gck_restore_note(r, err, "/proc/self/exe of process %d is not %s: %s",
				r->remote.pid, r->img->exe, why.text);
}

int gck_restore_vacate(struct gck_restore *r, struct gck_error *err)
{
	return plant(r, err) || end_threads(r, err) || execute(r, err) || forget(r, err) ||
	       unmap_all(r, err) ? -1 : 0;
}
