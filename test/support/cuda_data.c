/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "test/support/cuda_data.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HASHES 8192 /* offset in the ring */
#define SLOTS (CUDA_DATA_RING / GCK_LINK_DATA_GET_MAX)

void cuda_data_open(struct cuda_data *d)
{
	int pair[2];

	*d = (struct cuda_data){.ring_fd = memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) ||
	    ftruncate(d->ring_fd, CUDA_DATA_RING) ||
	    fcntl(d->ring_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		err(99, "a ring");
	d->fd = pair[0];
	d->rank_fd = pair[1];
	d->ring = mmap(NULL, CUDA_DATA_RING, PROT_READ | PROT_WRITE, MAP_SHARED, d->ring_fd, 0);
}

static void drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void cuda_data_close(struct cuda_data *d)
{
	drop(&d->fd);
	drop(&d->rank_fd);
	drop(&d->ring_fd);
	if (d->ring)
		munmap(d->ring, CUDA_DATA_RING);
	d->ring = NULL;
}

void cuda_data_free(struct cuda_data *d)
{
	cuda_data_close(d);
	for (size_t i = 0; i < d->n; i++)
		free(d->v[i].bytes);
	free(d->v);
	d->v = NULL;
	d->n = 0;
}

void cuda_data_give(struct cuda_data *d, const struct cuda_link *c, uint32_t type, uint64_t seq)
{
	struct gck_thread_msg m = {.type = type, .seq = seq};
	struct iovec v = {&m, offsetof(struct gck_thread_msg, data)};
	int fds[] = {d->rank_fd, d->ring_fd};
	union {
		struct cmsghdr h;
		char space[CMSG_SPACE(sizeof fds)];
	} control = {.h = {CMSG_LEN(sizeof fds), SOL_SOCKET, SCM_RIGHTS}};
	struct msghdr h = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control,
			   .msg_controllen = sizeof control};

	memcpy(CMSG_DATA(&control.h), fds, sizeof fds);
	sendmsg(c->fd, &h, MSG_NOSIGNAL);
	drop(&d->rank_fd);
	drop(&d->ring_fd);
}

void cuda_data_send(const struct cuda_data *d, uint32_t type, uint64_t address, uint64_t size,
		    uint64_t number)
{
	struct gck_link_data m = {.type = type, .address = address, .size = size, .number = number};

	send(d->fd, &m, offsetof(struct gck_link_data, why), MSG_NOSIGNAL);
}

bool cuda_data_taken(const struct cuda_data *d)
{
	int left = 1;

	for (int ms = 0; ms < WAIT_MS && left; ms += 5) {
		pause_ms(5);
		if (ioctl(d->fd, SIOCOUTQ, &left))
			return false;
	}
	return !left;
}

bool cuda_data_receive(const struct cuda_data *d, struct gck_link_data *m)
{
	struct pollfd p = {.fd = d->fd, .events = POLLIN};

	memset(m, 0, sizeof *m);
	return poll(&p, 1, WAIT_MS) == 1 &&
	       recv(d->fd, m, sizeof *m, 0) >= (ssize_t)offsetof(struct gck_link_data, why);
}

static bool good(struct cuda_data *d, const struct gck_link_data *m)
{
	d->value = m->value;
	memcpy(d->why, m->why, sizeof d->why);
	return !m->value;
}

bool cuda_data_list(struct cuda_data *d)
{
	struct gck_link_data m;

	cuda_data_send(d, GCK_LINK_DATA_LIST, 0, 0, 0);
	while (cuda_data_receive(d, &m) && m.type == GCK_LINK_DATA_PIECE) {
		d->v = realloc(d->v, (d->n + 1) * sizeof *d->v);
		d->v[d->n++] = (struct cuda_piece){.address = m.address, .size = m.size};
	}
	return m.type == GCK_LINK_DATA_END && good(d, &m);
}

uint64_t cuda_data_bytes(const struct cuda_data *d)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < d->n; i++)
		bytes += d->v[i].size;
	return bytes;
}

