/* SPDX-License-Identifier: Apache-2.0
 * Memory locks: mlock and mlockall. Scan, check against the limit of the node, and restore. Which
 * mappings are locked is in their flags (smaps). */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "shim/process/memory/memory.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/rank/helper_link.h"

#define CAP_IPC_LOCK_BIT 14

/* ---- scan ---------------------------------------------------------------------------------- */

void gck_note_locks(struct gck_scan *s, const char *status)
{
	uint64_t kib = gck_proc_number(status, "VmLck:", 10, 0);

	if (kib)
		gck_obstacle_add(s->f, false, "locked memory",
				 "see that a restart has that limit (ulimit -l)",
				 "%llu KiB are locked (mlock): a step with a lower limit cannot "
				 "restore it", (unsigned long long)kib);
}

/* The kernel does not show whether memory to come is locked. So the held rank's heap grows by a
 * page and shrinks again, in one message to the helper: locked memory refuses MADV_DONTNEED, and
 * is present at once unless MCL_ONFAULT is set. */
int gck_scan_lock_future(struct gck_scan *s, int timeout_ms)
{
	uint64_t brk = s->img->brk, page = (brk + GCK_PAGE - 1) / GCK_PAGE * GCK_PAGE;
	const int64_t *grown, *advised;
	struct gck_link_msg m = {0};
	unsigned char resident;

	grown = gck_helper_call(&m, SYS_brk, page + GCK_PAGE, 0, 0, 0);
	gck_helper_call(&m, SYS_mincore, page, GCK_PAGE, s->t->shim->scratch, 0);
	advised = gck_helper_call(&m, SYS_madvise, page, GCK_PAGE, MADV_DONTNEED, 0);
	gck_helper_call(&m, SYS_brk, brk, 0, 0, 0);
	if (gck_helper_calls(s->t, &m, timeout_ms, s->err) ||
	    gck_memory_read(s->t->pid, s->t->shim->scratch, &resident, 1, s->err))
		return -1;
	if ((uint64_t)*grown == page + GCK_PAGE && *advised == -EINVAL)
		s->img->lock_future = resident & 1 ? MCL_FUTURE : MCL_FUTURE | MCL_ONFAULT;
	return 0;
}

/* ---- restore ------------------------------------------------------------------------------- */

/* The kernel does not lock its own mappings. */
static bool is_locked(const struct gck_map *m)
{
	return m->flags & GCK_MAP_LOCKED && m->kind < GCK_MAP_VDSO;
}

static bool may_lock_all(const struct gck_restore *r)
{
	char *status = gck_proc_read(r->proc, "status", NULL, NULL);
	uint64_t capabilities = status ? gck_proc_number(status, "CapEff:", 16, 0) : 0;

	free(status);
	return capabilities >> CAP_IPC_LOCK_BIT & 1;
}

int gck_restore_check_locks(struct gck_restore *r, struct gck_error *err)
{
	uint64_t bytes = 0;
	struct rlimit limit;

	for (size_t i = 0; i < r->img->nmaps; i++)
		if (is_locked(&r->img->maps[i]))
			bytes += r->img->maps[i].end - r->img->maps[i].start;
	if ((!bytes && !r->img->lock_future) || may_lock_all(r))
		return 0;
	if (prlimit(r->remote.pid, RLIMIT_MEMLOCK, NULL, &limit))
		return gck_fail(err, errno, "process %d: reading its limits: %s", r->remote.pid,
				strerror(errno));
	if (limit.rlim_max && bytes <= limit.rlim_max)
		return 0;
	return gck_fail(err, ENOTSUP,
			"%llu KiB of its memory are locked (mlock), and the new step's limit is "
			"%llu KiB: raise the limit of locked memory (ulimit -l, LimitMEMLOCK of "
			"slurmd)",
			(unsigned long long)(bytes / 1024),
			(unsigned long long)(limit.rlim_max / 1024));
}

/* Of a call that only brings locked pages into memory, which guard pages cannot be, the result
 * does not matter. */
static int run(struct gck_restore *r, struct gck_batch *b, struct gck_error *err)
{
	if (gck_remote_run(&r->remote, r->remote.pid, b, err))
		return -1;
	for (unsigned i = 0; i < b->n; i++)
		if (b->calls[i].nr != SYS_mlock &&
		    gck_remote_check(b->calls[i].result, err,
				     "%llu bytes at %#llx cannot be locked in memory",
				     (unsigned long long)b->calls[i].args[1],
				     (unsigned long long)b->calls[i].args[0]))
			return -1;
	b->n = 0;
	return 0;
}

static int raise_limit(const struct gck_restore *r, struct gck_error *err)
{
	struct rlimit limit;

	if (!prlimit(r->remote.pid, RLIMIT_MEMLOCK, NULL, &limit)) {
		limit.rlim_cur = limit.rlim_max;
		if (!prlimit(r->remote.pid, RLIMIT_MEMLOCK, &limit, NULL))
			return 0;
	}
	return gck_fail(err, errno, "process %d: setting its limit of locked memory: %s",
			r->remote.pid, strerror(errno));
}

/* Once everything is mapped. MLOCK_ONFAULT fails only at a limit; mlock then replaces that flag. */
int gck_restore_locks(struct gck_restore *r, struct gck_error *err)
{
	struct gck_batch b;

	b.n = 0;
	if (raise_limit(r, err))
		return -1;
	for (size_t i = 0; i < r->img->nmaps; i++) {
		const struct gck_map *m = &r->img->maps[i];

		if (!is_locked(m))
			continue;
		gck_batch_add(&b, SYS_mlock2, m->start, m->end - m->start, MLOCK_ONFAULT);
		if (!(m->flags & GCK_MAP_ONFAULT))
			gck_batch_add(&b, SYS_mlock, m->start, m->end - m->start);
		if (b.n + 3 > GCK_REMOTE_CALLS && run(r, &b, err))
			return -1;
	}
	if (r->img->lock_future)
		gck_batch_add(&b, SYS_mlockall, (uint64_t)r->img->lock_future);
	return run(r, &b, err);
}
