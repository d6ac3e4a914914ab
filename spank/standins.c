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
#define BESIDE_PATH (PATH_MAX + 32) /* of a path beside a stand-in */

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

static void beside(char path[BESIDE_PATH], const char *library, const char *name)
{
	const char *slash = strrchr(library, '/');

	snprintf(path, BESIDE_PATH, "%.*s%s", slash ? (int)(slash + 1 - library) : 0, library,
		 name);
}

/* Check that a stand-in exists whose real library gets a link namespace, and the libraries which
 * it loads for that: without them programs end. */
static int check_namespace(const char *library, const char *key, const char *conf_path,
			   struct gck_error *err)
{
	static const char *const names[] = {"libgpuckpt-root.so", "libgpuckpt-end.so"};
	char path[BESIDE_PATH];
	int rc = gck_standins_check_access(library, R_OK, key, conf_path, err);

	for (size_t i = 0; rc == 0 && i < sizeof names / sizeof *names; i++) {
		beside(path, library, names[i]);
		rc = gck_standins_check_access(path, R_OK, key, conf_path, err);
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
	char fortran[BESIDE_PATH];

	add(s, c->preload);
	if (o->mpi == GCK_MPI_NONE)
		return 0;
	if (check_namespace(c->mpi, "MpiPath", conf_path,
			    o->mpi == GCK_MPI_OPENMPI ? err : &s->mpi_left_out))
		return o->mpi == GCK_MPI_OPENMPI ? -1 : 0;
	beside(fortran, c->mpi, MPI_FORTRAN);
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
			choice == GCK_GPU_IMAGE    ? "image"
			: choice == GCK_GPU_REPLAY ? "replay"
						   : "nvidia",
			library, strerror(errno));
}

/* The stand-in for CUDA comes last: a program may use several of them. */
static int choose_cuda(struct gck_standins *s, const struct gck_conf *c, const char *conf_path,
		       const struct gck_options *o, struct gck_error *err)
{
	int wanted = gck_cuda_wanted(o->cuda, c->cuda, GCK_CUDA_DEVICE, err);
	bool apart;

	s->cuda_engine = NULL;
	if (wanted <= 0)
		return wanted;
	add(s, c->cuda);
	if (o->cuda == GCK_GPU_IMAGE)
		return 0;
	apart = check_namespace(c->cuda, "CudaPath", conf_path, err) == 0;
	if (o->cuda == GCK_GPU_REPLAY) {
		s->cuda_engine = "replay";
		return apart ? 0 : -1;
	}
	if (apart)
		s->cuda_engine = "auto";
	return 0;
}

int gck_standins_choose(struct gck_standins *s, const struct gck_conf *c, const char *conf_path,
			const struct gck_options *o, struct gck_error *err)
{
	s->preload[0] = '\0';
	return choose_mpi(s, c, conf_path, o, err) || choose_cuda(s, c, conf_path, o, err) ? -1 : 0;
}
