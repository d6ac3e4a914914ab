/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "spank/standins.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MPI_FORTRAN "libgpuckpt-mpi-fortran.so"
#define MPI_PATH (PATH_MAX + 32) /* of a path beside MpiPath */

static bool is_there(const char *path, int mode)
{
	return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
}

int gck_standins_check_access(const char *path, int mode, const char *key, const char *conf_path,
			      struct gck_error *err)
{
	if (is_there(path, mode))
		return 0;
	return gck_fail(err, errno, "%s: %s; check the installation on this node, or %s in %s",
			path, strerror(errno), key, conf_path);
}

static void beside_mpi(char path[MPI_PATH], const struct gck_conf *c, const char *name)
{
	const char *slash = strrchr(c->mpi, '/');

	snprintf(path, MPI_PATH, "%.*s%s", slash ? (int)(slash + 1 - c->mpi) : 0, c->mpi, name);
}

/* Check that the libraries which the stand-in for MPI loads exist: without them programs end. */
static int check_mpi(const struct gck_conf *c, const char *conf_path, struct gck_error *err)
{
	static const char *const names[] = {"libgpuckpt-root.so", "libgpuckpt-end.so"};
	char path[MPI_PATH];
	int rc = gck_standins_check_access(c->mpi, R_OK, "MpiPath", conf_path, err);

	for (size_t i = 0; rc == 0 && i < sizeof names / sizeof *names; i++) {
		beside_mpi(path, c, names[i]);
		rc = gck_standins_check_access(path, R_OK, "MpiPath", conf_path, err);
	}
	return rc;
}

/* Add a library to LD_PRELOAD. */
static void add(struct gck_standins *s, const char *path)
{
	size_t n = strlen(s->preload);

	if (n)
		s->preload[n++] = ':';
	gck_conf_preload(path, s->preload + n, sizeof s->preload - n);
}

/* Add the stand-ins for MPI behind the preload, which must be first. Fortran's lies beside the
 * other and needs it. Without them a program with MPI runs, and checkpoints refuse it. */
static int choose_mpi(struct gck_standins *s, const struct gck_conf *c, const char *conf_path,
		      const struct gck_options *o, struct gck_error *err)
{
	char fortran[MPI_PATH];

	add(s, c->preload);
	if (o->mpi == GCK_MPI_NONE)
		return 0;
	if (check_mpi(c, conf_path, o->mpi == GCK_MPI_OPENMPI ? err : &s->mpi_left_out))
		return o->mpi == GCK_MPI_OPENMPI ? -1 : 0;
	beside_mpi(fortran, c, MPI_FORTRAN);
	add(s, c->mpi);
	if (is_there(fortran, R_OK))
		add(s, fortran);
	return 0;
}

int gck_cuda_wanted(enum gck_gpu choice, const char *library, const char *device,
		    struct gck_error *err)
{
	if (choice == GCK_GPU_NONE)
		return 0;
	if (choice == GCK_GPU_AUTO)
		return is_there(device, F_OK) && is_there(library, R_OK);
	if (is_there(library, R_OK))
		return 1;
	return gck_fail(err, errno,
			"cuda=%s: %s: %s; check the installation on this node, or CudaPath in "
			"gpuckpt.conf",
			gck_gpu_name(choice), library, strerror(errno));
}

/* The stand-in for CUDA comes last: a program may use several of them. */
static int choose_cuda(struct gck_standins *s, const struct gck_conf *c,
		       const struct gck_options *o,
		       struct gck_error *err)
{
	int wanted = gck_cuda_wanted(o->cuda, c->cuda, GCK_CUDA_DEVICE, err);

	if (wanted > 0)
		add(s, c->cuda);
	return wanted < 0 ? -1 : 0;
}

int gck_standins_choose(struct gck_standins *s, const struct gck_conf *c, const char *conf_path,
			const struct gck_options *o, struct gck_error *err)
{
	s->preload[0] = '\0';
	return choose_mpi(s, c, conf_path, o, err) || choose_cuda(s, c, o, err) ? -1 : 0;
}
