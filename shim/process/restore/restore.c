/* SPDX-License-Identifier: Apache-2.0
 * The restart of a rank, in place: a process that waits in its preload's constructor becomes the
 * image's process. */
#include "config.h"

#include "shim/process/restore/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/ipc/ipc.h"
#include "shim/process/memory/memory.h"
#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/ptrace/fd_channel.h"
#include "shim/process/ring/ring.h"
#include "shim/process/terminal/terminal.h"
#include "shim/process/threads/threads.h"
#include "shim/process/tree/tree.h"
#include "shim/process/watch/watch.h"

static int *descriptors(size_t n)
{
	int *v = malloc((n + 1) * sizeof *v);

	for (size_t i = 0; v && i < n; i++)
		v[i] = -1;
	return v;
}

static void close_all(int *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++)
		if (v[i] >= 0)
			close(v[i]);
	free(v);
}

/* ---- the current image --------------------------------------------------------------------- */

static void close_restore(struct gck_restore *r);

static void drop_image(struct gck_restore *r)
{
	if (!r->img)
		return;
	for (size_t i = 0; i < r->nchildren; i++)
		close_restore(r->children[i]);
	free(r->children);
	close_all(r->contents, r->img->ncontents);
	close_all(r->objects, r->img->nobjects);
	close_all(r->shared, r->nshared);
	close_all(r->memory, r->nmemory);
	gck_restore_close_files(r);
	for (size_t i = 0; i < r->nrewrites; i++) {
		if (r->rewrites[i].staged >= 0)
			close(r->rewrites[i].staged);
		free(r->rewrites[i].cut);
	}
	free(r->rewrites);
	free(r->deferred);
	gck_restore_close_pairs(r);
	free(r->pairs);
	gck_restore_drop_made(r);
	gck_restore_ipc_drop(r);
	free(r->same);
	for (size_t i = 0; i < r->nnotes; i++)
		free(r->notes[i]);
	free(r->notes);
	if (r == r->root)
		gck_image_free(r->img);
	r->children = NULL;
	r->contents = r->objects = r->shared = r->memory = NULL;
	r->rewrites = NULL;
	r->deferred = NULL;
	r->pairs = NULL;
	r->same = NULL;
	r->notes = NULL;
	r->nnotes = 0;
	r->nrewrites = r->npairs = r->nchildren = r->nshared = r->nmemory = r->nsame = 0;
	r->img = NULL;
	r->built = r->filed = false;
}

/* The numbers of files and of objects that several processes share. */
static void count_shared(const struct gck_image *img, size_t *files, size_t *objects)
{
	for (size_t i = 0; i < img->nfiles; i++)
		if (img->files[i].shared > *files)
			*files = img->files[i].shared;
	for (size_t i = 0; i < img->nobjects; i++)
		if (img->objects[i].shared > *objects)
			*objects = img->objects[i].shared;
	for (size_t i = 0; i < img->nprocesses; i++)
		count_shared(&img->processes[i], files, objects);
}

static int check(struct gck_restore *r, struct gck_error *err)
{
	return gck_restore_check_node(r, err) || gck_restore_check_guards(r, err) ||
	       gck_restore_check_seals(r, err) || gck_restore_check_locks(r, err) ||
	       gck_restore_check_attributes(r, err) || gck_restore_check_owners(r, err) ||
	       gck_restore_check_rings(r, err) || gck_restore_check_contents(r, err) ||
	       gck_restore_check_files(r, err) ? -1 : 0;
}

static int take_process(struct gck_restore *r, struct gck_image *img, struct gck_error *err);

/* A descendant has no process yet: what is checked now is the rank's. */
static int add_process(struct gck_restore *parent, struct gck_image *img, struct gck_error *err)
{
	struct gck_restore *c = calloc(1, sizeof *c), *root = parent->root;
	int failed;

	if (!c)
		return gck_fail(err, ENOMEM, "no memory for a descendant");
	parent->children[parent->nchildren++] = c;
	*c = (struct gck_restore){.root = root, .reader = root->reader, .remote = root->remote,
				  .proc = root->proc, .channel = -1, .trial = root->trial,
				  .cpus = root->cpus, .high = root->high,
				  .environment_size = root->environment_size};
	memcpy(c->link_name, root->link_name, sizeof c->link_name);
	c->buffer = malloc(GCK_CHUNK_MAX);
	c->environment = root->environment ? malloc(root->environment_size + 1) : NULL;
	if (!c->buffer || (root->environment && !c->environment))
		failed = gck_fail(err, ENOMEM, "no memory for a descendant");
	else
		failed = take_process(c, img, err);
	if (c->environment)
		memcpy(c->environment, root->environment, root->environment_size);
	c->input = 0; /* the rank's is set */
	c->high = 0;
	c->proc = -1;
	return failed;
}

