/* SPDX-License-Identifier: Apache-2.0
 * Locks of files: flock(2), which belong to the open file, fcntl(2)'s of a process and of an open
 * file (F_OFD_SETLK), and leases (F_SETLEASE). The process takes them itself, since some belong to
 * it. And the signals of files, of a lease or with O_ASYNC: which, and who gets them. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/tree/tree.h"

#define TRIES 200 /* a node that has died may hold a lock of a network file system for a while */
#define PAUSE_NS 100000000

/* ---- scan: locks ----------------------------------------------------------------------------- */

static const struct {
	const char *name;
	enum gck_lock_kind kind;
} kinds[] = {
	{"FLOCK", GCK_LOCK_FLOCK}, {"POSIX", GCK_LOCK_PROCESS}, {"OFDLCK", GCK_LOCK_FILE},
	{"LEASE", GCK_LOCK_LEASE},
};

/* The words of a lock's state that stand for one that is held, and nothing more. */
static bool is_plain(enum gck_lock_kind kind, const char *state)
{
	return !strcmp(state, kind == GCK_LOCK_LEASE ? "ACTIVE" : "ADVISORY");
}

/* One line of fdinfo, after "lock:". 1: it is another process's. -1: it is of no kind that is
 * carried. */
static int parse(const struct gck_scan *s, const char *line, struct gck_lock *x)
{
	char kind[16], state[16], type[16], end[24];
	long long start;
	int pid;

	if (sscanf(line, "%*d: %15s %15s %15s %d %*s %lld %23s", kind, state, type, &pid, &start,
		   end) != 6)
		return -1;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (strcmp(kind, kinds[i].name) || !is_plain(kinds[i].kind, state))
			continue;
		if (kinds[i].kind == GCK_LOCK_PROCESS && pid != s->t->pid)
			return 1;
		*x = (struct gck_lock){.kind = kinds[i].kind, .exclusive = !strcmp(type, "WRITE"),
				       .start = start};
		if (strcmp(end, "EOF"))
			x->length = strtoll(end, NULL, 10) - start + 1;
		return 0;
	}
	return -1;
}

/* A process's lock is shown with each of its descriptors of the file; one that cannot be written
 * cannot take a lock for writing. */
static bool can_take(const struct gck_file *f, const struct gck_lock *x)
{
	uint32_t not = x->exclusive ? O_RDONLY : O_WRONLY;

	return !(f->flags & O_PATH) &&
	       (x->kind == GCK_LOCK_FLOCK || (f->flags & O_ACCMODE) != not);
}

static bool is_mapped(const struct gck_scan *s, const struct gck_fd_view *v)
{
	bool mapped = false;

	for (size_t i = 0; i < s->maps.n && !mapped; i++)
		mapped = s->maps.v[i].inode == v->st.st_ino &&
			 s->maps.v[i].device == v->st.st_dev;
	return mapped;
}

/* A lease for writing is broken by any other open of the file, and taken only if there is none: its
 * content is read through the process's own descriptor (gck_hold_file), and what opens the file for
 * another purpose must not be needed. */
static const char *reason_to_write(const struct gck_scan *s, const struct gck_fd_view *v,
				   const struct gck_file *f)
{
	if ((f->flags & O_ACCMODE) != O_RDWR)
		return "it is for writing, and the file is not open for both reading and writing";
	if (!f->whole)
		return "it is for writing, and the file is a large one that it appends to";
	return is_mapped(s, v) ? "it is for writing, and the file is mapped" : NULL;
}

/* NULL, or why the lock is not carried. A restart closes other descriptors of the task's own files
 * last, with which the process loses its locks of them. It makes a file that has no name by writing
 * it. */
static const char *reason(const struct gck_scan *s, const struct gck_fd_view *v, bool own,
			  const struct gck_file *f, const struct gck_lock *x)
{
	if (own && (x->kind == GCK_LOCK_LEASE || x->kind == GCK_LOCK_PROCESS))
		return "it is the task's own standard input or output";
	if (x->kind != GCK_LOCK_LEASE)
		return NULL;
	if (!v->st.st_nlink)
		return "the file has no name";
	return x->exclusive ? reason_to_write(s, v, f) : NULL;
}

