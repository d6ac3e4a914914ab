/* SPDX-License-Identifier: Apache-2.0
 * A library with the name of libpmix, which needs the real one under another name. It reports the
 * end of its first fence to rank $LATE_RANK some seconds late, while that rank's thread goes on: as
 * on a loaded node, ranks of other nodes may have left MPI_Init long before it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LATE_S 3

typedef void done_fn(int status, void *data);
typedef int fence_fn(const void *procs, size_t nprocs, const void *info, size_t ninfo,
		     done_fn *done, void *data);

static struct {
	done_fn *done;
	void *data;
	int status;
} first;

static void *tell_late(void *unused)
{
	sleep(LATE_S);
	first.done(first.status, first.data);
	return unused;
}

static void on_first(int status, void *data)
{
	pthread_t thread;

	first.status = status;
	if (pthread_create(&thread, NULL, tell_late, NULL))
		first.done(status, first.data);
	else
		pthread_detach(thread);
	(void)data;
}

static bool is_late(void)
{
	const char *rank = getenv("PMIX_RANK"), *late = getenv("LATE_RANK");

	return rank && late && !strcmp(rank, late);
}

int PMIx_Fence_nb(const void *procs, size_t nprocs, const void *info, size_t ninfo, done_fn *done,
		  void *data)
{
	static bool seen;
	fence_fn *next = (fence_fn *)dlsym(RTLD_NEXT, "PMIx_Fence_nb");

	if (seen || !is_late())
		return next(procs, nprocs, info, ninfo, done, data);
	seen = true;
	first.done = done;
	first.data = data;
	return next(procs, nprocs, info, ninfo, on_first, NULL);
}
