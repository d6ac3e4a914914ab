/* SPDX-License-Identifier: Apache-2.0
 * A name is the holder, the number that it has there, and when the sockets came that lead to it. */
#define _GNU_SOURCE
#include "shim/cuda/base/fd_vault.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/cuda/base/fd_vault_thread.h"
#include "shim/cuda/base/state.h"
#include "shim/inside/descriptor.h"

#define HOLDERS 256 /* each holds RLIMIT_NOFILE - 1, which is 1023 most often */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	int fd;
	uint64_t cookie;
} ends[2] = {{-1, 0}, {-1, 0}};
static struct gck_cuda_holder *holders[HOLDERS];
static size_t nholders, first; /* all before the first one may be full */
static uint16_t pairs;         /* that there were */
static bool hooked;

static bool is_ours(int i)
{
	return ends[i].fd >= 0 && gck_inside_cookie(ends[i].fd) == ends[i].cookie;
}

static void leave_all(void)
{
	nholders = first = 0;
	pairs++;
}

static void end_all(void)
{
	for (size_t i = 0; i < nholders; i++)
		gck_cuda_holder_end(holders[i]);
	leave_all();
}

/* A child has none of the threads, and its sockets are its parent's, too. */
static void in_child(void)
{
	pthread_mutex_init(&lock, NULL);
	for (int i = 0; i < 2; i++) {
		if (is_ours(i))
			close(ends[i].fd);
		ends[i].fd = gck_cuda_state.kept_fd[i] = -1;
	}
	leave_all();
}

/* Where the program has closed one, what was kept is lost; what comes is kept by way of a new pair. */
static int begin(void)
{
	int pair[2];

	if (is_ours(0) && is_ours(1))
		return 0;
	if (!hooked && pthread_atfork(NULL, NULL, in_child))
		return -1;
	hooked = true;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	end_all();
	for (int i = 0; i < 2; i++) {
		if (is_ours(i))
			close(ends[i].fd);
		ends[i].fd = gck_cuda_state.kept_fd[i] = gck_inside_move_away(pair[i]);
		ends[i].cookie = gck_inside_cookie(ends[i].fd);
	}
	return 0;
}

static struct gck_cuda_holder *one_more(void)
{
	const int pair[2] = {ends[0].fd, ends[1].fd};

	if (nholders == HOLDERS) {
		errno = EMFILE;
		return NULL;
	}
	holders[nholders] = gck_cuda_holder_begin(pair);
	return holders[nholders] ? holders[nholders++] : NULL;
}

static uint64_t name(size_t holder, int number)
{
	return (uint64_t)pairs << 48 | (uint64_t)(holder + 1) << 32 | (uint32_t)number;
}

static uint64_t put(int fd)
{
	for (;; first++) {
		int number;

		if (first == nholders && !one_more())
			return 0;
		number = gck_cuda_holder_put(holders[first], fd);
		if (number >= 0)
			return name(first, number);
		if (errno != EMFILE)
			return 0;
	}
}

static size_t place(uint64_t of)
{
	return (size_t)(of >> 32 & 0xffff) - 1;
}

/* With the lock; NULL: it is not there. */
static struct gck_cuda_holder *holder_of(uint64_t of)
{
	size_t i = place(of);

	return of >> 48 == pairs && i < nholders && is_ours(0) && is_ours(1) ? holders[i] : NULL;
}

uint64_t gck_cuda_keep(int fd)
{
	uint64_t made;
	int why;

	pthread_mutex_lock(&lock);
	made = begin() ? 0 : put(fd);
	why = errno;
	pthread_mutex_unlock(&lock);
	close(fd);
	errno = why;
	return made;
}

int gck_cuda_keep_get(uint64_t of)
{
	struct gck_cuda_holder *h;
	int fd;

	pthread_mutex_lock(&lock);
	h = holder_of(of);
	errno = EBADF;
	fd = h ? gck_cuda_holder_get(h, (int)(uint32_t)of) : -1;
	pthread_mutex_unlock(&lock);
	return fd;
}

bool gck_cuda_keep_has(uint64_t of)
{
	bool has;

	pthread_mutex_lock(&lock);
	has = holder_of(of) != NULL;
	pthread_mutex_unlock(&lock);
	return has;
}

void gck_cuda_keep_drop(uint64_t of)
{
	struct gck_cuda_holder *h;

	pthread_mutex_lock(&lock);
	h = holder_of(of);
	if (h) {
		gck_cuda_holder_drop(h, (int)(uint32_t)of);
		first = place(of) < first ? place(of) : first;
	}
	pthread_mutex_unlock(&lock);
}

void gck_cuda_keep_forget(void)
{
	pthread_mutex_lock(&lock);
	end_all();
	ends[0].fd = ends[1].fd = -1;
	gck_cuda_state.kept_fd[0] = gck_cuda_state.kept_fd[1] = -1;
	pthread_mutex_unlock(&lock);
}
