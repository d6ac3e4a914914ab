/* SPDX-License-Identifier: Apache-2.0
 * The rank's descendants in a capture: each is one more capture, of the same instant. They are
 * found and held after their parent, so that none is made meanwhile. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <stddef.h>
#include <time.h>

#include "common/base/boot_clock.h"
#include "shim/process/capture/capture.h"
#include "shim/process/memory/memory.h"
#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/tree/tree.h"

#define LOOKS_PER_MS 5
#define BEGIN_MS 2000     /* for a process to come as far as its preload */
#define SCAN_BEGIN_MS 500 /* the same in a scan: for all of its processes */

static const struct timespec pause_ns = {.tv_nsec = 1000000 / LOOKS_PER_MS};

/* Open a process that may just have begun: it may have no preload yet, or may not have let itself
 * be traced. It runs on meanwhile. *waited_ms: what is waited is added, up to longest_ms. */
static int open_begun(struct gck_target *t, const struct gck_target *parent, pid_t pid,
		      int64_t *waited_ms, int64_t longest_ms, struct gck_error *err)
{
	int64_t start = gck_boot_ms() - *waited_ms;
	int failed;

	while ((failed = gck_target_open_child(t, parent, pid, err)) && err->code == EAGAIN &&
	       gck_boot_ms() - start < longest_ms && !gck_process_ended(pid))
		nanosleep(&pause_ns, NULL);
	*waited_ms = gck_boot_ms() - start;
	return failed;
}

/* ---- before the rank is held --------------------------------------------------------------- */

/* The agent quiesces MPI in one process of a rank. A child by fork has what its parent has. */
static void note_mpi(const struct gck_target *t, struct gck_obstacles *f)
{
	if (!t->shim->mpi_state)
		return;
	if (f->mpi_pid)
		gck_obstacle_add_passing(f, "process", "wait until one of them has ended",
					 "two of its processes have MPI: %d and %d",
					 (int)f->mpi_pid, (int)t->pid);
	f->mpi_pid = t->pid;
}

static int take_gpu(const struct gck_target *t, struct gck_gpus *gpus, struct gck_error *err)
{
	struct gck_gpu_data *g;

	if (!t->excluded.gpu.pid)
		return 0;
	g = gck_grow(&gpus->v, &gpus->n, sizeof *g, err);
	if (!g)
		return -1;
	*g = t->excluded.gpu;
	return 0;
}

static void drop(struct gck_known_process *k)
{
	gck_target_close(&k->t);
	gck_maps_free(&k->flags.maps);
}

void gck_tree_scan_free(struct gck_tree_scan *found)
{
	for (size_t i = 0; i < found->nknown; i++)
		drop(&found->known[i]);
	free(found->known);
	free(found->gpus.v);
	free(found->ipc);
	*found = (struct gck_tree_scan){.known = NULL};
}

/* Scan a process and those below it. */
static int scan(const struct gck_target *t, struct gck_map_flags *flags,
		const struct gck_options *o, struct gck_obstacles *f, struct gck_tree_scan *found,
		struct gck_error *err)
{
	struct gck_scan s = {.t = t, .o = o, .f = f, .err = err, .flags = &flags->maps};
	int result;

	s.img = calloc(1, sizeof(*s.img));
	if (!s.img)
		return gck_fail(err, ENOMEM, "out of memory");
	result = gck_map_flags_read(flags, t, err) || gck_scan_node(&s) ||
		 gck_scan_process(&s) || gck_scan_maps(&s) || gck_scan_ipc(&s) ||
		 gck_scan_fds(&s) || gck_scan_descendants(t, s.img, o, f, found, err) ||
		 gck_ipc_join(&found->ipc, &found->nipc, s.img, err);
	gck_maps_free(&s.maps);
	gck_image_free(s.img);
	return result ? -1 : 0;
}

int gck_scan_whole(const struct gck_target *t, const struct gck_options *o,
		   struct gck_obstacles *f, struct gck_tree_scan *found,
		   struct gck_error *err)
{
	struct gck_map_flags flags = {.locked = 0};
	int result = scan(t, &flags, o, f, found, err);

	gck_maps_free(&flags.maps);
	gck_ipc_check(found->ipc, found->nipc, t, false, f);
	return result;
}

static int keep(struct gck_tree_scan *found, const struct gck_known_process *k,
		struct gck_error *err)
{
	struct gck_known_process *slot = gck_grow(&found->known, &found->nknown, sizeof *slot, err);

	if (!slot)
		return -1;
	*slot = *k;
	return 0;
}

/* 1: it has ended meanwhile. */
static int scan_child(struct gck_known_process *k, const struct gck_options *o,
		      struct gck_obstacles *f, struct gck_tree_scan *found, struct gck_error *err)
{
	bool ended;