int gck_fd_locks(struct gck_scan *s, const struct gck_fd_view *v, bool own, struct gck_file *x)
{
	const char *line = v->info;

	while ((line = gck_proc_field(line, "lock:"))) {
		struct gck_lock lock, *slot;
		int other = parse(s, line, &lock);
		const char *why = NULL;

		if (other < 0)
			why = "it is being broken";
		else if (!other)
			why = reason(s, v, own, x, &lock);
		if (why)
			gck_obstacle_add_passing(s->f, v->object, "release it first",
						 "a %s is held on %s, and %s",
						 !other && lock.kind == GCK_LOCK_PROCESS ? "lock"
											 : "lease",
						 v->link, why);
		if (why || other || !can_take(x, &lock))
			continue;
		slot = gck_grow(&x->locks, &x->nlocks, sizeof *slot, s->err);
		if (!slot)
			return -1;
		*slot = lock;
	}
	return 0;
}

bool gck_file_has_lease(const struct gck_file *f)
{
	bool has = false;

	for (size_t i = 0; i < f->nlocks; i++)
		has |= f->locks[i].kind == GCK_LOCK_LEASE;
	return has;
}

/* ---- scan: who gets a file's signals --------------------------------------------------------- */

static pid_t process_of(pid_t tid)
{
	int proc = gck_proc_open(tid, NULL);
	char *status = proc < 0 ? NULL : gck_proc_read(proc, "status", NULL, NULL);
	pid_t pid = status ? (pid_t)gck_proc_number(status, "Tgid:", 10, 0) : 0;

	free(status);
	if (proc >= 0)
		close(proc);
	return pid;
}

/* As in gck_file.owner. 0: it is none of the rank. */
static int32_t find_owner(const struct gck_scan *s, const struct f_owner_ex *o)
{
	const pid_t rank = s->t->rank ? s->t->rank->pid : s->t->pid;

	switch (o->type) {
	case F_OWNER_TID:
		return gck_fd_process(s, process_of(o->pid)) ? o->pid : 0;
	case F_OWNER_PGRP:
		return o->pid == getpgid(rank) ? GCK_PROCESS_RANK : gck_fd_process(s, o->pid);
	default:
		return gck_fd_process(s, o->pid);
	}
}

/* The kernel sets O_ASYNC for a lease. An owner that has ended is told as 0. */
int gck_fd_owner(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	struct f_owner_ex owner;
	int fd, failed;

	if (v->flags & O_PATH)
		return 0;
	fd = gck_target_fd(s->t, v->fd);
	failed = fd < 0 || fcntl(fd, F_GETOWN_EX, &owner) || (x->signo = fcntl(fd, F_GETSIG)) < 0;
	if (failed)
		gck_fail(s->err, errno, "cannot look at fd %d of process %d: %s", v->fd,
			 (int)s->t->pid, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (failed)
		return -1;
	x->async = v->flags & O_ASYNC && !strstr(v->info, " LEASE ");
	x->owner_type = owner.type;
	x->owner = owner.pid ? find_owner(s, &owner) : 0;
	if (owner.pid && !x->owner)
		gck_obstacle_add_passing(s->f, v->object, "set a process of the rank (F_SETOWN)",
					 "the signals of %s are for %s %d, which is none of the "
					 "rank's", v->link,
					 owner.type == F_OWNER_PGRP ? "process group" :
					 owner.type == F_OWNER_TID ? "thread" : "process",
					 owner.pid);
	return 0;
}

/* ---- restore: who gets a file's signals ------------------------------------------------------ */

static bool has_owner(const struct gck_image *img, const struct gck_file *f)
{
	bool thread = f->owner_type == F_OWNER_TID, has = false;

	for (size_t i = 0; i < img->nthreads && thread && !has; i++)
		has = img->threads[i].rtid == f->owner;
	for (size_t i = 0; i < img->nchildren && !thread && !has; i++)
		has = img->children[i].rpid == f->owner;
	for (size_t i = 0; i < img->nprocesses && !has; i++)
		has = has_owner(&img->processes[i], f);
	return has;
}

int gck_restore_check_owners(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++) {
		const struct gck_file *f = &r->img->files[i];

		if (f->owner && !(f->owner == GCK_PROCESS_RANK && f->owner_type) &&
		    !has_owner(r->root->img, f))
			return gck_fail(err, EINVAL, "file %zu of the image sends its signals to "
					"%d, which is not in the image", i, f->owner);
	}
	return 0;
}

/* The owner's new number. */
static pid_t owner_now(const struct gck_restore *r, const struct gck_file *f)
{
	if (f->owner_type == F_OWNER_TID)
		return gck_restore_tid(r->root, f->owner);
	if (f->owner_type == F_OWNER_PGRP && f->owner == GCK_PROCESS_RANK)
		return getpgid(r->root->remote.pid);
	return gck_fd_process_now(r, f->owner);
}

