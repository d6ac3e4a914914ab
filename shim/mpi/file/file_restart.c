/* SPDX-License-Identifier: Apache-2.0
 * Files of MPI-IO over a restart. The image has neither the descriptors, which are the real
 * library's, nor the contents. A file that the program writes must still exist and is truncated if
 * it has grown. Bytes that the program overwrote in place since the checkpoint stay; the restarted
 * program writes them again. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/mpi/base/function.h"
#include "shim/mpi/base/participant.h"
#include "shim/mpi/file/file.h"

#define WRITABLE (MPI_MODE_WRONLY | MPI_MODE_RDWR)
/* The modes that the open after a restart leaves out: those that act on the open itself,
 * SEQUENTIAL, which forbids setting the file pointer, and DELETE_ON_CLOSE, which the stand-in
 * implements. */
#define ONCE                                                                       \
	(MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_APPEND | MPI_MODE_SEQUENTIAL | \
	 MPI_MODE_DELETE_ON_CLOSE)

/* ---- save ----------------------------------------------------------------------------------- */

/* True if the file was unlinked or renamed, so that a restart would not find it. */
static bool is_nameless(const char *path)
{
	return access(path, F_OK) && errno == ENOENT;
}

/* Flushes the file, since the checkpoint depends on data that may still be in this node's
 * memory. */