	if (!scan(&k->t, &k->flags, o, f, found, err) && !keep(found, k, err))
		return 0;
	ended = gck_process_ended(k->t.pid);
	drop(k);
	return ended ? 1 : -1;
}

/* A static program needs its numbers, and so a PID namespace at a restart. Open MPI reads other
 * ranks' memory by PID. */
static void note_static(const struct gck_target *t, struct gck_obstacles *f)
{
	bool both = f->static_pid && f->mpi_pid;

	if (t->shim->features & GCK_SHIM_IMPLANTED)
		f->static_pid = t->pid;
	if (!both && f->static_pid && f->mpi_pid)
		gck_obstacle_add_passing(f, "process", "run them in steps of their own, or wait "
					 "until one of them has ended", "%d is a static program, "
					 "beside %d, which uses MPI", (int)f->static_pid,
					 (int)f->mpi_pid);
}

int gck_scan_descendants(const struct gck_target *parent, const struct gck_image *img,
			 const struct gck_options *o, struct gck_obstacles *f,
			 struct gck_tree_scan *found, struct gck_error *err)
{
	note_mpi(parent, f);
	note_static(parent, f);
	if (take_gpu(parent, &found->gpus, err))
		return -1;
	for (size_t i = 0; i < img->nchildren; i++) {
		struct gck_known_process k = {.flags = {.locked = 0}};
		struct gck_error why;

		if (!img->children[i].runs)
			continue;
		if (!open_begun(&k.t, parent, img->children[i].rpid, &f->waited_ms, SCAN_BEGIN_MS,
				&why)) {
			if (scan_child(&k, o, f, found, err) < 0)
				return -1;
		} else if (!gck_process_ended(img->children[i].rpid)) {
			gck_obstacle_add_passing(f, "process", "try again", "%s", why.text);
		}
	}
	return 0;
}

/* ---- holding ------------------------------------------------------------------------------- */

/* An abstract name, at which helpers that are summoned connect. */
static int listen_for_helpers(struct gck_capture *c, struct gck_error *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (c->listener >= 0)
		return 0;
	snprintf(c->link_name, sizeof c->link_name, GCK_TREE_LINK "%d-%d", (int)getpid(),
		 (int)c->t.pid);
	memcpy(a.sun_path + 1, c->link_name, strlen(c->link_name));
	c->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (c->listener < 0 ||
	    bind(c->listener, (struct sockaddr *)&a,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(c->link_name))) ||
	    listen(c->listener, 16))
		return gck_fail(err, errno, "no socket for descendants: %s", strerror(errno));
	return 0;
}

/* Take over what is known of a process since before the rank was held. That may have executed
 * another program meanwhile, or another process may have its number. */
static bool take_known(struct gck_capture *c, const struct gck_target *parent, pid_t pid)
{
	struct gck_tree_scan *before = &c->root->before;
	size_t i = 0;

	while (i < before->nknown && before->known[i].t.pid != pid)
		i++;
	if (i == before->nknown || gck_proc_ended(before->known[i].t.proc))
		return false;
	before->known[i].t.vpid = gck_target_vtid(parent, pid);
	if (gck_target_refresh(&before->known[i].t, NULL))
		return false;
	c->t = before->known[i].t;
	c->flags = before->known[i].flags;
	before->known[i] = before->known[--before->nknown];
	return true;
}

static struct gck_capture *add(struct gck_capture *parent, pid_t pid, struct gck_error *err)
{
	struct gck_capture **more = reallocarray(parent->children, parent->nchildren + 1,
						 sizeof(*more));
	struct gck_capture *c;
	int64_t waited_ms = 0;

	if (more)
		parent->children = more;
	c = more ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		gck_fail(err, ENOMEM, "out of memory for a descendant");
		return NULL;
	}
	c->o = parent->o;
	c->life = c->listener = c->device[0] = c->device[1] = c->dirty.uffd = -1;
	c->root = parent->root;
	if (!take_known(c, &parent->t, pid) &&
	    open_begun(&c->t, &parent->t, pid, &waited_ms, BEGIN_MS, err)) {
		free(c);
		return NULL;
	}
	parent->children[parent->nchildren++] = c;
	return c;
}

/* A descendant that executes another program meanwhile has its state elsewhere then. */
static int refresh(struct gck_capture *c, struct gck_error *err)
{
	if (!gck_target_refresh(&c->t, err))
		return 0;
	if (c->t.rank && (err->code == EFAULT || err->code == EPROTO))
		gck_fail(err, EAGAIN, "process %d, a descendant, has just executed a program; "
			 "try again", (int)c->t.pid);
	return -1;
}

static int prepare(struct gck_capture *c, struct gck_error *err)
{
	return refresh(c, err) || gck_threads_check_executions(&c->held, &c->t, err) ||
	       listen_for_helpers(c->root, err) ||
	       gck_summon(&c->t, &c->held, c->root->link_name, c->root->listener, err) ||
	       (!c->flags.maps.n && gck_map_flags_read(&c->flags, &c->t, err)) ? -1 : 0;
}

