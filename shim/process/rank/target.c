/* SPDX-License-Identifier: Apache-2.0
 * The rank that is captured: opening it, its memory, its shim's state. */
#include "config.h"

#include "shim/process/rank/target.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/program/program.h"
#include "shim/process/proc/maps.h"
#include "shim/process/proc/pages.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/rank/helper_link.h"

#define LOOKS 3

/* A child has its parent's state of CUDA until it has run the handlers of fork, and uses no GPU. */
static void leave_gpu(struct gck_target *t)
{
	struct gck_exclusions *x = &t->excluded;

	x->left_gpu = t->shim->features & GCK_SHIM_LEFT_GPU;
	if (!t->forked || !x->cuda_pid || x->cuda_pid == t->pid)
		return;
	x->left_gpu = true;
	memset(&x->gpu, 0, sizeof x->gpu);
}

/* While the rank runs, its lists may change as they are read: try again. */
static int refresh_exclusions(struct gck_target *t, struct gck_error *err)
{
	int result = -1;

	for (int i = 0; i < LOOKS && result; i++)
		result = gck_exclusions_read(&t->excluded, t->pid, t->shim->mpi_state,
					     t->shim->cuda_state, err);
	if (!result)
		leave_gpu(t);
	return result;
}

/* A child made by fork has its parent's state, and only the rank's has its standard descriptors. */
static void inherit(struct gck_target *t)
{
	struct gck_shim_state *s = t->shim;

	t->forked = s->rpid != t->pid;
	if (t->forked)
		s->ntids = 0;
	if (t->forked && s->features & GCK_SHIM_IMPLANTED)
		s->helper_tid = 0; /* nothing has told it of the fork */
	s->vpid = t->vpid;
	s->rpid = t->pid;
	memcpy(s->stdio, t->rank->shim->stdio, sizeof s->stdio);
}

static bool takes_no_preload(const struct gck_target *t)
{
	char loader[64];

	return gck_proc_loader(t->proc, loader, sizeof loader) >= 0 &&
	       gck_program_takes_no_preload(loader);
}

/* What a state of a process that has none yet says (threads/implant.c). */
static void begin_state(struct gck_shim_state *s)
{
	memset(s, 0, sizeof *s);
	s->features = GCK_SHIM_WAITS | GCK_SHIM_SUMMON | GCK_SHIM_IMPLANTED;
	s->link_fd = -1;
}

