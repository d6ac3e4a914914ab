/* SPDX-License-Identifier: Apache-2.0
 * What System V objects of all kinds have in common: which of them are the rank's, numbers and
 * keys, and their end. */
#include "config.h"

#include "shim/process/ipc/ipc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/ipc_numbers.h"
#include "shim/process/memory/memory.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/tree/tree.h"

#define CLOCK_SLACK 2 /* seconds */
#define BOOT "/proc/sys/kernel/random/boot_id"
#define RIGHTS 0777u

static const struct gck_ipc_ops *const kinds[] = {
	[GCK_IPC_MEMORY] = &gck_ipc_memory,
	[GCK_IPC_SEMAPHORES] = &gck_ipc_semaphores,
	[GCK_IPC_MESSAGES] = &gck_ipc_messages,
};

struct gck_ipc *gck_ipc_of(const struct gck_image *rank, int32_t kind, int32_t id)
{
	for (size_t i = 0; i < rank->nipc; i++)
		if (rank->ipc[i].kind == kind && rank->ipc[i].id == id)
			return &rank->ipc[i];
	return NULL;
}

void gck_ipc_name(int32_t kind, int32_t number, char *name, size_t size)
{
	snprintf(name, size, "%s %d (ipcs)", kinds[kind]->what, number);
}

void gck_ipc_remove(int32_t kind, int32_t number)
{
	(void)!kinds[kind]->control(number, IPC_RMID, 0);
}

/* ---- scan ---------------------------------------------------------------------------------- */

static struct gck_ipc *find(struct gck_ipc *v, size_t n, int32_t kind, int32_t number)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].kind == kind && v[i].number == number)
			return &v[i];
	return NULL;
}

/* One at which this process cannot look. If it is gone, there is none. */
static void refuse_unknown(struct gck_scan *s, const char *object, int why)
{
	if (why == ENOSYS)
		gck_obstacle_add(s->f, true, object, "use a kernel with CONFIG_CHECKPOINT_RESTORE",
				 "its messages cannot be copied");
	else if (why == EACCES)
		gck_obstacle_add(s->f, true, object, "make it with the mode 0600",
				 "this user may not read it");
}

/* Add what the process uses; an object that is gone is left out. */
static int add(struct gck_scan *s, int32_t kind, int32_t number)
{
	const struct gck_shim_ipc *known = gck_ipc_find(s->t->shim, kind, false, number);
	struct gck_ipc x = {.kind = kind, .number = number, .object = -1}, *slot;
	struct ipc_perm rights = {0};
	char object[64];

	if (find(s->img->ipc, s->img->nipc, kind, number))
		return 0;
	gck_ipc_name(kind, number, object, sizeof object);
	if (kinds[kind]->look(&x, &rights)) {
		refuse_unknown(s, object, errno);
		return 0;
	}
	if (rights.uid != geteuid() || rights.cuid != geteuid() ||
	    (rights.mode & kinds[kind]->right) != (unsigned)kinds[kind]->right)
		gck_obstacle_add(s->f, true, object, "make it with the mode 0600",
				 "it is another user's, or its owner may not use it");
	x.mode = rights.mode;
	x.key = known && known->key ? (uint32_t)known->key : (uint32_t)rights.__key;
	x.id = gck_ipc_to_program(s->t->shim, kind, number);
	slot = gck_grow(&s->img->ipc, &s->img->nipc, sizeof *slot, s->err);
	if (!slot)
		return -1;
	*slot = x;
	return 0;
}

/* Segments that are attached. The kernel counts mappings. */
static int add_attached(struct gck_scan *s)
{
	for (size_t i = 0; i < s->img->nmaps; i++) {
		struct gck_object *o = s->img->maps[i].object < 0
					       ? NULL : &s->img->objects[s->img->maps[i].object];
		struct gck_ipc *x;

		if (!o || o->device != GCK_SEGMENT)
			continue;
		if (add(s, GCK_IPC_MEMORY, (int32_t)o->inode))
			return -1;
		x = find(s->img->ipc, s->img->nipc, GCK_IPC_MEMORY, (int32_t)o->inode);
		if (x) {
			x->attached++;
			o->size = x->size;
			o->segment = (uint32_t)x->id + 1;
		}
	}
	return 0;
}

