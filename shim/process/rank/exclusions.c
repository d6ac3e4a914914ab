/* SPDX-License-Identifier: Apache-2.0
 * What an image leaves out because the real MPI library or the CUDA driver's owns it, or because it
 * is the rank's end of a link to the agent. */
#include "config.h"

#include "shim/process/rank/exclusions.h"

#include <stdlib.h>
#include <string.h>

#include "shim/cuda/base/state.h"
#include "shim/mpi/base/state.h"
#include "shim/process/image/image.h"
#include "shim/process/rank/target.h"

#define RANGES_MAX 1000000u
#define FDS_MAX 1000000u
#define THREADS_MAX 65536u

/* A library in a namespace: MPI's or CUDA's. */
struct part {
	pid_t pid;
	const char *name;
};

static int broken(const struct part *p, const char *what, uint64_t value, struct gck_error *err)
{
	return gck_fail(err, EPROTO, "the state of its %s part is invalid: %s %llu", p->name, what,
			(unsigned long long)value);
}

/* Append an array of n elements in the rank to one of *have. */
static int append(const struct part *p, uint64_t address, uint64_t n, uint64_t max, size_t size,
		  void **v, size_t *have, const char *what, struct gck_error *err)
{
	char *more;

	if (n > max)
		return broken(p, what, n, err);
	if (!n)
		return 0;
	more = realloc(*v, (*have + n) * size);
	if (!more)
		return gck_fail(err, ENOMEM, "out of memory for the %s part's %s", p->name, what);
	*v = more;
	if (gck_memory_read(p->pid, address, more + *have * size, n * size, err))
		return -1;
	*have += n;
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct gck_ns_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Take over ranges: sorted and merged, without empty ones. */
static int take_ranges(const struct part *p, struct gck_ranges *r, struct gck_ns_range *v,
		       size_t n, struct gck_error *err)
{
	if (n)
		qsort(v, n, sizeof(*v), by_start);
	for (size_t i = 0; i < n; i++) {
		struct gck_range *last = r->n ? &r->v[r->n - 1] : NULL;
		uint64_t end = v[i].start + v[i].length;

		if (!v[i].length)
			continue;
		if (v[i].start % GCK_PAGE || v[i].length % GCK_PAGE || end < v[i].start)
			return broken(p, "a range of bytes", v[i].length, err);
		if (last && v[i].start <= last->end)
			last->end = end > last->end ? end : last->end;
		else if (gck_ranges_add(r, v[i].start, end, err))
			return -1;
	}
	return 0;
}

/* Add the ranges to those of another part. */
static int read_ranges(const struct part *p, struct gck_ranges *r, uint64_t address, uint64_t n,
		       struct gck_error *err)
{
	struct gck_ns_range *v = malloc((r->n + 1) * sizeof *v);
	size_t have = 0;
	int rc;

	if (!v)
		return gck_fail(err, ENOMEM, "out of memory for a rank's ranges");
	for (; have < r->n; have++)
		v[have] = (struct gck_ns_range){r->v[have].start,
						r->v[have].end - r->v[have].start};
	rc = append(p, address, n, RANGES_MAX, sizeof *v, (void **)&v, &have, "ranges", err);
	if (!rc) {
		r->n = 0;
		rc = take_ranges(p, r, v, have, err);
	}
	free(v);
	return rc;
}

static int read_owned(struct gck_exclusions *l, const struct part *p,
		      const struct gck_ns_exclusions *at, struct gck_error *err)
{
	return read_ranges(p, &l->ranges, at->ranges, at->nranges, err) ||
	       read_ranges(p, &l->changes_only, at->changes_only, at->nchanges_only, err) ||
	       append(p, at->fds, at->nfds, FDS_MAX, sizeof *l->fds, (void **)&l->fds, &l->nfds,
		      "descriptors", err) ||
	       append(p, at->threads, at->nthreads, THREADS_MAX, sizeof *l->threads,
		      (void **)&l->threads, &l->nthreads, "threads", err) ? -1 : 0;
}

static int read_mpi(struct gck_exclusions *l, pid_t pid, uint64_t address, struct gck_error *err)
{
	const struct part part = {pid, "MPI"};
	struct gck_mpi_state state;

	if (gck_memory_read(pid, address, &state, sizeof(state), err))
		return gck_fail_in(err, "the MPI part's state");
	if (state.magic != GCK_MPI_STATE_MAGIC || state.version != GCK_MPI_STATE_VERSION ||
	    state.size != sizeof(state))
		return gck_fail(err, EPROTO,
				"there is no state of this version's MPI part at %llx: was gpuckpt "
				"updated since it started?",
				(unsigned long long)address);
	l->closed_for = state.closed_for;
	l->link_fd = state.link_fd;
	return read_owned(l, &part, &state.exclusions, err);
}

/* Limited so that sums cannot overflow. */
static uint64_t at_most(uint64_t bytes)
{
	const uint64_t max = 1ull << 48;

	return bytes < max ? bytes : max;
}

static int read_cuda(struct gck_exclusions *l, pid_t pid, uint64_t address, struct gck_error *err)
{
	const struct part part = {pid, "CUDA"};
	struct gck_cuda_state state;

	if (gck_memory_read(pid, address, &state, sizeof(state), err))
		return gck_fail_in(err, "the CUDA part's state");
	if (state.magic != GCK_CUDA_STATE_MAGIC || state.version != GCK_CUDA_STATE_VERSION ||
	    state.size != sizeof(state))
		return gck_fail(err, EPROTO,
				"there is no state of this version's CUDA part at %llx: was "
				"gpuckpt updated since it started?",
				(unsigned long long)address);
	l->drained_for = state.drained_for;
	l->cuda_pid = state.pid;
	l->cuda_fds[0] = state.link_fd;
	l->cuda_fds[1] = state.kept_fd[0];
	l->cuda_fds[2] = state.kept_fd[1];
	l->cuda_fds[3] = state.data_fd[0];
	l->cuda_fds[4] = state.data_fd[1];
	l->ncuda_fds = 5;
	l->gpu.device_bytes = state.device_bytes;
	l->gpu.managed_bytes = (uint64_t)state.managed_mib << 20;
	l->gpu.ndevices = state.devices.n < GCK_LINK_CUDA_DEVICES ? state.devices.n
							      : GCK_LINK_CUDA_DEVICES;
	for (size_t i = 0; i < l->gpu.ndevices; i++) {
		l->gpu.devices[i].bytes = at_most(state.memory[i].bytes);
		l->gpu.devices[i].free_bytes = at_most(state.memory[i].free_bytes);
		memcpy(l->gpu.devices[i].uuid, state.devices.v[i].uuid,
		       sizeof l->gpu.devices[i].uuid);
	}
	l->gpu.pid = pid;
	if (state.drained_for && !state.replays)
		return 0; /* the library is in the image */
	return read_owned(l, &part, &state.exclusions, err);
}

int gck_exclusions_read(struct gck_exclusions *l, pid_t pid, uint64_t mpi, uint64_t cuda,
		      struct gck_error *err)
{
	gck_exclusions_free(l);
	if (mpi && read_mpi(l, pid, mpi, err))
		return -1;
	return cuda ? read_cuda(l, pid, cuda, err) : 0;
}

void gck_exclusions_free(struct gck_exclusions *l)
{
	free(l->ranges.v);
	free(l->changes_only.v);
	free(l->fds);
	free(l->threads);
	memset(l, 0, sizeof(*l));
	l->link_fd = -1;
}

static bool is_in(const int32_t *v, size_t n, int32_t x)
{
	for (size_t i = 0; i < n; i++)
		if (v[i] == x)
			return true;
	return false;
}

bool gck_exclusions_fd(const struct gck_exclusions *l, int fd)
{
	return fd == l->link_fd || is_in(l->cuda_fds, l->ncuda_fds, fd) ||
	       is_in(l->fds, l->nfds, fd);
}

bool gck_is_gpu(const char *path)
{
	return !strncmp(path, "/dev/nvidia", strlen("/dev/nvidia"));
}

bool gck_exclusions_device(const struct gck_exclusions *l, const char *path)
{
	return l->gpu.pid && !l->drained_for && gck_is_gpu(path);
}

bool gck_exclusions_parents_device(const struct gck_exclusions *l, const char *path)
{
	return l->left_gpu && gck_is_gpu(path);
}

bool gck_exclusions_thread(const struct gck_exclusions *l, pid_t tid)
{
	return is_in(l->threads, l->nthreads, tid);
}

static bool has(const struct gck_ranges *r, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].start <= start && end <= r->v[i].end)
			return true;
	return false;
}

