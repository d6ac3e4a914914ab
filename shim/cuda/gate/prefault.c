/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/gate/prefault.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>

#include "shim/cuda/gate/idle.h"

#define PART ((uint64_t)2 << 20) /* at a time: the program's own calls of mmap wait as long as
				  * this takes */
#define THREADS 12

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct warming {
	char *at;
	uint64_t size;
	int64_t end_ns;
	_Atomic uint64_t next;
};

void *gck_cuda_prefault_new(uint64_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	madvise(at, size, MADV_HUGEPAGE); /* one fault for 2 MiB, not for 4 KiB */
	return at;
}

static void *touch(void *arg)
{
	struct warming *w = arg;
	uint64_t from, n;

	while ((from = atomic_fetch_add(&w->next, PART)) < w->size &&
	       gck_cuda_now_ns() < w->end_ns) {
		n = w->size - from < PART ? w->size - from : PART;
		if (madvise(w->at + from, n, MADV_POPULATE_WRITE))
			break;
	}
	return NULL;
}

void gck_cuda_prefault(void *at, uint64_t size, int64_t end_ns)
{
	struct warming w = {.at = at, .size = size, .end_ns = end_ns};
	pthread_t threads[THREADS - 1];
	sigset_t all, before;
	int n = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (n < THREADS - 1 && (uint64_t)n < size / PART &&
	       pthread_create(&threads[n], NULL, touch, &w) == 0)
		n++;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	touch(&w);
	while (n > 0)
		pthread_join(threads[--n], NULL);
}