static bool is_ending(pid_t pid)
{
	int proc = gck_proc_open(pid, NULL);
	uint64_t v[GCK_STAT_FIELDS];
	char state;
	bool ending = proc >= 0 && !gck_proc_stat(proc, &state, v, NULL) && state != 'Z';

	if (proc >= 0)
		close(proc);
	return ending;
}

/* Let a process that is ending come to its end. Before, its parent cannot wait for it, and it would
 * be described as one that runs. */
static int await_end(pid_t pid, int timeout_ms, struct gck_error *err)
{
	for (int looks = 0; is_ending(pid); looks++) {
		if (looks / LOOKS_PER_MS > timeout_ms)
			return gck_fail(err, EAGAIN, "process %d is ending: try again", (int)pid);
		nanosleep(&pause_ns, NULL);
	}
	return 0;
}

/* Hold a child and make a helper in it; else it runs on. *again: it may be ready in a moment. */
static int hold_one(struct gck_capture *parent, pid_t pid, bool orphan, int timeout_ms, bool *again,
		    struct gck_error *err)
{
	struct gck_capture *c = add(parent, pid, err);
	bool held;

	*again = false;
	if (!c)
		return -1;
	c->orphan = orphan;
	gck_threads_wait_transfers(&c->t);
	held = !gck_threads_hold(&c->held, &c->t, timeout_ms, err);
	if (held && !prepare(c, err))
		return 0;
	*again = held && err->code == EAGAIN;
	parent->nchildren--;
	gck_capture_close(c);
	return -1;
}

/* Hold a child and all below it. One that has ended meanwhile is a child like those that had ended
 * before. One that was about to handle a signal, say, does so while its parent is held. */
static int hold(struct gck_capture *parent, pid_t pid, bool orphan, int timeout_ms,
		struct gck_error *err)
{
	bool again;
	int tries = 1;

	while (hold_one(parent, pid, orphan, timeout_ms, &again, err)) {
		if (gck_process_ended(pid))
			return await_end(pid, timeout_ms, err);
		if (!again || tries++ == GCK_HOLD_TRIES)
			return -1;
		usleep(GCK_HOLD_PAUSE_US);
	}
	return gck_tree_hold(parent->children[parent->nchildren - 1], timeout_ms, err);
}

static bool is_held(const struct gck_capture *c, pid_t pid)
{
	bool held = c->t.pid == pid;

	for (size_t i = 0; i < c->nchildren && !held; i++)
		held = is_held(c->children[i], pid);
	return held;
}

/* Hold the orphans that are not held yet. *n: their number. */
static int hold_new_orphans(struct gck_capture *c, size_t *n, int timeout_ms,
			    struct gck_error *err)
{
	struct gck_image list = {0};
	struct gck_scan s = {.t = &c->t, .img = &list, .f = &(struct gck_obstacles){0}, .err = err};
	int result = gck_scan_orphans(&s);

	*n = 0;
	for (size_t i = 0; i < list.nchildren && !result; i++) {
		if (is_held(c, list.children[i].rpid))
			continue;
		(*n)++;
		result = hold(c, list.children[i].rpid, true, timeout_ms, err);
	}
	free(list.children);
	return result;
}

/* One that is not held yet may have made another. A rank that had no descendants before has no
 * orphans now. */
static int hold_orphans(struct gck_capture *c, int timeout_ms, struct gck_error *err)
{
	size_t n = c->nchildren + c->img->nchildren;

	while (n)
		if (hold_new_orphans(c, &n, timeout_ms, err))
			return -1;
	return 0;
}

int gck_tree_hold(struct gck_capture *c, int timeout_ms, struct gck_error *err)
{
	struct gck_image list = {0};
	struct gck_scan s = {.t = &c->t, .img = &list, .f = &(struct gck_obstacles){0}, .err = err};
	int result = gck_scan_children(&s);

	for (size_t i = 0; i < list.nchildren && !result; i++)
		if (list.children[i].runs)
			result = hold(c, list.children[i].rpid, false, timeout_ms, err);
	free(list.children);
	if (!result && c == c->root)
		result = hold_orphans(c, timeout_ms, err);
	return result ? gck_fail_in(err, "a descendant of process %d", (int)c->t.pid) : 0;
}

/* ---- the image ----------------------------------------------------------------------------- */

int gck_tree_join(struct gck_capture *c, struct gck_error *err)
{
	for (size_t i = 0; i < c->nchildren; i++) {
		struct gck_image *x;

		if (gck_tree_join(c->children[i], err) ||
		    !(x = gck_grow(&c->img->processes, &c->img->nprocesses, sizeof(*x), err)))
			return -1;
		*x = *c->children[i]->img;
		free(c->children[i]->img);
		c->children[i]->img = NULL;
	}
	return 0;
}