static int take_process(struct gck_restore *r, struct gck_image *img, struct gck_error *err)
{
	r->img = img;
	r->contents = descriptors(img->ncontents);
	r->objects = descriptors(img->nobjects);
	r->deferred = calloc(img->nfiles + 1, sizeof *r->deferred);
	r->children = calloc(img->nprocesses + 1, sizeof(struct gck_restore *));
	if (!r->contents || !r->objects || !r->deferred || !r->children)
		return gck_fail(err, ENOMEM, "no memory for the image's lists");
	if (check(r, err))
		return -1;
	r->all = gck_restore_total(r);
	for (size_t i = 0; i < img->nprocesses; i++) {
		if (add_process(r, &img->processes[i], err))
			return gck_fail_in(err, "a descendant");
		r->all += r->children[i]->all;
	}
	return 0;
}

static int take_image(struct gck_restore *r, const json_t *manifest, struct gck_reader *reader,
		      struct gck_error *err)
{
	struct gck_image *img = gck_image_from_json(manifest, err);

	if (!img)
		return -1;
	drop_image(r);
	r->reader = reader;
	r->done = 0;
	r->keeps_numbers = !r->trial && gck_image_number(manifest);
	count_shared(img, &r->nshared, &r->nmemory);
	r->shared = descriptors(r->nshared);
	r->memory = descriptors(r->nmemory);
	if (!r->shared || !r->memory) {
		close_all(r->shared, r->nshared);
		close_all(r->memory, r->nmemory);
		r->shared = r->memory = NULL;
		r->nshared = r->nmemory = 0;
		gck_image_free(img);
		return gck_fail(err, ENOMEM, "no memory for the image's lists");
	}
	return take_process(r, img, err);
}

/* ---- interface ----------------------------------------------------------------------------- */

static int seize(struct gck_restore *r, pid_t pid, struct gck_error *err)
{
	r->proc = gck_proc_open(pid, err);
	if (r->proc < 0 || gck_remote_seize(&r->remote, pid, err))
		return -1;
	r->seized = true;
	gck_restore_note_environment(r);
	if (sched_getaffinity(pid, sizeof r->cpus, &r->cpus))
		return gck_fail(err, errno, "process %d: reading its CPUs: %s", pid,
				strerror(errno));
	return 0;
}

struct gck_restore *gck_restore_open(pid_t pid, const char *link_name, struct gck_error *err)
{
	struct gck_restore *r = calloc(1, sizeof *r);

	if (!r || !(r->buffer = malloc(GCK_CHUNK_MAX))) {
		gck_fail(err, ENOMEM, "no memory for a restart");
		free(r);
		return NULL;
	}
	r->root = r;
	r->proc = r->channel = -1;
	gck_proc_open_many();
	if (strlen(link_name) >= sizeof r->link_name) {
		gck_fail(err, ENAMETOOLONG, "the link's name %s is too long", link_name);
	} else if (!seize(r, pid, err)) {
		strcpy(r->link_name, link_name);
		return r;
	}
	gck_restore_close(r);
	return NULL;
}

void gck_restore_for_trial(struct gck_restore *r)
{
	r->trial = true;
}

int gck_restore_image(struct gck_restore *r, const json_t *manifest, struct gck_reader *reader,
		      struct gck_error *err)
{
	if (r->filed || r->ran)
		return gck_fail(err, EINVAL,
				"a rank that may have run cannot be built from another image");
	if (r->img && gck_restore_no_timers(r, err))
		return -1;
	return take_image(r, manifest, reader, err);
}

