/* SPDX-License-Identifier: Apache-2.0
 * The rank that is captured: opening it, its memory, its shim's state. */
#include "config.h"

#include "shim/process/rank/target.h"

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/process/proc/pages.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/rank/helper_link.h"

#define LOOKS 3

/* While the rank runs, its lists may change as they are read: try again. */
static int refresh_exclusions(struct gck_target *t, struct gck_error *err)
{
	for (int i = 0; i < LOOKS; i++)
		if (gck_exclusions_read(&t->excluded, t->pid, t->shim->mpi_state,
					t->shim->cuda_state, err) == 0)
			return 0;
	return -1;
}

int gck_target_refresh(struct gck_target *t, struct gck_error *err)
{
	struct gck_shim_state *s = t->shim;

	if (gck_memory_read(t->pid, t->address, s, offsetof(struct gck_shim_state, tids), err))
		return gck_fail_in(err, "the shim's state");
	if (s->magic != GCK_SHIM_MAGIC || s->version != GCK_LINK_VERSION ||
	    s->size != sizeof(*s) || s->ntids > GCK_SHIM_MAX_TIDS ||
	    s->naltstacks > GCK_SHIM_MAX_TIDS)
		return gck_fail(err, EPROTO, "process %d has no state of this version's preload at "
				"%llx: was another program executed, or gpuckpt updated since it "
				"started?", (int)t->pid, (unsigned long long)t->address);
	if (gck_memory_read(t->pid, t->address + offsetof(struct gck_shim_state, tids), s->tids,
			    s->ntids * sizeof(s->tids[0]), err) ||
	    gck_memory_read(t->pid, t->address + offsetof(struct gck_shim_state, altstacks),
			    s->altstacks, s->naltstacks * sizeof(s->altstacks[0]), err) ||
	    gck_memory_read(t->pid, t->address + offsetof(struct gck_shim_state, overflow),
			    &s->overflow, sizeof(*s) - offsetof(struct gck_shim_state, overflow),
			    err))
		return gck_fail_in(err, "the shim's state");
	return refresh_exclusions(t, err);
}

/* Make one call in the rank. A stopped rank's helper does not answer; and after a helper connected
 * again, tracing is permitted once it has answered. */
static int greet(const struct gck_target *t, struct gck_error *err)
{
	struct gck_link_msg m = {.ncalls = 1};

	if (gck_proc_runs(t->proc, t->pid, err))
		return -1;
	m.calls[0].nr = SYS_getpid;
	return gck_helper_calls(t, &m, GCK_HELPER_MS, err);
}

int gck_target_open(struct gck_target *t, pid_t pid, int link,
		    const struct gck_link_hello *hello, struct gck_error *err)
{
	*t = (struct gck_target){.pid = pid, .proc = -1, .pidfd = -1, .link = link,
				 .address = hello->state};
	t->shim = calloc(1, sizeof(*t->shim));
	if (!t->shim)
		return gck_fail(err, ENOMEM, "out of memory");
	t->proc = gck_proc_open(pid, err);
	if (t->proc < 0)
		goto failed;
	if (gck_proc_headless(t->proc)) {
		gck_fail(err, ENOTSUP,
			 "process %d: its main thread has ended while others run; let it wait for "
			 "them (pthread_join)",
			 (int)pid);
		goto failed;
	}
	t->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (t->pidfd < 0) {
		gck_fail(err, errno, "cannot open process %d: %s", (int)pid, strerror(errno));
		goto failed;
	}
	if ((link >= 0 && greet(t, err)) || gck_target_refresh(t, err))
		goto failed;
	return 0;
failed:
	gck_target_close(t);
	return -1;
}

void gck_target_close(struct gck_target *t)
{
	if (t->proc >= 0)
		close(t->proc);
	if (t->pidfd >= 0)
		close(t->pidfd);
	free(t->shim);
	gck_exclusions_free(&t->excluded);
	t->proc = t->pidfd = -1;
	t->shim = NULL;
}

int32_t gck_target_vtid(const struct gck_target *t, int32_t rtid)
{
	if (rtid == t->pid)
		return t->shim->vpid;
	for (uint32_t i = 0; i < t->shim->ntids; i++)
		if (t->shim->tids[i].vtid && t->shim->tids[i].rtid == rtid)
			return t->shim->tids[i].vtid;
	return rtid;
}

bool gck_target_is_lease(const struct gck_target *t, int signo, uint64_t value)
{
	return signo == SIGSTOP && value == t->address;
}

int gck_target_fd(const struct gck_target *t, int fd)
{
	return (int)syscall(SYS_pidfd_getfd, t->pidfd, fd, 0);
}