int gck_target_refresh(struct gck_target *t, struct gck_error *err)
{
	struct gck_shim_state *s = t->shim;

	if (!t->address) {
		if (!takes_no_preload(t))
			return gck_fail(err, EPROTO, "process %d has just executed a program",
					(int)t->pid);
		begin_state(s);
		inherit(t);
		return refresh_exclusions(t, err);
	}
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
	if (t->rank)
		inherit(t);
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

static int make_room(struct gck_target *t, struct gck_error *err)
{
	t->shim = calloc(1, sizeof(*t->shim));
	t->flight = calloc(1, sizeof(*t->flight));
	t->probe = malloc(sizeof(*t->probe));
	if (t->flight)
		t->flight->proc = -1;
	if (t->probe)
		*t->probe = -1;
	if (t->shim && t->flight && t->probe)
		return 0;
	free(t->shim);
	free(t->flight);
	free(t->probe);
	return gck_fail(err, ENOMEM, "out of memory");
}

int gck_target_open(struct gck_target *t, pid_t pid, int link,
		    const struct gck_link_hello *hello, struct gck_error *err)
{
	*t = (struct gck_target){.pid = pid, .proc = -1, .pidfd = -1, .link = link,
				 .address = hello->state};
	if (make_room(t, err))
		return -1;
	gck_proc_open_many();
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

/* The state of the rank's preload in another process: at the end of its data. 0: it is not
 * there. */
static uint64_t state_in(const struct gck_target *rank, int proc)
{
	struct gck_maps there = {0}, here = {0};
	const struct gck_vma *from, *to;
	uint64_t address = 0;

	if (!gck_maps_read(rank->proc, &there, NULL) && !gck_maps_read(proc, &here, NULL)) {
		from = gck_maps_file(&there, rank->address);
		to = from ? gck_maps_same_file(&here, from) : NULL;
		address = to ? to->start + (rank->address - from->start) : 0;
	}
	gck_maps_free(&there);
	gck_maps_free(&here);
	return address;
}

int gck_target_open_child(struct gck_target *t, const struct gck_target *parent, pid_t pid,
			  struct gck_error *err)
{
	struct gck_error why = {0};

	*t = (struct gck_target){.pid = pid, .proc = -1, .pidfd = -1, .link = -1,
				 .rank = parent->rank ? parent->rank : parent,
				 .vpid = gck_target_vtid(parent, pid)};
	if (make_room(t, err))
		return -1;
	t->proc = gck_proc_open(pid, err);
	t->address = t->proc < 0 ? 0 : state_in(t->rank, t->proc);
	t->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (t->proc >= 0 && t->pidfd >= 0 && !gck_target_refresh(t, &why))
		return 0;
	gck_target_close(t);
	if (why.code == EPERM)
		return gck_fail(err, EAGAIN, "process %d, a descendant, cannot be traced: it has "
				"just started, or kernel.yama.ptrace_scope is 1 and neither fork "
				"nor exec made it, or it has other rights", (int)pid);
	return gck_fail(err, EAGAIN, "process %d, a descendant, has no preload, or has just "
			"started; start no set-uid program, or try again", (int)pid);
}

/* ---- descriptors --------------------------------------------------------------------------- */

struct gck_target_place gck_target_at(const struct gck_target *t, int fd)
{
	const struct gck_flight *f = t->flight;

	if (!f || !f->n || fd < f->first)
		return (struct gck_target_place){.pid = t->pid, .proc = t->proc, .fd = fd};
	return (struct gck_target_place){.pid = getpid(), .proc = f->proc,
					 .fd = (size_t)(fd - f->first) < f->n
						       ? f->fds[fd - f->first] : -1};
}

int gck_flight_add(const struct gck_target *t, int copy, int first, struct gck_error *err)
{
	struct gck_flight *f = t->flight;
	int *more = reallocarray(f->fds, f->n + 1, sizeof *more);

	if (more)
		f->fds = more;
	if (f->proc < 0)
		f->proc = gck_proc_open(getpid(), NULL);
	if (!more || f->proc < 0) {
		close(copy);
		return gck_fail(err, ENOMEM, "out of memory for a descriptor that is under way");
	}
	if (!f->n)
		f->first = first;
	f->fds[f->n++] = copy;
	return f->first + (int)f->n - 1;
}

void gck_flight_close(const struct gck_target *t)
{
	for (size_t i = 0; t->flight && i < t->flight->n; i++) {
		if (t->flight->fds[i] >= 0)
			close(t->flight->fds[i]);
		t->flight->fds[i] = -1;
	}
}

static void free_flight(struct gck_target *t)
{
	gck_flight_close(t);
	if (t->flight) {
		if (t->flight->proc >= 0)
			close(t->flight->proc);
		free(t->flight->fds);
	}
	free(t->flight);
	t->flight = NULL;
}

void gck_target_close(struct gck_target *t)
{
	if (t->proc >= 0)
		close(t->proc);
	if (t->pidfd >= 0)
		close(t->pidfd);
	if (t->probe && *t->probe >= 0)
		close(*t->probe);
	free_flight(t);
	free(t->shim);
	free(t->probe);
	gck_exclusions_free(&t->excluded);
	t->proc = t->pidfd = -1;
	t->shim = NULL;
	t->probe = NULL;
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
	struct gck_target_place at = gck_target_at(t, fd);

	return at.pid == t->pid ? (int)syscall(SYS_pidfd_getfd, t->pidfd, fd, 0)
				: fcntl(at.fd, F_DUPFD_CLOEXEC, 0);
}