/* Answer in parts of odd sizes while slots are free. */
bool cuda_data_read_piece(struct cuda_data *d, struct cuda_piece *p)
{
	const uint64_t part = GCK_LINK_DATA_GET_MAX - 4096;
	uint64_t asked = 0, have = 0;
	struct gck_link_data m;

	p->bytes = malloc(p->size);
	while (have < p->size) {
		uint64_t n = p->size - asked < part ? p->size - asked : part;

		if (n && asked - have < (SLOTS - 1) * part) {
			cuda_data_send(d, GCK_LINK_DATA_GET, p->address + asked, n,
				       asked / part % SLOTS * GCK_LINK_DATA_GET_MAX + 4096);
			asked += n;
			continue;
		}
		if (!cuda_data_receive(d, &m) || m.type != GCK_LINK_DATA_READY || !good(d, &m) ||
		    m.address != p->address + have)
			return false;
		memcpy(p->bytes + have,
		       d->ring + have / part % SLOTS * GCK_LINK_DATA_GET_MAX + 4096, m.size);
		have += m.size;
	}
	return true;
}

bool cuda_data_hashes_as(struct cuda_data *d, const struct cuda_piece *p, uint64_t skip,
			 uint64_t size)
{
	uint64_t at = p->address + skip, end = at + size, next;
	const uint64_t *hash = (void *)(d->ring + HASHES);
	struct gck_link_data m;

	cuda_data_send(d, GCK_LINK_DATA_HASH, at, size, HASHES);
	if (!cuda_data_receive(d, &m) || m.type != GCK_LINK_DATA_READY || !good(d, &m) ||
	    m.address != at)
		return false;
	for (; at < end; at = next, hash += 2) {
		XXH128_hash_t h;

		next = (at / GCK_LINK_DATA_PAGE_GROUP + 1) * GCK_LINK_DATA_PAGE_GROUP;
		next = next < end ? next : end;
		h = XXH3_128bits(p->bytes + (at - p->address), next - at);
		if (hash[0] != h.high64 || hash[1] != h.low64)
			return false;
	}
	return true;
}

bool cuda_data_read(struct cuda_data *d)
{
	for (size_t i = 0; i < d->n; i++) {
		if (!cuda_data_read_piece(d, &d->v[i]))
			return false;
	}
	cuda_data_send(d, GCK_LINK_DATA_DONE, 0, 0, 0);
	return true;
}

static bool copy_out(const struct cuda_data *from, const struct gck_link_data *m, unsigned char *to)
{
	for (size_t i = 0; i < from->n; i++) {
		const struct cuda_piece *p = &from->v[i];

		if (m->address >= p->address && m->address + m->size <= p->address + p->size) {
			memcpy(to, p->bytes + (m->address - p->address), m->size);
			return true;
		}
	}
	return false;
}

bool cuda_data_fill(const struct cuda_data *from, struct cuda_data *over, unsigned most)
{
	struct gck_link_data m;

	while (cuda_data_receive(over, &m)) {
		if (m.type == GCK_LINK_DATA_DONE)
			return true;
		if (!most--)
			return false;
		m.type = GCK_LINK_DATA_READY;
		if (!copy_out(from, &m, over->ring + m.number))
			m.value = EIO;
		send(over->fd, &m, sizeof m, MSG_NOSIGNAL);
	}
	return false;
}

/* 0: equal; 1: not equal; -1: the process may not read there. */
static int differs(pid_t pid, const struct cuda_piece *p)
{
	unsigned char *now = malloc(p->size);
	struct iovec local = {now, p->size}, remote = {(void *)(uintptr_t)p->address, p->size};
	int rc = -1;

	if (process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)p->size)
		rc = memcmp(now, p->bytes, p->size) != 0;
	free(now);
	return rc;
}

bool cuda_data_is_of(const struct cuda_data *d, pid_t pid)
{
	size_t same = 0;

	for (size_t i = 0; i < d->n; i++) {
		int rc = differs(pid, &d->v[i]);

		if (rc > 0)
			return false;
		same += rc == 0;
	}
	return same || !d->n;
}
