/* SPDX-License-Identifier: Apache-2.0
 * A descriptor's name holds the vault's index, its number in that vault, and the count of socket
 * pairs so far. */
#define _GNU_SOURCE
#include "shim/cuda/base/fd_vault.h"

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
#include "shim/cuda/base/state.h"
#include "shim/inside/descriptor.h"

/* ---- a thread with a table of its own ------------------------------------------------------- */

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#endif

#define SOCKET 0 /* its number in the thread's own table */

/* The next order to the thread. The thread waits for it in memory, not at a socket: in a
 * restored process its descriptor table is the program's again, and it must touch none of it. */
enum order { NOTHING, BEGIN, PUT, GET, DROP, END };

struct vault {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	enum order order; /* NOTHING: done */
	int pair[2];      /* in the program's descriptor table */
	int number;       /* the number that the order is about; the result of a PUT */
	int error;        /* of the last order; 0: it succeeded */
};

/* ---- passing a descriptor over the socket --------------------------------------------------- */

static int send_one(int socket, int fd)
{
	return gck_fd_send(socket, "", 1, &fd, 1, MSG_DONTWAIT) < 0 ? -1 : 0;
}

/* If the table is full the kernel drops the descriptor. */
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

/* Give the thread a descriptor table of its own that holds the socket alone. */
static int leave_table(int socket)
{
	bool left = syscall(SYS_close_range, socket + 1, ~0u, CLOSE_RANGE_UNSHARE) == 0;

	if (!left && unshare(CLONE_FILES))
		return -1;
	if (socket != SOCKET && dup2(socket, SOCKET) < 0)
		return -1;
	return left ? (int)syscall(SYS_close_range, SOCKET + 1, ~0u, 0) : close_all_but_socket();
}

static int obey(struct vault *h)
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

/* END closes nothing: the table ends with the thread, or is the program's in a restored process. */
static void *run(void *arg)
{
	struct vault *h = arg;

	pthread_setname_np(pthread_self(), GCK_CUDA_VAULT_THREAD);
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

static int start(struct vault *h)
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

/* ---- orders, one at a time ------------------------------------------------------------------ */

static int order(struct vault *h, enum order what, int number)
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

static void vault_end(struct vault *h);

static struct vault *vault_begin(const int pair[2])
{
	struct vault *h = malloc(sizeof *h);
	int rc;

	if (!h)
		return NULL;
	*h = (struct vault){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER,
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
	vault_end(h);
	errno = rc;
	return NULL;
}

static void vault_end(struct vault *h)
{
	pthread_mutex_lock(&h->lock);
	h->order = END;
	pthread_cond_signal(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

static int vault_put(struct vault *h, int fd)
{
	return send_one(h->pair[0], fd) || order(h, PUT, -1) ? -1 : h->number;
}

static int vault_get(struct vault *h, int number)
{
	return order(h, GET, number) ? -1 : receive_one(h->pair[0]);
}

static void vault_drop(struct vault *h, int number)
{
	order(h, DROP, number);
}

/* ---- the vault ------------------------------------------------------------------------------ */

#define VAULTS 256 /* each holds RLIMIT_NOFILE - 1 descriptors, mostly 1023 */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	int fd;
	uint64_t cookie;
} ends[2] = {{-1, 0}, {-1, 0}};
static struct vault *vaults[VAULTS];
static size_t nvaults, first; /* all vaults before `first` may be full */
static uint16_t pairs;         /* socket pairs made so far */
static bool hooked;

static bool is_ours(int i)
{
	return ends[i].fd >= 0 && gck_inside_cookie(ends[i].fd) == ends[i].cookie;
}

static void leave_all(void)
{
	nvaults = first = 0;
	pairs++;
}

static void end_all(void)
{
	for (size_t i = 0; i < nvaults; i++)
		vault_end(vaults[i]);
	leave_all();
}

/* A child has none of the threads, and shares the sockets with its parent. */
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

/* Make a new pair if the program closed one of the sockets: what was kept is lost then. */
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

static struct vault *one_more(void)
{
	const int pair[2] = {ends[0].fd, ends[1].fd};

	if (nvaults == VAULTS) {
		errno = EMFILE;
		return NULL;
	}
	vaults[nvaults] = vault_begin(pair);
	return vaults[nvaults] ? vaults[nvaults++] : NULL;
}

static uint64_t name(size_t vault, int number)
{
	return (uint64_t)pairs << 48 | (uint64_t)(vault + 1) << 32 | (uint32_t)number;
}

static uint64_t put(int fd)
{
	for (;; first++) {
		int number;

		if (first == nvaults && !one_more())
			return 0;
		number = vault_put(vaults[first], fd);
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

/* NULL: that descriptor is no longer kept. Call with the lock held. */
static struct vault *vault_of(uint64_t of)
{
	size_t i = place(of);

	return of >> 48 == pairs && i < nvaults && is_ours(0) && is_ours(1) ? vaults[i] : NULL;
}

uint64_t gck_cuda_vault_put(int fd)
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

int gck_cuda_vault_get(uint64_t of)
{
	struct vault *h;
	int fd;

	pthread_mutex_lock(&lock);
	h = vault_of(of);
	errno = EBADF;
	fd = h ? vault_get(h, (int)(uint32_t)of) : -1;
	pthread_mutex_unlock(&lock);
	return fd;
}

bool gck_cuda_vault_has(uint64_t of)
{
	bool has;

	pthread_mutex_lock(&lock);
	has = vault_of(of) != NULL;
	pthread_mutex_unlock(&lock);
	return has;
}

void gck_cuda_vault_drop(uint64_t of)
{
	struct vault *h;

	pthread_mutex_lock(&lock);
	h = vault_of(of);
	if (h) {
		vault_drop(h, (int)(uint32_t)of);
		first = place(of) < first ? place(of) : first;
	}
	pthread_mutex_unlock(&lock);
}

void gck_cuda_vault_forget(void)
{
	pthread_mutex_lock(&lock);
	end_all();
	ends[0].fd = ends[1].fd = -1;
	gck_cuda_state.kept_fd[0] = gck_cuda_state.kept_fd[1] = -1;
	pthread_mutex_unlock(&lock);
}
