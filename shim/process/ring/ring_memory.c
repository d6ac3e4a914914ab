/* SPDX-License-Identifier: Apache-2.0
 * The memory of an io_uring, which the program has mapped: copy and restore. */
#include "config.h"

#include "shim/process/ring/ring_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/process/memory/memory.h"
#include "shim/process/ptrace/fd_channel.h"
#include "shim/process/ring/ring.h"

#define NO_COMPLETION (1u << 6) /* IOSQE_CQE_SKIP_SUCCESS, of Linux 5.17 */
#define MSG_RING 40             /* IORING_OP_MSG_RING, of Linux 5.18 */
#define LOOK_US 200
#define IDLE_MS 10              /* after that its thread sleeps */
#define LOWEST 0x10000          /* vm.mmap_min_addr */
#define HIGHEST 0x7ffffffff000  /* of addresses of a process */

_Static_assert(sizeof(struct io_sqring_offsets) + sizeof(struct io_cqring_offsets) ==
	       sizeof(((struct gck_ring *)NULL)->offsets), "as in the image");

/* ---- layout -------------------------------------------------------------------------------- */

static void offsets_of(const unsigned char offsets[80], struct io_uring_params *p)
{
	memcpy(&p->sq_off, offsets, sizeof p->sq_off);
	memcpy(&p->cq_off, offsets + sizeof p->sq_off, sizeof p->cq_off);
}

static struct io_uring_params plain(const struct gck_ring *x)
{
	return (struct io_uring_params){
		.flags = IORING_SETUP_CQSIZE | (x->thread ? IORING_SETUP_SQPOLL : 0),
		.cq_entries = x->completions, .sq_thread_idle = x->thread ? IDLE_MS : 0};
}

int gck_ring_make_like(const struct gck_ring *x, unsigned char offsets[80])
{
	struct io_uring_params p = plain(&(struct gck_ring){.completions = x->completions});
	int fd = (int)syscall(SYS_io_uring_setup, x->submissions, &p);

	memcpy(offsets, &p.sq_off, sizeof p.sq_off);
	memcpy(offsets + sizeof p.sq_off, &p.cq_off, sizeof p.cq_off);
	return fd;
}

static size_t pages(size_t size)
{
	return (size + GCK_PAGE - 1) / GCK_PAGE * GCK_PAGE;
}

/* Both queues, without and with the array of the first one; the entries of the first. */
static size_t queue_size(const struct gck_ring *x)
{
	struct io_uring_params p;

	offsets_of(x->offsets, &p);
	return pages(p.cq_off.cqes + x->completions * sizeof(struct io_uring_cqe));
}

static size_t rings_size(const struct gck_ring *x)
{
	struct io_uring_params p;

	offsets_of(x->offsets, &p);
	return pages(p.sq_off.array + x->submissions * sizeof(uint32_t));
}

static size_t entries_size(const struct gck_ring *x)
{
	return pages(x->submissions * sizeof(struct io_uring_sqe));
}

static uint32_t *at(const struct gck_ring_view *v, uint32_t offset)
{
	return (uint32_t *)(void *)(v->rings + offset);
}

int gck_ring_map(const struct gck_ring *x, int fd, struct gck_ring_view *v)
{
	void *rings = mmap(NULL, rings_size(x), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   IORING_OFF_SQ_RING);
	void *entries;

	/* of Linux before 6.10: without the array it is smaller */
	if (rings == MAP_FAILED)
		rings = mmap(NULL, queue_size(x), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			     IORING_OFF_SQ_RING);
	entries = mmap(NULL, entries_size(x), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		       IORING_OFF_SQES);
	offsets_of(x->offsets, &v->p);
	v->rings = rings;
	v->entries = entries;
	if (rings != MAP_FAILED && entries != MAP_FAILED)
		return 0;
	if (rings != MAP_FAILED)
		munmap(rings, rings_size(x));
	if (entries != MAP_FAILED)
		munmap(entries, entries_size(x));
	return -1;
}

