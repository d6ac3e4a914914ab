/* SPDX-License-Identifier: Apache-2.0
 * A test loads this module into the namespace as a library loads its plugins. Its calls must go to
 * the root object, and it must find the library's symbols although it does not need it. */
#include "config.h"

#include "shim/namespace/test/module.h"

#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int library_answer(void);

/* Not a tail call, because the loader finds its caller by the return address. */
static void *load(const char *name)
{
	void *volatile handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);

	return handle;
}

/* ---- descriptors ---------------------------------------------------------------------------- */

static int make_fds(int *fds, int most)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} rights = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS } };
	struct iovec data = { &(char){ 0 }, 1 };
	struct msghdr m = { .msg_iov = &data, .msg_iovlen = 1, .msg_control = &rights,
			    .msg_controllen = CMSG_LEN(sizeof(int)) };
	int n = 0, pair[2];

	if (most < 12)
		return -1;
	fds[n++] = open("/dev/null", O_RDWR);
	fds[n++] = eventfd(0, 0);
	fds[n++] = memfd_create("test", 0);
	fds[n++] = dup(fds[0]);
	fds[n++] = dup2(fds[0], 200);
	fds[n++] = fcntl(fds[0], F_DUPFD, 100);
	fds[n++] = syscall(SYS_epoll_create1, 0);
	if (pipe(pair) == 0) {
		fds[n++] = pair[0];
		fds[n++] = pair[1];
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0) {
		fds[n++] = pair[0];
		fds[n++] = pair[1];
		memcpy(CMSG_DATA(&rights.head), fds, sizeof(int));
		if (sendmsg(pair[0], &m, 0) == 1 && recvmsg(pair[1], &m, 0) == 1)
			memcpy(&fds[n++], CMSG_DATA(&rights.head), sizeof(int));
	}
	return n;
}

static void close_fds(const int *fds, int n)
{
	for (int i = 0; i < n; i++)
		close(fds[i]);
}

/* ---- threads -------------------------------------------------------------------------------- */

static sem_t go;

static void *wait_for_go(void *arg)
{
	sem_wait(&go);
	return arg;
}

static void *join_other(void *other)
{
	pthread_join(*(pthread_t *)other, NULL);
	return NULL;
}

static void *map(size_t length)
{
	return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int make_thread(enum module_thread how, pthread_t *thread)
{
	static pthread_t other;
	pthread_attr_t attr;
	int r;

	pthread_attr_init(&attr);
	if (how == MODULE_DETACHED)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (how == MODULE_OWN_STACK)
		pthread_attr_setstack(&attr, map(1 << 16), 1 << 16);
	other = *thread;
	if (how == MODULE_JOINING)
		r = pthread_create(thread, &attr, join_other, &other);
	else
		r = pthread_create(thread, &attr, wait_for_go, &go);
	pthread_attr_destroy(&attr);
	return r;
}

static void let_go(void)
{
	sem_post(&go);
}

static int join_thread(pthread_t thread)
{
	void *result;

	return pthread_join(thread, &result) || result != &go ? -1 : 0;
}

/* ---- thread-specific data ------------------------------------------------------------------- */

static int destroyed;

static void destroy(void *p)
{
	__atomic_add_fetch(&destroyed, p ? 1 : 100, __ATOMIC_SEQ_CST);
}

static int make_key(unsigned int *key)
{
	return pthread_key_create(key, destroy);
}

static int destructions(void)
{
	return __atomic_load_n(&destroyed, __ATOMIC_SEQ_CST);
}

/* ---- mappings, semaphores, characters ------------------------------------------------------- */

static void *remap(void *p, size_t had, size_t length)
{
	return mremap(p, had, length, MREMAP_MAYMOVE);
}

static sem_t *open_semaphore(const char *name)
{
	return sem_open(name, O_CREAT, 0600, 1);
}

static int is_space(int c)
{
	return isspace(c) != 0;
}

__attribute__((visibility("default"))) const struct module module = {
	.ask_library = library_answer,
	.load = load,
	.make_fds = make_fds,
	.close_fds = close_fds,
	.make_thread = make_thread,
	.let_go = let_go,
	.join_thread = join_thread,
	.make_key = make_key,
	.set = pthread_setspecific,
	.get = pthread_getspecific,
	.destructions = destructions,
	.map = map,
	.remap = remap,
	.unmap = munmap,
	.open_semaphore = open_semaphore,
	.close_semaphore = sem_close,
	.is_space = is_space,
	.getenv = getenv,
	.exit = exit,
	.malloc = malloc,
	.calloc = calloc,
	.realloc = realloc,
	.memalign = aligned_alloc,
	.free = free,
};