/* A descendant's process is there: its parent has made it. */
static int build(struct gck_restore *r, struct gck_error *err)
{
	static int (*const steps[])(struct gck_restore *, struct gck_error *) = {
		gck_restore_vacate,
		gck_restore_channel,
		gck_restore_vdso,
		gck_terminals_make,
		gck_restore_children,
		gck_restore_prepare_process,
		gck_restore_objects,
		gck_restore_ipc,
		gck_restore_maps,
		gck_restore_attach,
		gck_restore_fill,
		gck_restore_environment,
		gck_restore_vdso_patch,
		gck_restore_protect,
		gck_restore_guards,
		gck_restore_stage,
		gck_restore_try_files,
		gck_restore_sockets,
		gck_restore_fds,
		gck_restore_rings,
		gck_restore_take_locks,
		gck_restore_process,
		gck_restore_threads,
		gck_restore_state,
		gck_restore_timers,
		gck_restore_actions,
	};

	for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
		bool of_all = steps[i] == gck_restore_children ||
			      steps[i] == gck_restore_sockets ||
			      steps[i] == gck_restore_ipc ||
			      steps[i] == gck_terminals_make;

		if ((!of_all || r == r->root) && steps[i](r, err))
			return -1;
	}
	r->built = true;
	return 0;
}

/* Processes below r, which its build has made. */
static int build_below(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->nchildren; i++) {
		struct gck_restore *c = r->children[i], *root = r->root;

		c->progress = root->progress;
		c->progress_arg = root->progress_arg;
		c->done = root->done;
		c->all = root->all;
		if (build(c, err))
			return gck_fail_in(err, "child process %d", c->img->vpid);
		root->done = c->done;
		if (build_below(c, err))
			return -1;
	}
	return 0;
}

/* Once all processes have mapped what they share. */
static int finish(struct gck_restore *r, struct gck_error *err)
{
	if (gck_terminals_foreground(r, err))
		return -1;
	for (size_t i = 0; i < r->nchildren; i++)
		if (finish(r->children[i], err))
			return -1;
	return 0;
}

/* What fails because a process was killed meanwhile says nothing about the image. */
static bool has_ended(const struct gck_restore *r)
{
	bool ended = r->proc >= 0 && gck_proc_ended(r->proc);

	for (size_t i = 0; !ended && i < r->nchildren; i++)
		ended = has_ended(r->children[i]);
	return ended;
}

int gck_restore_build(struct gck_restore *r, int (*progress)(void *, uint64_t, uint64_t), void *arg,
		      struct gck_error *err)
{
	int failed;

	if (r->built)
		return gck_fail(err, EINVAL, "process %d is built already", r->remote.pid);
	r->progress = progress;
	r->progress_arg = arg;
	failed = build(r, err) || build_below(r, err) || finish(r, err);
	gck_terminals_close(r);
	gck_reader_rest(r->reader);
	if (failed && has_ended(r))
		return gck_fail(err, ESRCH, "process %d ended while it was rebuilt", r->remote.pid);
	return failed ? -1 : 0;
}

static int of_each(struct gck_restore *r, int (*step)(struct gck_restore *, struct gck_error *),
		   struct gck_error *err)
{
	if (step(r, err))
		return -1;
	for (size_t i = 0; i < r->nchildren; i++)
		if (of_each(r->children[i], step, err))
			return -1;
	return 0;
}

/* Before any process watches one, which takes it for written when it is closed. */
static void close_files(struct gck_restore *r)
{
	gck_restore_close_files(r);
	for (size_t i = 0; i < r->nchildren; i++)
		close_files(r->children[i]);
}

int gck_restore_files(struct gck_restore *r, struct gck_error *err)
{
	return of_each(r, gck_restore_own_files, err);
}

int gck_restore_reopen(struct gck_restore *r, struct gck_error *err)
{
	static int (*const steps[])(struct gck_restore *, struct gck_error *) = {
		gck_restore_seals,
		gck_restore_ipc_finish,
		gck_restore_undo,
		gck_restore_deferred,
		gck_restore_rights,
		gck_restore_shutdowns,
		gck_restore_owners,
		gck_restore_close_flight,
		gck_restore_open_files,
		gck_restore_ring_tables,
	};
	int failed = 0;

	for (size_t i = 0; i < sizeof steps / sizeof steps[0] && !failed; i++)
		failed = of_each(r, steps[i], err);
	if (failed)
		return -1;
	gck_restore_close_pairs(r);
	close_files(r);
	return of_each(r, gck_restore_take_leases, err);
}

static const struct gck_object *find_common(const struct gck_restore *r, uint32_t shared)
{
	const struct gck_object *found = NULL;

	for (size_t i = 0; i < r->img->nobjects && !found; i++)
		if (r->img->objects[i].ranks && r->img->objects[i].shared == shared &&
		    !r->img->objects[i].segment)
			found = &r->img->objects[i];
	for (size_t i = 0; i < r->nchildren && !found; i++)
		found = find_common(r->children[i], shared);
	return found;
}

