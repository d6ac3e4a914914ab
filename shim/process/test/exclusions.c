/* SPDX-License-Identifier: Apache-2.0
 * What the MPI and CUDA parts exclude from the image; this process is the rank. */
#include "config.h"

#include "shim/process/rank/exclusions.h"

#include <stdlib.h>
#include <unistd.h>

#include "shim/cuda/base/state.h"
#include "shim/mpi/base/state.h"
#include "shim/process/image/image.h"
#include "test/support/tap.h"

#define P GCK_PAGE

static struct gck_ns_range ranges[] = {{8 * P, 2 * P},
					{0, 0},
					{20 * P, P},
					{9 * P, 3 * P},
					{21 * P, P}};
static struct gck_ns_range changes_only[] = {{40 * P, 4 * P}};
static int32_t fds[] = {-1, 5, -1, 7}, threads[] = {0, 4711};

static struct gck_mpi_state whole(void)
{
	return (struct gck_mpi_state){
		.magic = GCK_MPI_STATE_MAGIC, .version = GCK_MPI_STATE_VERSION,
		.size = sizeof(struct gck_mpi_state), .closed_for = 9, .link_fd = 3,
		.exclusions = {.ranges = (uintptr_t)ranges,
			       .nranges = sizeof ranges / sizeof *ranges,
			       .fds = (uintptr_t)fds, .nfds = 4, .threads = (uintptr_t)threads,
			       .nthreads = 2, .changes_only = (uintptr_t)changes_only,
			       .nchanges_only = 1}};
}

static int read_it(struct gck_exclusions *l, const struct gck_mpi_state *s)
{
	struct gck_error err = {0};
	int rc = gck_exclusions_read(l, getpid(), (uintptr_t)s, 0, &err);

	if (rc)
		printf("# %s\n", err.text);
	return rc;
}

static void what_is_said(struct gck_exclusions *l)
{
	struct gck_mpi_state s = whole();

	is_int(read_it(l, &s), 0, "the lists are read");
	is_int((long long)l->closed_for, 9, "with the checkpoint for which MPI is quiesced");
	is_int((long long)l->ranges.n, 2,
	       "ranges that overlap or touch are merged, empty ones dropped");
	ok(gck_exclusions_range(l, 8 * P, 12 * P) && gck_exclusions_range(l, 20 * P, 22 * P),
	   "they are excluded");
	ok(!gck_exclusions_range(l, 7 * P, 9 * P) && !gck_exclusions_range(l, 12 * P, 13 * P),
	   "nothing else is");
	ok(gck_exclusions_fd(l, 5) && gck_exclusions_fd(l, 7) && gck_exclusions_fd(l, 3),
	   "descriptors and the link are excluded");
	ok(!gck_exclusions_fd(l, 4), "no other descriptors");
	ok(gck_exclusions_thread(l, 4711) && !gck_exclusions_thread(l, 4712),
	   "threads are excluded");
	ok(gck_exclusions_changes_only(l, 41 * P, 44 * P) &&
	   !gck_exclusions_changes_only(l, 41 * P, 45 * P),
	   "changes-only ranges are known");
	ok(!gck_exclusions_range(l, 41 * P, 42 * P), "and not excluded");
	s.exclusions = (struct gck_ns_exclusions){0};
	is_int(read_it(l, &s), 0, "empty lists are read");
	ok(!l->ranges.n && !gck_exclusions_fd(l, 5), "and exclude nothing");
	is_int(gck_exclusions_read(l, getpid(), 0, 0, NULL), 0, "a rank without MPI");
	ok(!l->ranges.n && !l->nfds && !gck_exclusions_fd(l, 5), "excludes nothing");
	is_int(l->link_fd, -1, "and has no link");
}

static int add(struct gck_maps *m, uint64_t start, uint64_t end, const char *name)
{
	struct gck_vma v = {.start = start * P, .end = end * P, .offset = 100 * P, .name = name};

	return gck_maps_add(m, &v, NULL);
}

static void cut(struct gck_exclusions *l)
{
	struct gck_mpi_state s = whole();
	struct gck_maps m = {0};

	read_it(l, &s);
	add(&m, 1, 2, "");
	add(&m, 7, 13, "/a/file");
	add(&m, 20, 22, "");
	add(&m, 30, 31, "");
	is_int(gck_exclusions_cut(l, &m, NULL), 0, "the ranges are cut out of the mappings");
	is_int((long long)m.n, 4, "a whole mapping is gone, a hole splits one");
	ok(m.v[1].start == 7 * P && m.v[1].end == 8 * P && m.v[1].offset == 100 * P,
	   "the part before it");
	ok(m.v[2].start == 12 * P && m.v[2].end == 13 * P, "and the part after it");
	ok(m.v[2].offset == 105 * P, "with its offset in the file");
	ok(m.v[0].start == P && m.v[3].start == 30 * P, "others are unchanged");
	gck_maps_free(&m);
}

static void refused(struct gck_exclusions *l, void (*break_it)(struct gck_mpi_state *),
		    const char *name)
{
	struct gck_mpi_state s = whole();

	break_it(&s);
	ok(read_it(l, &s) < 0, "refused: %s", name);
}

static void no_magic(struct gck_mpi_state *s) { s->magic++; }
static void other_version(struct gck_mpi_state *s) { s->version++; }
static void other_size(struct gck_mpi_state *s) { s->size--; }
static void too_many(struct gck_mpi_state *s) { s->exclusions.nranges = 1ull << 40; }
static void too_many_fds(struct gck_mpi_state *s) { s->exclusions.nfds = 1ull << 40; }
static void too_many_threads(struct gck_mpi_state *s) { s->exclusions.nthreads = 1ull << 40; }
static void too_many_changes_only(struct gck_mpi_state *s)
{
	s->exclusions.nchanges_only = 1ull << 40;
}

