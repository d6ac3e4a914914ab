/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/process/test/tree_ring.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct ring {
	int fd;
	char *queues;
	struct io_uring_sqe *entry;
	struct io_uring_params p;
	size_t size;
};

static uint32_t *at(const struct ring *r, uint32_t offset)
{
	return (uint32_t *)(void *)(r->queues + offset);
}

static int begin(struct ring *r)
{
	*r = (struct ring){.queues = MAP_FAILED, .entry = MAP_FAILED};
	r->fd = (int)syscall(SYS_io_uring_setup, 1, &r->p);
	if (r->fd < 0)
		return -1;
	r->size = r->p.sq_off.array + r->p.sq_entries * sizeof(uint32_t);
	r->queues = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd,
			 IORING_OFF_SQ_RING);
	r->entry = mmap(NULL, sizeof *r->entry, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd,
			IORING_OFF_SQES);
	return r->queues == MAP_FAILED || r->entry == MAP_FAILED ? -1 : 0;
}

/* Leaves errno. */
static void end(const struct ring *r)
{
	int error = errno;

	if (r->entry != MAP_FAILED)
		munmap(r->entry, sizeof *r->entry);
	if (r->queues != MAP_FAILED)
		munmap(r->queues, r->size);
	if (r->fd >= 0)
		close(r->fd);
	errno = error;
}

/* A signal may come first. */
static int enter(const struct ring *r, unsigned submit, unsigned wait)
{
	long done;

	do
		done = syscall(SYS_io_uring_enter, r->fd, submit, wait,
			       wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0);
	while (done < 0 && errno == EINTR);
	return done == submit ? 0 : -1;
}

static void pause_for(long us)
{
	nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

ssize_t tree_ring_transfer(int fd, void *data, size_t n, bool writes, long pause_us)
{
	const struct io_uring_cqe *result;
	ssize_t done = -1;
	struct ring r;

	if (begin(&r)) {
		end(&r);
		return -1;
	}
	*r.entry = (struct io_uring_sqe){.opcode = writes ? IORING_OP_WRITE : IORING_OP_READ,
					 .fd = fd, .addr = (uint64_t)(uintptr_t)data,
					 .len = (uint32_t)n, .off = UINT64_MAX, .user_data = n};
	*at(&r, r.p.sq_off.array) = 0;
	pause_for(pause_us);
	__atomic_store_n(at(&r, r.p.sq_off.tail), 1, __ATOMIC_RELEASE);
	if (!enter(&r, 1, 0)) {
		pause_for(pause_us);
		result = (const void *)(r.queues + r.p.cq_off.cqes);
		errno = EPROTO;
		if (!enter(&r, 0, 1) && *at(&r, r.p.cq_off.tail) == 1 && result->user_data == n) {
			done = result->res < 0 ? -1 : result->res;
			errno = result->res < 0 ? -result->res : 0;
		}
	}
	end(&r);
	return done;
}
