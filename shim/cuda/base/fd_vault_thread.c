/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/base/fd_vault_thread.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/fd_passing.h"

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#endif

#define SOCKET 0 /* its number in the thread's table */

/* What the thread is to do. It waits for that in memory, not at a socket: in a restored process, where its
 * table is the program's again, it touches none. */
enum order { NOTHING, BEGIN, PUT, GET, DROP, END };

struct gck_cuda_holder {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum order order; /* NOTHING: done */
	int pair[2];      /* in the program's table */
	int number;       /* what the order is about; of a PUT, what came of it */
	int error;        /* of the last order; 0: none */
};

/* ---- a descriptor through the socket -------------------------------------------------------- */

static int send_one(int socket, int fd)
{
	return gck_fd_send(socket, "", 1, &fd, 1, MSG_DONTWAIT) < 0 ? -1 : 0;
}

/* Where the table is full the kernel drops it. */
static int receive_one(int socket)
{
	size_t n = 1;
	char byte;
	int fd;

	if (gck_fd_receive(socket, &byte, 1, &fd, &n, MSG_DONTWAIT) < 0)
		return -1;
	if (n)
		return fd;
	errno = EMFILE;
	return -1;
}

/* ---- the thread ----------------------------------------------------------------------------- */

/* For kernels without close_range. */
static int close_all_but_socket(void)
{
	DIR *table = opendir("/proc/thread-self/fd");
	const struct dirent *d;

	if (!table)
		return -1;
	while ((d = readdir(table))) {
		int fd = atoi(d->d_name);

		if (fd != SOCKET && fd != dirfd(table))
			close(fd);
	}
	return closedir(table);
}

/* From here on the table is the thread's own, and has the socket alone. */
static int leave_table(int socket)
{
	bool left = syscall(SYS_close_range, socket + 1, ~0u, CLOSE_RANGE_UNSHARE) == 0;

	if (!left && unshare(CLONE_FILES))
		return -1;
	if (socket != SOCKET && dup2(socket, SOCKET) < 0)
		return -1;
	return left ? (int)syscall(SYS_close_range, SOCKET + 1, ~0u, 0) : close_all_but_socket();
}

static int obey(struct gck_cuda_holder *h)
{
	switch (h->order) {
	case BEGIN:
		return leave_table(h->pair[1]);
	case PUT:
		h->number = receive_one(SOCKET);
		return h->number;
	case GET:
		return send_one(SOCKET, h->number);
	default:
		return close(h->number);
	}
}

/* An end closes nothing: the table goes with the thread, or is not its own. */
static void *run(void *arg)
{
	struct gck_cuda_holder *h = arg;

	pthread_setname_np(pthread_self(), "gpuckpt-hold");
	pthread_mutex_lock(&h->lock);
	while (h->order != END) {
		if (h->order == NOTHING) {
			pthread_cond_wait(&h->changed, &h->lock);
			continue;
		}
		h->error = obey(h) < 0 ? errno : 0;
		h->order = NOTHING;
		pthread_cond_signal(&h->changed);
	}
	pthread_mutex_unlock(&h->lock);
	free(h);
	return NULL;
}

static int start(struct gck_cuda_holder *h)
{
	sigset_t all, before;
	pthread_t thread;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, run, h);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!rc)
		pthread_detach(thread);
	return rc;
}

/* ---- its masters, one at a time ------------------------------------------------------------- */

static int order(struct gck_cuda_holder *h, enum order what, int number)
{
	pthread_mutex_lock(&h->lock);
	h->number = number;
	h->order = what;
	pthread_cond_signal(&h->changed);
	while (h->order != NOTHING)
		pthread_cond_wait(&h->changed, &h->lock);
	pthread_mutex_unlock(&h->lock);
	errno = h->error;
	return h->error ? -1 : 0;
}

struct gck_cuda_holder *gck_cuda_holder_begin(const int pair[2])
{
	struct gck_cuda_holder *h = malloc(sizeof *h);
	int rc;

	if (!h)
		return NULL;
	*h = (struct gck_cuda_holder){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER,
				      .pair = {pair[0], pair[1]}};
	rc = start(h);
	if (rc) {
		free(h);
		errno = rc;
		return NULL;
	}
	if (order(h, BEGIN, 0) == 0)
		return h;
	rc = errno;
	gck_cuda_holder_end(h);
	errno = rc;
	return NULL;
}

void gck_cuda_holder_end(struct gck_cuda_holder *h)
{
	pthread_mutex_lock(&h->lock);
	h->order = END;
	pthread_cond_signal(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

int gck_cuda_holder_put(struct gck_cuda_holder *h, int fd)
{
	return send_one(h->pair[0], fd) || order(h, PUT, -1) ? -1 : h->number;
}

int gck_cuda_holder_get(struct gck_cuda_holder *h, int number)
{
	return order(h, GET, number) ? -1 : receive_one(h->pair[0]);
}

void gck_cuda_holder_drop(struct gck_cuda_holder *h, int number)
{
	order(h, DROP, number);
}