void gck_ring_unmap(const struct gck_ring *x, struct gck_ring_view *v)
{
	munmap(v->rings, rings_size(x));
	munmap(v->entries, entries_size(x));
}

/* ---- hold ---------------------------------------------------------------------------------- */

/* Copy memory that may end before: then the rest is zero. */
static int copy_pages(const char *from, size_t size, char *to, struct gck_error *err)
{
	int way[2];

	if (pipe2(way, O_CLOEXEC))
		return gck_fail(err, errno, "no pipe: %s", strerror(errno));
	for (size_t i = 0; i < size; i += GCK_PAGE)
		if (write(way[1], from + i, GCK_PAGE) != GCK_PAGE ||
		    read(way[0], to + i, GCK_PAGE) != GCK_PAGE)
			break;
	close(way[0]);
	close(way[1]);
	return 0;
}

static bool all_zero(const void *data, size_t size)
{
	const char *bytes = data;

	return !size || (!bytes[0] && !memcmp(bytes, bytes + 1, size - 1));
}

/* A ring without the array (IORING_SETUP_NO_SQARRAY) takes its entries in their order, as a
 * restored one does with such an array, of which the program then knows nothing. */
static void fill_array(const struct gck_ring *x, const struct gck_ring_view *v)
{
	uint32_t *array = at(v, v->p.sq_off.array);

	if (!all_zero(array, x->submissions * sizeof *array))
		return;
	for (uint32_t i = 0; i < x->submissions; i++)
		array[i] = i;
}

/* Whether what the program can write fits what the kernel says, and the layout. */
static int check_copy(const struct gck_ring *x, const struct gck_ring_view *v,
		      struct gck_error *err)
{
	const uint32_t *array = at(v, v->p.sq_off.array);
	const char *end = (const char *)(v->entries + x->submissions);
	bool fit = *at(v, v->p.sq_off.head) == x->submitted &&
		   *at(v, v->p.cq_off.tail) == x->submitted &&
		   *at(v, v->p.sq_off.tail) - x->submitted <= x->submissions &&
		   x->submitted - *at(v, v->p.cq_off.head) <= x->completions &&
		   *at(v, v->p.sq_off.ring_mask) == x->submissions - 1 &&
		   *at(v, v->p.cq_off.ring_mask) == x->completions - 1;

	for (uint32_t i = 0; i < x->submissions && fit; i++)
		fit = array[i] < x->submissions;
	fit = fit && all_zero(end, entries_size(x) - x->submissions * sizeof *v->entries);
	return fit ? 0 : gck_fail(err, ENOTSUP, "an io_uring whose memory is laid out otherwise, "
				  "as with IORING_SETUP_CQE32, or is damaged; close it");
}

static int copy_ring(struct gck_hold *h, uint32_t i, int fd, char *data)
{
	const struct gck_ring *x = h->img->files[i].rings;
	struct gck_ring_view own, copy;
	int failed;

	if (gck_ring_map(x, fd, &own))
		return gck_fail(h->err, errno, "mapping an io_uring: %s", strerror(errno));
	failed = copy_pages(own.rings, rings_size(x), data, h->err) ||
		 copy_pages((char *)own.entries, entries_size(x), data + rings_size(x), h->err);
	copy = own;
	copy.rings = data;
	copy.entries = (struct io_uring_sqe *)(void *)(data + rings_size(x));
	gck_ring_unmap(x, &own);
	if (failed || check_copy(x, &copy, h->err))
		return -1;
	fill_array(x, &copy);
	h->img->files[i].data_size = rings_size(x) + entries_size(x);
	return gck_frozen_bytes(h->copies, GCK_FROZEN_FILE, i, data, h->img->files[i].data_size,
				h->err);
}