static int add_recorded(struct gck_scan *s)
{
	for (size_t i = 0; i < GCK_SHIM_IPC; i++) {
		uint64_t word = s->t->shim->ipc_used[i];
		int32_t kind = (int32_t)(word >> 32) - 1;

		if (kind >= 0 && kind < GCK_IPC_KINDS &&
		    add(s, kind, gck_ipc_to_kernel(s->t->shim, kind, (int32_t)word)))
			return -1;
	}
	return 0;
}

/* CLOCK_REALTIME of the process's start, in seconds. Older objects name another process by this
 * PID. */
static int started(const struct gck_scan *s, int64_t *seconds)
{
	uint64_t v[GCK_STAT_FIELDS];
	struct timespec boot;
	char state;

	if (gck_proc_stat(s->t->proc, &state, v, s->err))
		return -1;
	clock_gettime(CLOCK_BOOTTIME, &boot);
	*seconds = time(NULL) - (boot.tv_sec - (int64_t)v[22] / sysconf(_SC_CLK_TCK)) - CLOCK_SLACK;
	return 0;
}

/* Those that the kernel says the process has made or used last. */
static int add_listed(struct gck_scan *s, int32_t kind, int64_t since)
{
	FILE *f = fopen(kinds[kind]->file, "re");
	char line[300];
	int32_t number;
	int failed = 0;

	while (f && !failed && fgets(line, sizeof(line), f))
		if (kinds[kind]->is_of(line, s->t->pid, since, &number))
			failed = add(s, kind, number);
	if (f)
		fclose(f);
	return failed;
}

int gck_scan_ipc(struct gck_scan *s)
{
	int64_t since;

	if (add_attached(s) || add_recorded(s) || started(s, &since))
		return -1;
	for (int32_t kind = 0; kind < GCK_IPC_KINDS; kind++)
		if (add_listed(s, kind, since))
			return -1;
	gck_scan_attachments(s);
	return 0;
}

/* ---- the rank's list ----------------------------------------------------------------------- */

int gck_ipc_join(struct gck_ipc **v, size_t *n, struct gck_image *from, struct gck_error *err)
{
	for (size_t i = 0; i < from->nipc; i++) {
		const struct gck_ipc *x = &from->ipc[i];
		struct gck_ipc *known = find(*v, *n, x->kind, x->number);

		if (known) {
			known->attached += x->attached;
			continue;
		}
		known = gck_grow(v, n, sizeof *known, err);
		if (!known)
			return -1;
		*known = *x;
	}
	free(from->ipc); /* nothing was copied yet that they could own */
	from->ipc = NULL;
	from->nipc = 0;
	return 0;
}

/* What ranks share the agent has made, whose child looks here. */
bool gck_ipc_is_outside(pid_t pid, pid_t rank)
{
	return pid > 0 && (!kill(pid, 0) || errno != ESRCH) && pid != getpid() &&
	       pid != getppid() && !gck_is_descendant(pid, rank) && !gck_is_of_step(pid, rank);
}

static void check(const struct gck_ipc *x, const struct gck_target *rank, bool beside,
		  struct gck_obstacles *f)
{
	pid_t other = kinds[x->kind]->outside(x, rank->pid, beside);
	char object[64];

	if (!other)
		return;
	gck_ipc_name(x->kind, x->number, object, sizeof object);
	if (other > 0)
		gck_obstacle_add_passing(f, object, "use it in one step alone",
					 "process %d, which is none of the step's, has used it",
					 (int)other);
	else
		gck_obstacle_add_passing(f, object, "use it in one step alone", "%s",
					 GCK_SEGMENT_OUTSIDE);
}

void gck_ipc_check(const struct gck_ipc *v, size_t n, const struct gck_target *rank, bool beside,
		   struct gck_obstacles *f)
{
	for (size_t i = 0; i < n; i++)
		check(&v[i], rank, beside, f);
	if (n && f->static_pid)
		gck_obstacle_add_passing(f, "process", "run it in a step of its own",
					 "%d is a static program, beside System V objects, which "
					 "would have other numbers for it", (int)f->static_pid);
	if (n > GCK_SHIM_IPC)
		gck_obstacle_add(f, true, "System V objects", "use fewer",
				 "it has %zu of them: more than %d", n, GCK_SHIM_IPC);
}

