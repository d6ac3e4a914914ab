/* SPDX-License-Identifier: Apache-2.0
 * Memory that the ranks of a window share: an object in /dev/shm, unlinked after all have mapped
 * it. */
#include "config.h"

#include "shim/mpi/rma/shared.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/mpi/base/function.h"

#define PAGE ((size_t)4096)

/* ---- the object ----------------------------------------------------------------------------- */

struct name {
	char text[64]; /* "": the first rank failed to make the object */
};

/* Makes the object in the first rank. Its space is allocated at once, because a full /dev/shm kills
 * a rank that touches the memory later. */
static int make_object(struct name *name, size_t size)
{
	uint64_t random[2];
	int fd;

	*name = (struct name){""};
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -1;
	snprintf(name->text, sizeof(name->text), "/gpuckpt-mpi-%016llx%016llx",
		 (unsigned long long)random[0], (unsigned long long)random[1]);
	fd = shm_open(name->text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && posix_fallocate(fd, 0, (off_t)size)) {
		shm_unlink(name->text);
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		name->text[0] = '\0';
	return fd;
}

/* Opens the object in the other ranks; fails on another node. */
static int open_object(const struct name *name)
{
	return name->text[0] ? shm_open(name->text, O_RDWR | O_CLOEXEC, 0600) : -1;
}

static char *map_object(int fd, size_t size)
{
	char *p = fd < 0 ? MAP_FAILED
			 : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (fd >= 0)
		close(fd);
	return p == MAP_FAILED ? NULL : p;
}

/* ---- among the ranks ------------------------------------------------------------------------ */

static int real_bcast(struct gck_mpi_win *w, void *p, int size)
{
	return gck_mpi_real.Bcast(p, size, GCK_MPI_REAL_TYPE(MPI_BYTE), 0,
				  GCK_MPI_REAL_COMM(w->comm));
}

/* Sets *all_mapped to whether it is set in all ranks. */
static int agree(struct gck_mpi_win *w, int *all_mapped)
{
	int mine = *all_mapped;

	return gck_mpi_real.Allreduce(&mine, all_mapped, 1, GCK_MPI_REAL_TYPE(MPI_INT),
				      GCK_MPI_REAL_OP(MPI_MIN), GCK_MPI_REAL_COMM(w->comm));
}

/* ---- making --------------------------------------------------------------------------------- */

static size_t whole_pages(size_t size)
{
	return (size + PAGE - 1) / PAGE * PAGE;
}

/* Sets the offset of each rank's segment; returns the size of all. */
static size_t lay_out(struct gck_mpi_segment *s, int n)
{
	size_t at = 0;

	for (int i = 0; i < n; i++) {
		s[i].offset = (MPI_Aint)at;
		at += (size_t)s[i].size;
	}
	return at ? whole_pages(at) : PAGE;
}

/* Where a rank's segment begins. As in Open MPI, one without memory begins where the next one does,
 * or nowhere (NULL) if the segments are apart. */
static char *segment_base(const struct gck_mpi_shared *s, int rank)
{
	if (s->apart && !s->segments[rank].size)
		return NULL;
	return s->base + s->segments[rank].offset;
}

/* Makes an object and maps it in all ranks. *base is NULL if that failed in this rank; *all_mapped
 * is set if it succeeded in all. */
static int map_all(struct gck_mpi_win *w, char **base, int *all_mapped)
{
	struct name name = {""};
	int fd = w->rank == 0 ? make_object(&name, w->shared->size) : -1;
	int rc = real_bcast(w, &name, sizeof(name));

	if (w->rank != 0 && !rc)
		fd = open_object(&name);
	*base = map_object(fd, w->shared->size);
	*all_mapped = *base != NULL;
	if (!rc)
		rc = agree(w, all_mapped);
	if (w->rank == 0 && name.text[0])
		shm_unlink(name.text);
	return rc;
}

static int gather(struct gck_mpi_win *w, bool apart)
{
	struct gck_mpi_shared *s = w->shared = calloc(1, sizeof(*s));
	struct gck_mpi_segment mine = {0, w->size, w->disp_unit};
	int rc;

	if (!s)
		return MPI_ERR_NO_MEM;
	s->apart = apart && w->nranks > 1;
	if (s->apart)
		mine.size = (MPI_Aint)whole_pages((size_t)w->size);
	s->segments = calloc((size_t)w->nranks, sizeof(*s->segments));
	if (!s->segments)
		return MPI_ERR_NO_MEM;
	rc = gck_mpi_real.Allgather(&mine, sizeof(mine), GCK_MPI_REAL_TYPE(MPI_BYTE), s->segments,
				    sizeof(mine), GCK_MPI_REAL_TYPE(MPI_BYTE),
				    GCK_MPI_REAL_COMM(w->comm));
	if (!rc)
		s->size = lay_out(s->segments, w->nranks);
	return rc;
}

int gck_mpi_shared_make(struct gck_mpi_win *w, bool apart)
{
	int rc = gather(w, apart), all_mapped = 0;
	struct gck_mpi_shared *s = w->shared;

	if (rc)
		return rc;
	rc = map_all(w, &s->base, &all_mapped);
	if (!rc && s->base)
		w->base = segment_base(s, w->rank);
	return rc ? rc : all_mapped ? MPI_SUCCESS : MPI_ERR_RMA_SHARED;
}

void gck_mpi_shared_free(struct gck_mpi_win *w)
{
	if (w->shared->base)
		munmap(w->shared->base, w->shared->size);
	free(w->shared->segments);
	free(w->shared);
	w->shared = NULL;
}

/* ---- query ---------------------------------------------------------------------------------- */

/* The rank of a query; MPI_PROC_NULL means the first rank with memory. */
static int query_rank(const struct gck_mpi_win *w, int rank)
{
	if (rank != MPI_PROC_NULL)
		return rank;
	for (int i = 0; i < w->nranks; i++)
		if (w->shared->segments[i].size)
			return i;
	return rank;
}

static int query(struct gck_mpi_win *w, int rank, MPI_Aint *size, int *disp_unit, void **base)
{
	if (!w->shared)
		return MPI_ERR_RMA_FLAVOR;
	rank = query_rank(w, rank);
	if (rank == MPI_PROC_NULL) {
		*size = 0;
		*disp_unit = 0;
		*base = NULL;
		return MPI_SUCCESS;
	}
	if (rank < 0 || rank >= w->nranks)
		return MPI_ERR_RANK;
	*size = w->shared->segments[rank].size;
	*disp_unit = w->shared->segments[rank].disp_unit;
	*base = segment_base(w->shared, rank);
	return MPI_SUCCESS;
}

GCK_MPI_FUNCTION(Win_shared_query, (MPI_Win win, int rank, MPI_Aint *size, int *disp_unit,
				    void *baseptr))
{
	struct gck_mpi_win *w = gck_mpi_win_of(win);

	return gck_mpi_error(win, w ? query(w, rank, size, disp_unit, baseptr) : MPI_ERR_WIN,
			     "MPI_Win_shared_query");
}