int gck_hold_ring(struct gck_hold *h, uint32_t i)
{
	const struct gck_ring *x = h->img->files[i].rings;
	int fd = gck_target_fd(h->t, gck_image_fd_of(h->img, i)), failed;
	char *data = calloc(1, rings_size(x) + entries_size(x));

	if (fd < 0 || !data)
		failed = gck_fail(h->err, errno, "copying an io_uring: %s", strerror(errno));
	else
		failed = copy_ring(h, i, fd, data);
	free(data);
	if (fd >= 0)
		close(fd);
	return failed;
}

/* ---- restore ------------------------------------------------------------------------------- */

static int check_ring(const struct gck_file *f, struct gck_error *err)
{
	unsigned char offsets[sizeof f->rings->offsets];
	int like = gck_ring_make_like(f->rings, offsets);

	if (like < 0)
		return gck_fail(err, errno, "an io_uring cannot be made on this node: %s%s",
				strerror(errno), errno == EPERM ? " (kernel.io_uring_disabled)"
								: "");
	close(like);
	if (memcmp(offsets, f->rings->offsets, sizeof offsets) ||
	    f->data_size != rings_size(f->rings) + entries_size(f->rings))
		return gck_fail(err, ENOTSUP, "this node's kernel lays out an io_uring in another "
				"way: restart it under the kernel where it was");
	return 0;
}

int gck_restore_check_rings(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++)
		if (r->img->files[i].kind == GCK_FD_RING && check_ring(&r->img->files[i], err))
			return gck_fail_in(err, "fd %d", gck_image_fd_of(r->img, (uint32_t)i));
	return 0;
}

/* The kernel lets nobody pass one to another process. */
int gck_ring_place(struct gck_restore *r, size_t file, struct gck_error *err)
{
	const struct gck_ring *x = r->img->files[file].rings;
	const struct io_uring_params p = plain(x);
	int64_t made;

	if (gck_remote_write(&r->remote, r->remote.scratch, &p, sizeof p, err))
		return -1;
	made = gck_remote_call(&r->remote, r->remote.pid, err, SYS_io_uring_setup, x->submissions,
			       r->remote.scratch);
	if (gck_remote_check(made, err, "process %d: making an io_uring", r->remote.pid))
		return -1;
	return gck_restore_spread(r, file, (int)made, err);
}

/* The same request in all entries. */
static void fill_entries(const struct gck_ring_view *v, const struct gck_ring *x,
			 struct io_uring_sqe request)
{
	for (uint32_t i = 0; i < x->submissions; i++) {
		v->entries[i] = request;
		at(v, v->p.sq_off.array)[i] = i;
	}
}

/* Use a ring, to which some requests are added. */
static int submit(const struct gck_ring_view *v, int fd, uint32_t n, struct gck_error *err)
{
	int done;

	__atomic_store_n(at(v, v->p.sq_off.tail), *at(v, v->p.sq_off.tail) + n, __ATOMIC_RELEASE);
	done = (int)syscall(SYS_io_uring_enter, fd, n, 0, 0, NULL, 0);
	if (done == (int)n)
		return 0;
	return gck_fail(err, done < 0 ? errno : EIO, "using an io_uring: %s",
			strerror(done < 0 ? errno : EIO));
}

/* What makes completions: requests in the ring itself, or in one of ours that sends them there. */
struct source {
	struct gck_ring_view v;
	int fd;
};

/* Make completions until there were so many. */
static int complete_to(const struct gck_ring_view *v, const struct gck_ring *x,
		       const struct source *from, uint32_t end, bool consumed,
		       struct gck_error *err)
{
	uint32_t left, now = *at(v, v->p.cq_off.tail);

	while ((left = end - now)) {
		uint32_t n = left < x->submissions ? left : x->submissions;

		if (submit(&from->v, from->fd, n, err))
			return -1;
		now += n;
		if (*at(v, v->p.cq_off.tail) != now)
			return gck_fail(err, EIO, "an io_uring cannot be brought to where it was");
		if (consumed)
			__atomic_store_n(at(v, v->p.cq_off.head), now, __ATOMIC_RELEASE);
	}
	return 0;
}