bool gck_restore_common(const struct gck_restore *r, size_t i, struct gck_common *c)
{
	*c = (struct gck_common){.boot = r->img ? r->img->boot : NULL};
	for (uint32_t shared = 1; shared <= r->nmemory; shared++) {
		c->memory = find_common(r, shared);
		if (c->memory && !i--)
			return true;
	}
	c->memory = NULL;
	for (size_t k = 0; r->img && k < r->img->nipc; k++) {
		c->ipc = &r->img->ipc[k];
		if (c->ipc->ranks && !i--)
			return true;
	}
	return false;
}

int gck_restore_give_common(struct gck_restore *r, const struct gck_object *o, int fd,
			    struct gck_error *err)
{
	return gck_restore_share_object(r, o, fd) >= 0
		       ? 0
		       : gck_fail(err, errno, "shared memory \"%s\": %s", o->name, strerror(errno));
}

uint64_t gck_restore_bytes(const struct gck_restore *r)
{
	return r->all;
}

bool gck_restore_has_mpi(const struct gck_restore *r)
{
	bool has = r->has_mpi;

	for (size_t i = 0; i < r->nchildren && !has; i++)
		has = gck_restore_has_mpi(r->children[i]);
	return has;
}

void gck_restore_asked(struct gck_restore *r, uint32_t all)
{
	r->all_asked = all;
}

/* *i: counts down to the one that is wanted. */
static int32_t find_cuda(const struct gck_restore *r, size_t *i)
{
	int32_t found = 0;

	if (r->has_cuda && !(*i)--)
		return r->img->vpid;
	for (size_t k = 0; k < r->nchildren && !found; k++)
		found = find_cuda(r->children[k], i);
	return found;
}

int32_t gck_restore_cuda(const struct gck_restore *r, size_t i)
{
	return find_cuda(r, &i);
}

char *const *gck_restore_notes(const struct gck_restore *r, size_t *n)
{
	*n = r->nnotes;
	return r->notes;
}

int gck_restore_stderr(const struct gck_restore *r)
{
	return r->high + STDERR_FILENO;
}

uint64_t gck_restore_device(const struct gck_restore *r)
{
	return gck_image_device_bytes(r->img);
}

/* Restore dumpability and unmap the plant. */
static int leave(struct gck_restore *r, struct gck_error *err)
{
	pid_t pid = r->remote.pid;

	if (gck_remote_last(&r->remote, pid, err, SYS_prctl, PR_SET_DUMPABLE,
			    (uint64_t)r->img->dumpable) == -ESRCH)
		return -1;
	return gck_remote_check(gck_remote_last(&r->remote, pid, err, SYS_munmap, r->remote.plant,
						GCK_REMOTE_PLANT),
				err, "process %d: unmapping the restorer's memory", pid);
}

/* Those below first: their parent may end as soon as it runs. */
int gck_restore_run(struct gck_restore *r, struct gck_error *err)
{
	if (!r->filed || r->ran)
		return gck_fail(err, EINVAL, "a rank runs once, after its files are restored");
	if (r == r->root && of_each(r, gck_restore_watches, err))
		return -1;
	for (size_t i = 0; i < r->nchildren; i++)
		if (gck_restore_run(r->children[i], err))
			return -1;
	if (gck_restore_locks(r, err) || gck_restore_seal_maps(r, err) ||
	    gck_restore_process_last(r, err) || gck_restore_queue(r, err) ||
	    gck_restore_arm(r, err) || leave(r, err) || gck_restore_start(r, err))
		return -1;
	r->ran = true;
	return 0;
}

/* Reap the threads that we trace: only after that the process is gone for its parent. */
static void end(struct gck_restore *r)
{
	int *tids = NULL, status;
	size_t n = 0;

	if (gck_proc_list(r->proc, "task", &tids, &n, NULL))
		n = 0;
	syscall(SYS_kill, r->remote.pid, SIGKILL);
	for (size_t i = 0; i < n; i++)
		if (tids[i] != r->remote.pid)
			waitpid(tids[i], &status, __WALL);
	waitpid(r->remote.pid, &status, __WALL);
	free(tids);
}

static void close_restore(struct gck_restore *r)
{
	if (r->seized && !r->ran)
		end(r);
	drop_image(r);
	if (r->channel >= 0)
		close(r->channel);
	if (r->proc >= 0)
		close(r->proc);
	free(r->environment);
	free(r->buffer);
	free(r);
}

void gck_restore_close(struct gck_restore *r)
{
	if (r)
		close_restore(r);
}