static void nowhere(struct gck_mpi_state *s) { s->exclusions.ranges = 4096; }

static struct gck_ns_range odd[1];

static void no_page(struct gck_mpi_state *s)
{
	odd[0] = (struct gck_ns_range){P + 8, P};
	s->exclusions.ranges = (uintptr_t)odd;
	s->exclusions.nranges = 1;
}

static void around(struct gck_mpi_state *s)
{
	no_page(s);
	odd[0] = (struct gck_ns_range){2 * P, -(uint64_t)P};
}

/* What the driver's library owns comes to what MPI's does. */
static void both(struct gck_exclusions *l, const struct gck_cuda_state *cuda)
{
	struct gck_ns_range own[] = {{3 * P, P}, {100 * P, 2 * P}};
	int32_t fd = 77, thread = 88;
	struct gck_mpi_state mpi = whole();
	struct gck_cuda_state s = *cuda;
	size_t nfds, nthreads;

	is_int(gck_exclusions_read(l, getpid(), (uintptr_t)&mpi, 0, NULL), 0, "with MPI alone");
	nfds = l->nfds;
	nthreads = l->nthreads;
	s.replays = 1;
	s.exclusions = (struct gck_ns_exclusions){
		.ranges = (uintptr_t)own, .nranges = 2, .fds = (uintptr_t)&fd, .nfds = 1,
		.threads = (uintptr_t)&thread, .nthreads = 1};
	is_int(gck_exclusions_read(l, getpid(), (uintptr_t)&mpi, (uintptr_t)&s, NULL), 0,
	       "a driver's library in a namespace, beside MPI's");
	ok(all_of(gck_exclusions_range(l, 3 * P, 4 * P), gck_exclusions_range(l, 100 * P, 102 * P),
		  !gck_exclusions_range(l, 99 * P, 101 * P)), "its ranges are left out");
	ok(all_of(gck_exclusions_fd(l, 77), l->nfds == nfds + 1), "and its descriptors");
	ok(all_of(gck_exclusions_thread(l, 88), l->nthreads == nthreads + 1), "and its threads");
	for (size_t i = 1; i < l->ranges.n; i++)
		ok(l->ranges.v[i - 1].end < l->ranges.v[i].start, "ranges of both are in order");
	s.replays = 0;
	ok(all_of(!gck_exclusions_read(l, getpid(), (uintptr_t)&mpi, (uintptr_t)&s, NULL),
		  l->nfds == nfds), "if no restart replays it, the image has the library");
	s.drained_for = 0;
	ok(all_of(!gck_exclusions_read(l, getpid(), (uintptr_t)&mpi, (uintptr_t)&s, NULL),
		  l->nfds == nfds + 1), "until the rank is drained that is not known");
}

static void gpu(struct gck_exclusions *l)
{
	struct gck_cuda_state s = {.magic = GCK_CUDA_STATE_MAGIC, .size = sizeof s,
				   .version = GCK_CUDA_STATE_VERSION, .link_fd = 6,
				   .device_bytes = 3ull << 30, .managed_mib = 2048};

	ok(!gck_exclusions_device(l, "/dev/nvidia0"),
	   "without CUDA its devices are ordinary devices");
	is_int(gck_exclusions_read(l, getpid(), 0, (uintptr_t)&s, NULL), 0, "a rank with CUDA");
	ok(gck_exclusions_fd(l, 6) && !gck_exclusions_fd(l, 5), "its link is excluded");
	ok(l->gpu.device_bytes == 3ull << 30, "its GPU's memory will be in its own memory");
	ok(l->gpu.managed_bytes == 2ull << 30, "a part of it is managed memory");
	ok(gck_exclusions_device(l, "/dev/nvidia0") &&
		   gck_exclusions_device(l, "/dev/nvidia-uvm") &&
		   !gck_exclusions_device(l, "/dev/null"),
	   "its devices will be closed");
	s.drained_for = 7;
	is_int(gck_exclusions_read(l, getpid(), 0, (uintptr_t)&s, NULL), 0, "drained");
	ok(!gck_exclusions_device(l, "/dev/nvidia0"),
	   "once it is drained they are ordinary devices");
	ok(!gck_exclusions_parents_device(l, "/dev/nvidia0"), "they are its own");
	l->left_gpu = true;
	ok(gck_exclusions_parents_device(l, "/dev/nvidia0") &&
		   !gck_exclusions_parents_device(l, "/dev/null"),
	   "a process that was forked by one with CUDA has them from its parent");
	both(l, &s);
	s.version++;
	ok(gck_exclusions_read(l, getpid(), 0, (uintptr_t)&s, NULL) < 0 && !l->left_gpu,
	   "a state of another version is refused");
}

int main(void)
{
	struct gck_exclusions l = {.link_fd = -1};

	what_is_said(&l);
	cut(&l);
	refused(&l, no_magic, "no magic");
	refused(&l, other_version, "another version");
	refused(&l, other_size, "another size");
	refused(&l, too_many, "more ranges than can be");
	refused(&l, too_many_fds, "more descriptors than can be");
	refused(&l, too_many_threads, "more threads than can be");
	refused(&l, too_many_changes_only, "more changes-only ranges than can be");
	refused(&l, nowhere, "an array that is nowhere");
	refused(&l, no_page, "a range of no whole page");
	refused(&l, around, "one that goes around the end of memory");
	gck_exclusions_free(&l);
	gpu(&l);
	gck_exclusions_free(&l);
	return tap_done();
}