/* ---- hold ---------------------------------------------------------------------------------- */

/* Where the kernel's numbers hold: until the node's next boot, in our IPC namespace. */
static char *read_boot(struct gck_error *err)
{
	FILE *f = fopen(BOOT, "re");
	char line[128] = "", *copy;
	ssize_t n = -1;

	if (f && fgets(line, sizeof line / 2, f)) {
		char *end = line + strcspn(line, "\n");

		*end++ = ' ';
		n = readlink("/proc/self/ns/ipc", end, (size_t)(line + sizeof line - 1 - end));
		end[n > 0 ? n : 0] = '\0';
	}
	if (f)
		fclose(f);
	copy = strdup(n > 0 ? line : "");
	if (!copy)
		gck_fail(err, ENOMEM, "out of memory for the image");
	return copy;
}

int gck_ipc_add_objects(struct gck_scan *s)
{
	for (size_t i = 0; i < s->img->nipc; i++) {
		struct gck_ipc *x = &s->img->ipc[i];
		struct gck_object *o;

		if (x->kind != GCK_IPC_MEMORY)
			continue;
		x->object = gck_scan_object(s, GCK_SEGMENT, (uint64_t)x->number, "");
		if (x->object < 0)
			return -1;
		o = &s->img->objects[x->object];
		o->segment = (uint32_t)x->id + 1;
		o->size = x->size;
		o->mode = x->mode & RIGHTS;
	}
	if (s->img->nipc)
		s->img->boot = read_boot(s->err);
	return s->img->nipc && !s->img->boot ? -1 : 0;
}

static int hold_contents(struct gck_hold *h)
{
	for (size_t i = 0; i < h->img->nipc; i++) {
		struct gck_ipc *x = &h->img->ipc[i];

		if (kinds[x->kind]->hold && kinds[x->kind]->hold(x, h->err))
			return gck_fail_in(h->err, "%s %d", kinds[x->kind]->what, x->number);
	}
	return 0;
}

int gck_hold_ipc(struct gck_hold *h)
{
	if (h->img == h->rank && hold_contents(h))
		return -1;
	return gck_hold_undo(h);
}

void gck_ipc_drop_elsewhere(struct gck_image *rank)
{
	for (size_t i = 0; i < rank->nipc; i++) {
		struct gck_ipc *x = &rank->ipc[i];

		if (!x->elsewhere)
			continue;
		free(x->data);
		free(x->messages);
		x->data = NULL;
		x->messages = NULL;
		x->data_size = x->nmessages = 0;
	}
}

int gck_ipc_share(struct gck_image *rank, int32_t kind, int32_t number, const char *ranks,
		  uint32_t common, bool elsewhere, struct gck_error *err)
{
	struct gck_ipc *x = find(rank->ipc, rank->nipc, kind, number);

	if (!x)
		return gck_fail(err, EPROTO, "it is not in the image");
	free(x->ranks);
	x->ranks = strdup(ranks);
	x->common = common;
	x->elsewhere = elsewhere && kind != GCK_IPC_MEMORY;
	return x->ranks ? 0 : gck_fail(err, ENOMEM, "out of memory for the image");
}

/* ---- restore ------------------------------------------------------------------------------- */

/* Whether the object is still on this node, as the rank's former start has left it. */
static bool is_former(const struct gck_ipc *x)
{
	struct gck_ipc now = {.kind = x->kind, .number = x->number};
	struct ipc_perm rights = {0};

	return !kinds[x->kind]->look(&now, &rights) && rights.uid == geteuid() &&
	       rights.cuid == geteuid() && !now.users &&
	       (x->kind == GCK_IPC_MESSAGES || now.size == x->size) &&
	       (!rights.__key || (uint32_t)rights.__key == x->key);
}

static void remove_former(const struct gck_ipc *v, size_t n, const char *boot)
{
	char *now = read_boot(NULL);

	for (size_t i = 0; i < n && now && *now && boot && !strcmp(now, boot); i++)
		if (!v[i].made && is_former(&v[i]))
			gck_ipc_remove(v[i].kind, v[i].number);
	free(now);
}

