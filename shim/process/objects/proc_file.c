/* SPDX-License-Identifier: Apache-2.0
 * Files and directories of /proc: opened again for the same process. What they hold is not in the
 * image: it is what the kernel says when it is read. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/process/objects/objects.h"
#include "shim/process/process.h"
#include "shim/process/proc/maps.h"
#include "shim/process/tree/tree.h"

/* ---- the process that a descriptor is of ----------------------------------------------------- */

int32_t gck_fd_process(const struct gck_scan *s, pid_t pid)
{
	const pid_t rank = s->t->rank ? s->t->rank->pid : s->t->pid;

	if (pid == rank)
		return GCK_PROCESS_RANK;
	return gck_is_descendant(pid, rank) ? pid : 0;
}

pid_t gck_fd_process_now(const struct gck_restore *r, int32_t process)
{
	return process == GCK_PROCESS_RANK ? r->root->remote.pid
					   : gck_restore_pid(r->root, process);
}

/* ---- scan ------------------------------------------------------------------------------------ */

static const char *reason(const struct gck_file *x, bool of_process, const char *link)
{
	if (gck_path_deleted(link) || (of_process && !x->process))
		return "of a process that has ended or is no descendant of the rank";
	if (!strncmp(x->path, "task/", strlen("task/")))
		return "of a thread";
	return (x->flags & O_ACCMODE) != O_RDONLY ? "open for writing" : NULL;
}

int gck_fd_proc(struct gck_scan *s, const struct gck_fd_view *v, struct gck_file *x)
{
	const char *path = v->link + strlen("/proc/"), *why;
	char *end;
	long pid = strtol(path, &end, 10);
	bool of_process = end != path && (!*end || *end == '/');

	x->kind = GCK_FD_PROC;
	x->process = of_process ? gck_fd_process(s, (pid_t)pid) : 0;
	x->path = strdup(!of_process ? path : *end ? end + 1 : ".");
	if (!x->path)
		return gck_fail(s->err, ENOMEM, "out of memory for the image");
	why = reason(x, of_process, v->link);
	if (why)
		gck_obstacle_add_passing(s->f, v->object, "close it first",
					 "a file of /proc %s: %s", why, v->link);
	return 0;
}

/* ---- check and restore ----------------------------------------------------------------------- */

int gck_restore_check_proc(const struct gck_file *f, struct gck_error *err)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "/proc/%s", f->path);
	if (f->process || !access(path, F_OK))
		return 0;
	return gck_fail(err, errno, "%s was open at the checkpoint, and this node's kernel does "
			"not have it", path);
}

int gck_make_proc(const struct gck_restore *r, const struct gck_file *f, struct gck_error *err)
{
	char path[PATH_MAX];
	int fd;

	if (f->process)
		snprintf(path, sizeof path, "/proc/%d/%s",
			 (int)gck_fd_process_now(r, f->process), f->path);
	else
		snprintf(path, sizeof path, "/proc/%s", f->path);
	fd = open(path, (int)f->flags | O_CLOEXEC);
	if (fd < 0)
		return gck_fail(err, errno, "opening %s: %s", path, strerror(errno));
	if (!(f->flags & O_PATH) && lseek(fd, f->offset, SEEK_SET) < 0 && errno != ESPIPE)
		return gck_fail(err, errno, "seeking in %s: %s", path, strerror(errno)),
		       gck_close_failed(fd);
	return fd;
}