/* Its counters come to where they were in a way that the program could have gone: it had read
 * completions up to the head of their queue. */
static int wind(const struct gck_ring_view *v, const struct gck_ring *x, const struct source *from,
		uint32_t read, struct gck_error *err)
{
	if (x->submitted - read > x->completions)
		return gck_fail(err, EINVAL, "the queue of an io_uring is damaged");
	return complete_to(v, x, from, read, true, err) ||
	       complete_to(v, x, from, x->submitted, false, err) ? -1 : 0;
}

/* A ring with a thread takes its requests itself: they end without completions, which would have to
 * be read in time. */
static int run_thread(const struct gck_ring_view *v, const struct gck_ring *x, int fd,
		      struct gck_error *err)
{
	fill_entries(v, x, (struct io_uring_sqe){.opcode = IORING_OP_NOP, .flags = NO_COMPLETION});
	__atomic_store_n(at(v, v->p.sq_off.tail), x->submitted, __ATOMIC_RELEASE);
	while (__atomic_load_n(at(v, v->p.sq_off.head), __ATOMIC_ACQUIRE) != x->submitted) {
		if (syscall(SYS_io_uring_enter, fd, 0, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0) < 0)
			return gck_fail(err, errno, "using an io_uring: %s", strerror(errno));
		usleep(LOOK_US);
	}
	return 0;
}

static int wind_thread(const struct gck_ring_view *v, const struct gck_ring *x, int fd,
		       uint32_t read, struct gck_error *err)
{
	unsigned char unused[sizeof x->offsets];
	struct source from = {.fd = gck_ring_make_like(x, unused)};
	int failed = -1;

	if (from.fd < 0 || gck_ring_map(x, from.fd, &from.v)) {
		gck_fail(err, errno, "an io_uring cannot be made: %s", strerror(errno));
	} else {
		fill_entries(&from.v, x, (struct io_uring_sqe){.opcode = MSG_RING, .fd = fd,
							       .flags = NO_COMPLETION});
		failed = run_thread(v, x, fd, err) || wind(v, x, &from, read, err);
		gck_ring_unmap(x, &from.v);
	}
	if (from.fd >= 0)
		close(from.fd);
	return failed;
}

static int wind_plain(const struct gck_ring_view *v, const struct gck_ring *x, int fd,
		      uint32_t read, struct gck_error *err)
{
	const struct source itself = {*v, fd};

	fill_entries(v, x, (struct io_uring_sqe){.opcode = IORING_OP_NOP});
	return wind(v, x, &itself, read, err);
}

/* All but the flags, which are the kernel's: its thread sets and clears one at any time. */
static void put_rings(const struct gck_ring *x, const struct gck_ring_view *v, const char *data)
{
	size_t flags = v->p.sq_off.flags, after = flags + sizeof(uint32_t);

	memcpy(v->rings, data, flags);
	memcpy(v->rings + after, data + after, rings_size(x) - after);
}

static int restore_memory(struct gck_restore *r, const struct gck_file *f, int fd,
			  struct gck_error *err)
{
	const struct gck_ring *x = f->rings;
	char *data = calloc(1, f->data_size);
	struct gck_ring_view v, to;
	uint32_t read;
	int failed;

	if (!data || gck_ring_map(x, fd, &v)) {
		free(data);
		return gck_fail(err, errno, "mapping an io_uring: %s", strerror(errno));
	}
	to = v;
	to.rings = data;
	failed = gck_restore_fill_memory(r, &f->data, f->data_size, data, "an io_uring", err);
	read = *at(&to, v.p.cq_off.head);
	failed = failed || (x->thread ? wind_thread(&v, x, fd, read, err)
				      : wind_plain(&v, x, fd, read, err));
	if (!failed) {
		put_rings(x, &v, data);
		memcpy(v.entries, data + rings_size(x), entries_size(x));
	}
	gck_ring_unmap(x, &v);
	free(data);
	return failed ? -1 : 0;
}

