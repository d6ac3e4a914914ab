/* SPDX-License-Identifier: Apache-2.0
 * Sockets and rings for device data, and serving a restored rank from the image. */
#include "config.h"

#include "shim/process/gpu/gpu.h"

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


void gck_device_channel_drop(int fds[GCK_LINK_DATA_FDS])
{
	for (int i = 0; i < GCK_LINK_DATA_FDS; i++) {
		if (fds[i] >= 0)
			close(fds[i]);
		fds[i] = -1;
	}
}

/* The ring is sealed, so that neither end can make the other fault by truncating it. */
static int make_ring(void)
{
	int fd = memfd_create("gpuckpt-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd >= 0 && ftruncate(fd, (off_t)GCK_DEVICE_RING_SLOTS * GCK_LINK_DATA_GET_MAX) == 0 &&
	    fcntl(fd, F_ADD_SEALS, SEALS) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int gck_device_channel_make(struct gck_device_channel_ends *e, struct gck_error *err)
{
	int pair[2] = {-1, -1}, ring = make_ring();

	*e = (struct gck_device_channel_ends){.rank = {-1, ring}, .own = {-1, -1}};
	if (ring >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0) {
		e->rank[0] = pair[0];
		e->own[0] = pair[1];
		e->own[1] = fcntl(ring, F_DUPFD_CLOEXEC, 0);
	}
	if (e->own[1] >= 0)
		return 0;
	gck_fail(err, errno, "no socket and ring for device data: %s", strerror(errno));
	gck_device_channel_drop(e->rank);
	gck_device_channel_drop(e->own);
	return -1;
}


int gck_device_channel_open(struct gck_device_channel *d, const int fds[GCK_LINK_DATA_FDS],
			    struct gck_error *err)
{
	struct stat st;
	void *ring;

	if (fstat(fds[1], &st))
		return gck_fail(err, errno, "the ring for device data: %s", strerror(errno));
	ring = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
	if (ring == MAP_FAILED)
		return gck_fail(err, errno, "the ring for device data: %s", strerror(errno));
	*d = (struct gck_device_channel){.socket = fds[0], .ring = ring,
					 .size = (uint64_t)st.st_size};
	return 0;
}

void gck_device_channel_close(struct gck_device_channel *d)
{
	if (d->ring)
		munmap(d->ring, d->size);
	d->ring = NULL;
}

void gck_device_channel_send(const struct gck_device_channel *d, const struct gck_link_data *m,
			     const char *why)
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

static int take(const struct gck_device_channel *d, struct gck_link_data *m, struct gck_error *err)
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

int gck_device_channel_receive(const struct gck_device_channel *d, struct gck_link_data *m, int ms,
		    struct gck_error *err)
{
	struct pollfd p = {.fd = d->socket, .events = POLLIN};

	return poll(&p, 1, ms) > 0 ? take(d, m, err) : 0;
}

/* ---- serving a restored rank --------------------------------------------------------------- */

#define LOOK_MS 100 /* interval of checks for a cancelled restart */

struct serving {
	const struct gck_device_channel *d;
	const struct gck_page_groups *w;
	struct gck_reader *reader;
	size_t planned;              /* page groups announced to the reader */
	size_t last;                 /* the page group that `bytes` are of */
	const unsigned char *bytes;  /* NULL: none */
	struct gck_error *err;
};

static bool next_chunk(void *arg, struct gck_chunk *c)
{
	struct serving *s = arg;

	if (s->planned == s->w->rows.n)
		return false;
	*c = gck_page_groups_at(s->w, s->planned++).chunk;
	return true;
}

static int fetch(struct serving *s, size_t number, const struct gck_page_group *w)
{
	if (s->bytes && s->last == number)
		return 0;
	s->bytes = gck_reader_view(s->reader, &w->chunk, s->err);
	s->last = number;
	return s->bytes ? 0 : -1;
}

/* Copy the page group's pages between start and end to `to`, which stands for start. */
static int put_group(struct serving *s, size_t number, const struct gck_page_group *w,
		     uint64_t start, uint64_t end, unsigned char *at)
{
	const unsigned char *page;

	if (fetch(s, number, w))
		return -1;
	page = s->bytes;
	for (unsigned i = 0; i < GCK_GROUP_PAGES; i++) {
		uint64_t address = w->address + (uint64_t)i * GCK_PAGE;

		if (!(w->mask >> i & 1))
			continue;
		if (address >= start && address < end)
			memcpy(at + (address - start), page, GCK_PAGE);
		page += GCK_PAGE;
	}
	return 0;
}

static int put_range(struct serving *s, uint64_t start, uint64_t end, unsigned char *at)
{
	memset(at, 0, end - start);
	for (size_t i = gck_page_groups_find(s->w, start); i < s->w->rows.n; i++) {
		struct gck_page_group x = gck_page_groups_at(s->w, i);

		if (x.address >= end)
			break;
		if (put_group(s, i, &x, start, end, at))
			return -1;
	}
	return 0;
}

static bool is_sound(const struct gck_device_channel *d, const struct gck_link_data *m)
{
	return m->type == GCK_LINK_DATA_GET && m->size && m->size <= GCK_LINK_DATA_GET_MAX &&
	       m->address % GCK_PAGE == 0 && m->size % GCK_PAGE == 0 && m->number % GCK_PAGE == 0 &&
	       m->address < INT64_MAX && m->number <= d->size && m->size <= d->size - m->number;
}

static int serve_one(struct serving *s, const struct gck_link_data *m)
{
	struct gck_link_data answer = {.type = GCK_LINK_DATA_READY, .address = m->address,
				       .size = m->size};

	if (!is_sound(s->d, m))
		return gck_fail(s->err, EPROTO, "its CUDA part asked for %llu bytes at %llx of its "
				"device data", (unsigned long long)m->size,
				(unsigned long long)m->address);
	if (put_range(s, m->address, m->address + m->size, s->d->ring + m->number)) {
		answer.value = (uint32_t)s->err->code;
		gck_device_channel_send(s->d, &answer, s->err->text);
		return -1;
	}
	gck_device_channel_send(s->d, &answer, NULL);
	return 0;
}

/* 1: a GET came; 0: the rank needs nothing more; -1 on failure. */
static int next_request(struct serving *s, struct gck_link_data *m,
		int (*progress)(void *, uint64_t, uint64_t), void *arg, uint64_t done, uint64_t all)
{
	int rc;

	while ((rc = gck_device_channel_receive(s->d, m, LOOK_MS, s->err)) == 0)
		if (progress(arg, done, all))
			return gck_fail(s->err, ECANCELED, "the restart was cancelled");
	if (rc < 0)
		return s->err->code == ECONNRESET ? 0 : -1;
	return m->type != GCK_LINK_DATA_DONE;
}

/* A rank asks for more than the image stores: the image has no zero pages. */
int gck_device_channel_serve(const struct gck_device_channel *d, const struct gck_page_groups *w,
		     struct gck_reader *reader,
		     int (*progress)(void *, uint64_t done, uint64_t all), void *arg,
		     struct gck_error *err)
{
	struct serving s = {.d = d, .w = w, .reader = reader, .err = err};
	const uint64_t stored = gck_page_groups_bytes(w);
	uint64_t done = 0, all = stored;
	struct gck_link_data m;
	int rc;

	if (gck_reader_plan(reader, next_chunk, &s, err))
		return -1;
	while ((rc = next_request(&s, &m, progress, arg, done, all)) > 0) {
		if (serve_one(&s, &m))
			return -1;
		done += m.size;
		all = done < stored ? stored : done + 1;
		if (progress(arg, done, all))
			return gck_fail(err, ECANCELED, "the restart was cancelled");
	}
	return rc;
}
