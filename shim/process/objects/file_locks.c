/* SPDX-License-Identifier: Apache-2.0
 * Locks of files: flock(2), which belong to the open file, fcntl(2)'s of a process and of an open
 * file (F_OFD_SETLK). The process takes them itself, since some belong to it. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>

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
};

/* One line of fdinfo, after "lock:". 1: it is another process's. -1: it is of no kind that is
 * carried. */
static int parse(const struct gck_scan *s, const char *line, struct gck_lock *x)
{
	char kind[16], advisory[16], type[16], end[24];
	long long start;
	int pid;

	if (sscanf(line, "%*d: %15s %15s %15s %d %*s %lld %23s", kind, advisory, type, &pid, &start,
		   end) != 6)
		return -1;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		if (strcmp(kind, kinds[i].name) || strcmp(advisory, "ADVISORY"))
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

int gck_fd_locks(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	const char *line = v->info;

	while ((line = gck_proc_field(line, "lock:"))) {
		struct gck_lock lock, *slot;
		int other = parse(s, line, &lock);

		if (other < 0)
			gck_obstacle_add_passing(s->f, v->object, "run without leases",
						 "a lease is held on %s", v->link);
		if (other || !can_take(x, &lock))
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
	return gck_remote_check(result, err, "the lock on %s cannot be taken again; end the "
				"process that holds it", f->path ? f->path : "a memory file");
}

int gck_restore_take_locks(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles && !r->trial; i++) {
		const struct gck_file *f = &r->img->files[i];
		const struct gck_fd *d = gck_restore_first_fd(r, i);

		for (size_t k = 0; d && !r->deferred[i] && k < f->nlocks; k++)
			if (take_one(r, f, d->fd, &f->locks[k], err))
				return -1;
	}
	return 0;
}