/* ---- at its old addresses ------------------------------------------------------------------- */

/* The kernel chooses where a ring is mapped. While the process has other memory everywhere else,
 * that is where it was. */
struct fill {
	struct gck_restore *r;
	struct gck_ranges holes;   /* where the process has nothing */
	struct gck_batch b;
};

static int run_all(struct fill *f, const char *what, struct gck_error *err)
{
	if (gck_remote_run(&f->r->remote, f->r->remote.pid, &f->b, err))
		return -1;
	for (unsigned i = 0; i < f->b.n; i++)
		if (f->b.calls[i].result < 0 && f->b.calls[i].nr != SYS_madvise)
			return gck_fail(err, (int)-f->b.calls[i].result, "%s: %s%s", what,
					strerror((int)-f->b.calls[i].result),
					f->b.calls[i].result == -ENOMEM
						? ": raise vm.max_map_count and the limit of "
						  "address space on this node" : "");
	f->b.n = 0;
	return 0;
}

static int find_holes(struct fill *f, struct gck_error *err)
{
	struct gck_maps now = {0};
	uint64_t from = LOWEST;
	int failed = gck_maps_read(f->r->proc, &now, err);

	for (size_t i = 0; i < now.n && !failed; i++) {
		const struct gck_vma *x = &now.v[i];

		if (x->start > from && x->start <= HIGHEST)
			failed = gck_ranges_add(&f->holes, from, x->start, err);
		from = x->end > from ? x->end : from;
	}
	if (from < HIGHEST && !failed)
		failed = gck_ranges_add(&f->holes, from, HIGHEST, err);
	gck_maps_free(&now);
	return failed ? -1 : 0;
}

/* Fill the holes, or empty them again. */
static int set_holes(struct fill *f, bool full, struct gck_error *err)
{
	for (size_t i = 0; i < f->holes.n; i++) {
		const struct gck_range *x = &f->holes.v[i];

		if (full)
			gck_batch_add(&f->b, SYS_mmap, x->start, x->end - x->start, PROT_NONE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
					      MAP_FIXED_NOREPLACE,
				      (uint64_t)-1, 0);
		else
			gck_batch_add(&f->b, SYS_munmap, x->start, x->end - x->start);
		if (f->b.n == GCK_REMOTE_CALLS && run_all(f, "making room", err))
			return -1;
	}
	return run_all(f, "making room", err);
}

static const struct gck_file *ring_of(const struct gck_restore *r, const struct gck_map *m)
{
	for (size_t i = 0; m->kind == GCK_MAP_RING && i < r->img->nfiles; i++)
		if (r->img->files[i].kind == GCK_FD_RING && r->img->files[i].id == m->ring)
			return &r->img->files[i];
	return NULL;
}

static int map_one(struct fill *f, const struct gck_map *m, struct gck_error *err)
{
	const struct gck_file *of = ring_of(f->r, m);
	int fd = gck_image_fd_of(f->r->img, (size_t)(of - f->r->img->files));
	unsigned mapped;

	gck_batch_add(&f->b, SYS_munmap, m->start, m->end - m->start);
	mapped = gck_batch_add(&f->b, SYS_mmap, 0, m->end - m->start, (uint64_t)m->prot, MAP_SHARED,
			       (uint64_t)fd, m->offset);
	gck_map_advise(&f->b, m);
	if (run_all(f, "mapping an io_uring", err))
		return -1;
	if (f->b.calls[mapped].result == (int64_t)m->start)
		return 0;
	return gck_fail(err, EEXIST, "an io_uring comes to %llx, and was at %llx",
			(unsigned long long)f->b.calls[mapped].result,
			(unsigned long long)m->start);
}