static uint64_t rights_of(const struct gck_ipc *x)
{
	return x->mode & RIGHTS;
}

/* The raw result of making it in the rank's process; r: NULL: in this one. */
static int64_t get(struct gck_restore *r, const struct gck_ipc *x, key_t key, struct gck_error *err)
{
	const struct gck_ipc_ops *ops = kinds[x->kind];
	uint64_t mode = rights_of(x) | 0600 | IPC_CREAT | IPC_EXCL;
	uint64_t second = ops->sized ? x->size : mode;
	long number;

	if (r)
		return gck_remote_call(&r->remote, r->remote.pid, err, ops->get,
				       (uint64_t)(int64_t)key, second, mode);
	number = syscall(ops->get, key, second, mode);
	return number < 0 ? -errno : number;
}

/* With its key, unless that is another's here. A trial leaves keys alone. */
static int make(struct gck_restore *r, struct gck_ipc *x, struct gck_error *err)
{
	int64_t number = -EEXIST;

	if (x->key && !(r && r->trial))
		number = get(r, x, (key_t)x->key, err);
	x->hidden = x->key && number == -EEXIST;
	if (number == -EEXIST)
		number = get(r, x, IPC_PRIVATE, err);
	if (number < 0)
		return gck_remote_check(number, err, "it cannot be made here; remove others (ipcs, "
					"ipcrm), or raise the node's limits");
	x->now = (int32_t)number;
	x->made = true;
	return 0;
}

int gck_ipc_make(struct gck_ipc *x, const char *boot, struct gck_error *err)
{
	remove_former(x, 1, boot);
	return make(NULL, x, err) ? gck_fail_in(err, "%s %d", kinds[x->kind]->what, x->id) : 0;
}

void gck_ipc_give(struct gck_ipc *x, int32_t number, bool hidden)
{
	x->now = number;
	x->hidden = hidden;
	x->made = true;
}

int gck_restore_ipc(struct gck_restore *root, struct gck_error *err)
{
	if (!root->trial)
		remove_former(root->img->ipc, root->img->nipc, root->img->boot);
	for (size_t i = 0; i < root->img->nipc; i++) {
		struct gck_ipc *x = &root->img->ipc[i];

		if ((!x->made && make(root, x, err)) ||
		    (!x->elsewhere && kinds[x->kind]->fill(root, x, err)))
			return gck_fail_in(err, "%s %d", kinds[x->kind]->what, x->id);
	}
	return 0;
}

int gck_restore_ipc_finish(struct gck_restore *root, struct gck_error *err)
{
	for (size_t i = 0; root == root->root && i < root->img->nipc; i++) {
		struct gck_ipc *x = &root->img->ipc[i];

		gck_segment_leave(x);
		if (rights_of(x) != (rights_of(x) | 0600) &&
		    kinds[x->kind]->control(x->now, IPC_SET, (mode_t)rights_of(x)))
			return gck_fail(err, errno, "%s %d: its mode cannot be set: %s",
					kinds[x->kind]->what, x->id, strerror(errno));
	}
	return 0;
}

void gck_restore_ipc_drop(struct gck_restore *root)
{
	for (size_t i = 0; i < root->img->nipc; i++) {
		gck_segment_leave(&root->img->ipc[i]);
		if (root->img->ipc[i].made && !root->ran)
			gck_ipc_remove(root->img->ipc[i].kind, root->img->ipc[i].now);
	}
}

bool gck_restore_ipc_table(const struct gck_restore *r, struct gck_shim_state *s)
{
	const struct gck_image *rank = r->root->img;

	memset(s->ipc, 0, sizeof s->ipc);
	s->nipc = 0;
	for (size_t i = 0; i < rank->nipc && s->nipc < GCK_SHIM_IPC; i++) {
		const struct gck_ipc *x = &rank->ipc[i];

		s->ipc[s->nipc++] = (struct gck_shim_ipc){x->kind, x->id, x->now,
							  x->hidden ? (int32_t)x->key : 0};
	}
	return s->nipc == rank->nipc;
}