static int sync_data(const struct gck_mpi_file *f, struct gck_error *err)
{
	int fd = open(f->path, O_WRONLY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return 0; /* in a name space of the driver: the restart reports it */
	if (fdatasync(fd) && errno != EINVAL && errno != EROFS)
		rc = gck_fail(err, errno,
			      "%s, which the checkpoint depends on, cannot be flushed to "
			      "its file system: %s",
			      f->path, strerror(errno));
	close(fd);
	return rc;
}

/* Notes where the program's name leads, so that it leads there at the restart. Without that the
 * name is used. */
static void find_file(struct gck_mpi_file *f)
{
	struct stat st;

	free(f->found);
	f->found = realpath(f->path, NULL);
	f->was = (struct gck_place_file){0};
	if (f->found && stat(f->found, &st) == 0)
		f->was = (struct gck_place_file){st.st_ino, st.st_uid};
}

static int save_one(struct gck_mpi_file *f, struct gck_error *err)
{
	MPI_File real = GCK_MPI_REAL_FILE(f);

	find_file(f);
	f->position = f->shared_position = -1;
	if (!f->driver && is_nameless(f->path))
		return gck_fail(err, EBUSY,
				"%s is open by MPI_File_open but was removed: close it before the "
				"checkpoint",
				f->path);
	if (!(f->amode & MPI_MODE_SEQUENTIAL) &&
	    gck_mpi_real.File_get_position(real, &f->position))
		return gck_fail(err, EIO, "%s: MPI_File_get_position failed", f->name);
	if (f->shared_used && gck_mpi_real.File_get_position_shared(real, &f->shared_position))
		return gck_fail(err, EIO, "%s: MPI_File_get_position_shared failed: a checkpoint "
				"cannot know the shared file pointer", f->name);
	if (gck_mpi_real.File_get_size(real, &f->size))
		return gck_fail(err, EIO, "%s: MPI_File_get_size failed", f->name);
	return f->amode & WRITABLE ? sync_data(f, err) : 0;
}

static int save(struct gck_error *err)
{
	for (struct gck_mpi_handle *h = gck_mpi_first(GCK_MPI_FILE); h; h = h->next)
		if (h->real && save_one((struct gck_mpi_file *)h, err))
			return -1;
	return 0;
}

/* ---- obstacles to a checkpoint -------------------------------------------------------------- */

#define MAX_PATHS 16 /* files to check in advance; save() checks all at a checkpoint */

struct paths {
	size_t n;
	char *v[MAX_PATHS];
};

static bool copy_path(struct gck_mpi_handle *h, void *to)
{
	const struct gck_mpi_file *f = (const struct gck_mpi_file *)h;
	struct paths *p = to;

	if (h->real && !f->driver && (p->v[p->n] = strdup(f->path)))
		p->n++;
	return p->n == MAX_PATHS;
}

/* Copies the paths first: access to a file system may block, and the program's threads need the
 * lock of the list. */
static void report_obstacles(gck_mpi_obstacle_fn *report, void *arg)
{
	struct paths p = {0};

	gck_mpi_first_that(GCK_MPI_FILE, copy_path, &p);
	for (size_t i = 0; i < p.n; i++) {
		if (is_nameless(p.v[i]))
			report(arg, p.v[i], "it is open by MPI_File_open but was removed",
			       "close it before the checkpoint");
		free(p.v[i]);
	}
}

/* ---- rebuild -------------------------------------------------------------------------------- */

/* Sets each value to its largest in all ranks. */
static int agree(struct gck_mpi_file *f, long long *v, int n)
{
	return gck_mpi_real.Allreduce(MPI_IN_PLACE, v, n, GCK_MPI_REAL_TYPE(MPI_LONG_LONG),
				      GCK_MPI_REAL_OP(MPI_MAX), GCK_MPI_REAL_COMM(f->comm));
}

/* Whether the program's name still leads to the file. */
static bool is_there(const struct gck_mpi_file *f, struct gck_error *err)
{
	int at = gck_mpi_file_find(f->found, &f->was, err);

	if (at >= 0)
		close(at);
	return at >= 0;
}

/* Checks the file in each rank and truncates it in the first one; all ranks get the result. */
static int cut_back(struct gck_mpi_file *f, long long size, struct gck_error *err)
{
	bool own = f->found && !is_there(f, err);
	long long bad;

	if (!own && f->amode & WRITABLE && gck_mpi_comm_of(f->comm)->rank == 0)
		own = gck_mpi_file_cut(f->found ? f->found : f->path, &f->was, size, err) != 0;
	bad = own;
	if (agree(f, &bad, 1))
		return gck_fail(err, EIO, "%s: a collective of MPI failed while the file was "
					  "opened again", f->name);
	if (bad && !own)
		return gck_fail(err, ESTALE,
				"%s: restoring it failed: another rank that has it open reports "
				"the reason",
				f->path);
	return bad ? -1 : 0;
}

/* Sets view and file pointers. `shared` is the shared file pointer if any rank has used it, else
 * -1. */
static int set_view_and_pointers(struct gck_mpi_file *f, MPI_File real, long long shared)
{
	MPI_Info info = gck_mpi_real_of(MPI_INFO_NULL);
	int rc = gck_mpi_real.File_set_view(real, f->disp, GCK_MPI_REAL_TYPE(f->etype),
					    GCK_MPI_REAL_TYPE(f->filetype), f->datarep, info);

	if (!rc && f->atomic)
		rc = gck_mpi_real.File_set_atomicity(real, 1);
	if (!rc && f->position >= 0)
		rc = gck_mpi_real.File_seek(real, f->position, MPI_SEEK_SET);
	if (!rc && shared >= 0)
		rc = gck_mpi_real.File_seek_shared(real, shared, MPI_SEEK_SET);
	return rc;
}

static int rebuild_one(void *file, struct gck_error *err)
{
	struct gck_mpi_file *f = file;
	long long v[2] = {f->size, f->shared_position};
	char *name = f->found && !f->driver ? f->found : f->name;
	MPI_File real;

	if (agree(f, v, 2))
		return gck_fail(err, EIO, "%s: a collective of MPI failed while the file was "
					  "opened again", f->name);
	if (cut_back(f, v[0], err))
		return -1;
	if (gck_mpi_real.File_open(GCK_MPI_REAL_COMM(f->comm), name, f->amode & ~ONCE,
				   gck_mpi_real_handle(f->info, GCK_MPI_INFO), &real))
		return gck_fail(err, ENOENT,
				"%s, open at the checkpoint, cannot be opened again by "
				"MPI_File_open: it must be on a file system that all nodes share, "
				"with the same permissions",
				f->path);
	gck_mpi_handle_set_real(f, real);
	if (set_view_and_pointers(f, real, v[1]))
		return gck_fail(err, EIO, "%s: its view or file pointers cannot be set again after "
					  "a restart",
				f->name);
	return 0;
}

static MPI_Comm comm_of(const void *file)
{
	return ((const struct gck_mpi_file *)file)->comm;
}

static int rebuild(struct gck_error *err)
{
	if (gck_mpi_datarep_rebuild(err))
		return -1;
	return gck_mpi_private_each(GCK_MPI_FILE, comm_of, rebuild_one, err);
}

const struct gck_mpi_participant gck_mpi_file_participant = {
	.name = "files",
	.save = save,
	.rebuild = rebuild,
	.report_obstacles = report_obstacles,
};
