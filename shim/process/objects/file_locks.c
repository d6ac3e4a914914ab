/* SPDX-License-Identifier: Apache-2.0
 * Locks of files: flock(2), which belong to the open file, fcntl(2)'s of a process and of an open
 * file (F_OFD_SETLK), and leases for reading. The process takes them itself, since some belong to
 * it, and a lease's signals go to who took it. */
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

#define TRIES 200 /* a node that has died may hold a lock of a network file system for a while */
#define PAUSE_NS 100000000

/* ---- scan ---------------------------------------------------------------------------------- */

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

/* Find who gets a lease's signal, and which: NULL, or why the lease is not carried. A restart
 * makes a file that has no name by writing it; a copy of the file's content would break a lease
 * for writing. */
static const char *check_lease(const struct gck_scan *s, const struct gck_fd_view *v,
			       struct gck_lock *x)
{
	struct f_owner_ex owner = {0};
	int fd, failed;

	if (x->exclusive)
		return "it is for writing";
	if (!v->st.st_nlink)
		return "the file has no name";
	fd = gck_target_fd(s->t, v->fd);
	failed = fd < 0 || fcntl(fd, F_GETOWN_EX, &owner) ||
		 (x->signo = fcntl(fd, F_GETSIG)) < 0;
	if (fd >= 0)
		close(fd);
	return failed || owner.type != F_OWNER_PID || owner.pid != s->t->pid
		       ? "its signal goes to another process or to a thread"
		       : NULL;
}

int gck_fd_locks(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	const char *line = v->info;

	while ((line = gck_proc_field(line, "lock:"))) {
		struct gck_lock lock, *slot;
		int other = parse(s, line, &lock);
		const char *why = other < 0 ? "it is being broken" :
				  !other && lock.kind == GCK_LOCK_LEASE ? check_lease(s, v, &lock)
									: NULL;

		if (why)
			gck_obstacle_add_passing(s->f, v->object, "run without leases",
						 "a lease is held on %s, and %s", v->link, why);
		if (why || other || !can_take(x, &lock))
			continue;
		slot = gck_grow(&x->locks, &x->nlocks, sizeof *slot, s->err);
		if (!slot)
			return -1;
		*slot = lock;
	}
	return 0;
}

/* ---- restore ------------------------------------------------------------------------------- */

static int64_t take(struct gck_restore *r, int32_t fd, const struct gck_lock *x,
		    struct gck_error *err)
{
	const struct flock lock = {.l_type = x->exclusive ? F_WRLCK : F_RDLCK,
				   .l_whence = SEEK_SET, .l_start = x->start,
				   .l_len = x->length};
	uint64_t how = x->exclusive ? LOCK_EX : LOCK_SH;
	int64_t result;

	if (x->kind == GCK_LOCK_LEASE) {
		result = gck_remote_call(&r->remote, r->remote.pid, err, SYS_fcntl, (uint64_t)fd,
					 F_SETSIG, (uint64_t)x->signo);
		return result < 0 ? result
				  : gck_remote_call(&r->remote, r->remote.pid, err, SYS_fcntl,
						    (uint64_t)fd, F_SETLEASE, F_RDLCK);
	}
	if (x->kind == GCK_LOCK_FLOCK)
		return gck_remote_call(&r->remote, r->remote.pid, err, SYS_flock, (uint64_t)fd,
				       how | LOCK_NB);
	if (gck_remote_write(&r->remote, r->remote.scratch, &lock, sizeof lock, err))
		return -ESRCH;
	return gck_remote_call(&r->remote, r->remote.pid, err, SYS_fcntl, (uint64_t)fd,
			       x->kind == GCK_LOCK_FILE ? F_OFD_SETLK : F_SETLK,
			       r->remote.scratch);
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
	if (x->kind == GCK_LOCK_LEASE)
		return gck_remote_check(result, err, "the lease on %s cannot be taken again; end "
					"the process that has it open for writing", f->path);
	return gck_remote_check(result, err, "the lock on %s cannot be taken again; end the "
				"process that holds it", f->path ? f->path : "a memory file");
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