/* What was mapped of the holes is no hole any more. */
static int leave_out(struct fill *f, struct gck_error *err)
{
	struct gck_ranges rings = {0}, left = {0};
	int failed = 0;

	for (size_t i = 0; i < f->r->img->nmaps && !failed; i++)
		if (ring_of(f->r, &f->r->img->maps[i]))
			failed = gck_ranges_add(&rings, f->r->img->maps[i].start,
						f->r->img->maps[i].end, err);
	for (size_t i = 0; i < f->holes.n && !failed; i++) {
		uint64_t at = f->holes.v[i].start;
		struct gck_range part;

		while (!failed && gck_ranges_next_part(&rings, &at, f->holes.v[i].end, &part))
			failed = gck_ranges_add(&left, part.start, part.end, err);
	}
	free(rings.v);
	free(f->holes.v);
	f->holes = left;
	return failed;
}

static int map_all(struct gck_restore *r, struct gck_error *err)
{
	struct fill f = {.r = r};
	size_t rings = 0;
	int failed;

	for (size_t i = 0; i < r->img->nmaps; i++)
		rings += r->img->maps[i].kind == GCK_MAP_RING;
	if (!rings)
		return 0;
	failed = find_holes(&f, err) || set_holes(&f, true, err);
	for (size_t i = 0; i < r->img->nmaps && !failed; i++)
		if (r->img->maps[i].kind == GCK_MAP_RING)
			failed = map_one(&f, &r->img->maps[i], err);
	failed = failed || leave_out(&f, err) || set_holes(&f, false, err);
	free(f.holes.v);
	return failed ? -1 : 0;
}

int gck_restore_rings(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++) {
		const struct gck_file *f = &r->img->files[i];
		int there = gck_image_fd_of(r->img, (uint32_t)i), ours, failed;

		if (f->kind != GCK_FD_RING)
			continue;
		ours = gck_restore_take(r, there, err);
		if (ours < 0)
			return -1;
		failed = restore_memory(r, f, ours, err);
		close(ours);
		if (failed)
			return gck_fail_in(err, "fd %d", there);
	}
	return map_all(r, err);
}

/* Have the process register a table, which fits its scratch memory. */
static int set_table(struct gck_restore *r, int fd, unsigned what, const void *table, size_t n,
		     size_t size, struct gck_error *err)
{
	int64_t result;

	if (!n)
		return 0;
	if (gck_remote_write(&r->remote, r->remote.scratch, table, n * size, err))
		return -1;
	result = gck_remote_call(&r->remote, r->remote.pid, err, SYS_io_uring_register,
				 (uint64_t)fd, what, r->remote.scratch, n);
	return gck_remote_check(result, err, "fd %d: an io_uring's %s cannot be registered%s", fd,
				what == IORING_REGISTER_FILES ? "files" : "buffers",
				result == -ENOMEM ? ": raise the limit of locked memory" : "");
}

_Static_assert(GCK_RING_TABLE * sizeof(struct gck_ring_buffer) <= GCK_REMOTE_SCRATCH &&
	       sizeof(struct gck_ring_buffer) == sizeof(struct iovec) &&
	       sizeof(struct gck_ring_file) == sizeof(int), "as the kernel reads them");

int gck_restore_ring_tables(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nfiles; i++) {
		const struct gck_ring *x = r->img->files[i].rings;
		int fd = gck_image_fd_of(r->img, (uint32_t)i);

		if (r->img->files[i].kind == GCK_FD_RING &&
		    (set_table(r, fd, IORING_REGISTER_BUFFERS, x->buffers, x->nbuffers,
			       sizeof *x->buffers, err) ||
		     set_table(r, fd, IORING_REGISTER_FILES, x->files, x->nfiles,
			       sizeof *x->files, err)))
			return -1;
	}
	return 0;
}
