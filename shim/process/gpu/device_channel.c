/* SPDX-License-Identifier: Apache-2.0
 * Sockets and rings for device data. */
#include "config.h"

#include "shim/process/gpu/device_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEAD offsetof(struct gck_link_data, why)
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* ---- both ends ------------------------------------------------------------------------------ */

void gck_device_drop(int fds[GCK_LINK_DATA_FDS])
{
	for (int i = 0; i < GCK_LINK_DATA_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

/* Neither end can make the other fault by cutting it. */
static int make_ring(void)
{
	int fd = memfd_create("gpuckpt-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && ftruncate(fd, (off_t)GCK_DEVICE_SLOTS * GCK_LINK_DATA_MOST) == 0 &&
	    fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int gck_device_make(struct gck_device_ends *e, struct gck_error *err)
{
	int pair[2] = {-1, -1}, ring = make_ring();

	*e = (struct gck_device_ends){.rank = {-1, ring}, .own = {-1, -1}};
	if (ring >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
		e->rank[0] = pair[0];
		e->own[0] = pair[1];
		e->own[1] = fcntl(ring, F_DUPFD_CLOEXEC, 0);
	}
	if (e->own[1] >= 0)
		return 0;
	gck_fail(err, errno, "no socket and ring for device data: %s", strerror(errno));
	gck_device_drop(e->rank);
	gck_device_drop(e->own);
	return -1;
}

/* ---- one of them ---------------------------------------------------------------------------- */

int gck_device_open(struct gck_device *d, const int fds[GCK_LINK_DATA_FDS], struct gck_error *err)
{
	struct stat st;
	void *ring;

	if (fstat(fds[1], &st))
		return gck_fail(err, errno, "the ring for device data: %s", strerror(errno));
	ring = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	if (ring == MAP_FAILED)
		return gck_fail(err, errno, "the ring for device data: %s", strerror(errno));
	*d = (struct gck_device){.socket = fds[0], .ring = ring, .size = (uint64_t)st.st_size};
	return 0;
}

void gck_device_close(struct gck_device *d)
{
	if (d->ring)
		munmap(d->ring, d->size);
	d->ring = NULL;
}

void gck_device_say(const struct gck_device *d, const struct gck_link_data *m, const char *why)
{
	struct gck_link_data x = *m;
	size_t n = why ? strnlen(why, sizeof x.why - 1) : 0;

	if (n)
		memcpy(x.why, why, n);
	if (n)
		x.why[n++] = '\0';
	while (send(d->socket, &x, HEAD + n, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static int take(const struct gck_device *d, struct gck_link_data *m, struct gck_error *err)
{
	ssize_t n;

	memset(m, 0, sizeof *m);
	n = recv(d->socket, m, sizeof *m, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return gck_fail(err, ECONNRESET, "its CUDA part went away");
	m->why[sizeof m->why - 1] = '\0';
	return n >= (ssize_t)HEAD ? 1 : gck_fail(err, EPROTO, "its CUDA part sent %zd bytes", n);
}

int gck_device_hear(const struct gck_device *d, struct gck_link_data *m, int ms, struct gck_error *err)
{
	struct pollfd p = {.fd = d->socket, .events = POLLIN};

	return poll(&p, 1, ms) > 0 ? take(d, m, err) : 0;
}