bool gck_exclusions_range(const struct gck_exclusions *l, uint64_t start, uint64_t end)
{
	return has(&l->ranges, start, end);
}

bool gck_exclusions_changes_only(const struct gck_exclusions *l, uint64_t start, uint64_t end)
{
	return has(&l->changes_only, start, end);
}

/* ---- mappings ------------------------------------------------------------------------------ */

static int keep(struct gck_maps *out, const struct gck_vma *x, uint64_t start, uint64_t end,
		struct gck_error *err)
{
	struct gck_vma part = *x;

	if (start >= end)
		return 0;
	part.start = start;
	part.end = end;
	if (*x->name == '/' || x->inode)
		part.offset += start - x->start;
	return gck_maps_add(out, &part, err);
}

/* Add the remaining parts of one mapping; *next is the first range that may reach into it. */
static int cut_one(const struct gck_ranges *r, size_t *next, const struct gck_vma *x,
		   struct gck_maps *out, struct gck_error *err)
{
	uint64_t at = x->start;

	while (*next < r->n && r->v[*next].end <= x->start)
		++*next;
	for (size_t i = *next; i < r->n && r->v[i].start < x->end; i++) {
		if (r->v[i].start > at && keep(out, x, at, r->v[i].start, err))
			return -1;
		at = r->v[i].end;
	}
	return keep(out, x, at, x->end, err);
}

int gck_exclusions_cut(const struct gck_exclusions *l, struct gck_maps *m, struct gck_error *err)
{
	struct gck_maps out = {0};
	size_t next = 0;

	if (!l->ranges.n)
		return 0;
	for (size_t i = 0; i < m->n; i++)
		if (cut_one(&l->ranges, &next, &m->v[i], &out, err)) {
			gck_maps_free(&out);
			return -1;
		}
	free(m->v);
	m->v = out.v;
	m->n = out.n;
	m->capacity = out.capacity;
	return 0;
}