static int64_t control(struct gck_restore *r, int32_t fd, int command, uint64_t arg,
		       struct gck_error *err)
{
	return gck_remote_call(&r->remote, r->remote.pid, err, SYS_fcntl, (uint64_t)fd,
			       (uint64_t)command, arg);
}

/* The owner is last: setting O_ASYNC may make one. */
static int set_owner(struct gck_restore *r, const struct gck_file *f, int32_t fd,
		     struct gck_error *err)
{
	struct f_owner_ex owner = {.type = f->owner_type};
	int64_t result = 0;

	if (f->owner)
		owner.pid = owner_now(r, f);
	if (f->async)
		result = control(r, fd, F_GETFL, 0, err);
	if (f->async && result >= 0)
		result = control(r, fd, F_SETFL, (uint64_t)result | O_ASYNC, err);
	if (result >= 0)
		result = control(r, fd, F_SETSIG, (uint64_t)f->signo, err);
	if (result >= 0 && gck_remote_write(&r->remote, r->remote.scratch, &owner, sizeof owner,
					    err))
		return -1;
	if (result >= 0)
		result = control(r, fd, F_SETOWN_EX, r->remote.scratch, err);
	return gck_remote_check(result, err, "who gets the signals of descriptor %d cannot be set",
				fd);
}

int gck_restore_owners(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++) {
		const struct gck_file *f = &r->img->files[i];
		const struct gck_fd *d = gck_restore_first_fd(r, i);
		bool any = f->async || f->signo || f->owner || f->owner_type;

		if (d && any && !gck_file_has_lease(f) && set_owner(r, f, d->fd, err))
			return -1;
	}
	return 0;
}

/* ---- restore: locks -------------------------------------------------------------------------- */

static int64_t take(struct gck_restore *r, int32_t fd, const struct gck_lock *x,
		    struct gck_error *err)
{
	const struct flock lock = {.l_type = x->exclusive ? F_WRLCK : F_RDLCK,
				   .l_whence = SEEK_SET, .l_start = x->start,
				   .l_len = x->length};
	uint64_t how = x->exclusive ? LOCK_EX : LOCK_SH;

	if (x->kind == GCK_LOCK_LEASE)
		return control(r, fd, F_SETLEASE, x->exclusive ? F_WRLCK : F_RDLCK, err);
	if (x->kind == GCK_LOCK_FLOCK)
		return gck_remote_call(&r->remote, r->remote.pid, err, SYS_flock, (uint64_t)fd,
				       how | LOCK_NB);
	if (gck_remote_write(&r->remote, r->remote.scratch, &lock, sizeof lock, err))
		return -ESRCH;
	return control(r, fd, x->kind == GCK_LOCK_FILE ? F_OFD_SETLK : F_SETLK, r->remote.scratch,
		       err);
}

static int take_one(struct gck_restore *r, const struct gck_file *f, int32_t fd,
		    const struct gck_lock *x, struct gck_error *err)
{
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	int64_t result = take(r, fd, x, err);

	for (int i = 0; i < TRIES && (result == -EAGAIN || result == -EACCES); i++) {
		nanosleep(&pause, NULL);
		result = take(r, fd, x, err);
	}
	if (x->kind == GCK_LOCK_LEASE && result == 0)
		return set_owner(r, f, fd, err);
	if (x->kind == GCK_LOCK_LEASE)
		return gck_remote_check(result, err, "the lease on %s cannot be taken again; end "
					"the process that has it open%s", f->path,
					x->exclusive ? "" : " for writing");
	return gck_remote_check(result, err, "the lock on %s cannot be taken again; end the "
				"process that holds it",
				f->path ? f->path
				: f->kind == GCK_FD_STDIO ? "the task's standard input or output"
							  : "a memory file");
}

static int take_all(struct gck_restore *r, bool leases, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles && !r->trial; i++) {
		const struct gck_file *f = &r->img->files[i];
		const struct gck_fd *d = gck_restore_first_fd(r, i);

		for (size_t k = 0; d && !r->deferred[i] && k < f->nlocks; k++)
			if ((f->locks[k].kind == GCK_LOCK_LEASE) == leases &&
			    take_one(r, f, d->fd, &f->locks[k], err))
				return -1;
	}
	return 0;
}

int gck_restore_take_locks(struct gck_restore *r, struct gck_error *err)
{
	return take_all(r, false, err);
}

int gck_restore_take_leases(struct gck_restore *r, struct gck_error *err)
{
	return take_all(r, true, err);
}
