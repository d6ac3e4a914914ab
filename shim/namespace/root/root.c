/* SPDX-License-Identifier: Apache-2.0
 * The root object's entry, and the loader's functions. dlopen drops three flags: RTLD_GLOBAL makes
 * glibc crash in a namespace, RTLD_DEEPBIND would hide this object, and RTLD_NODELETE would keep
 * the library from being unloaded. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/inside/path.h"

static struct gck_ns_exclusions unattached;

struct gck_ns_exclusions *gck_ns_owned(void)
{
	return gck_ns_root.owned ? gck_ns_root.owned : &unattached;
}

void *gck_ns_next(void **cache, const char *name)
{
	void *found = __atomic_load_n(cache, __ATOMIC_RELAXED);

	if (!found) {
		found = dlsym(RTLD_NEXT, name);
		__atomic_store_n(cache, found, __ATOMIC_RELAXED);
	}
	return found;
}

/* Finds a name without a slash in the search path of the calling object instead of this one's. */
static const char *located(const char *file, const void *caller, char *path, size_t size)
{
	struct link_map *map;
	Dl_info info;

	if (!file || strchr(file, '/'))
		return file;
	if (!dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) ||
	    gck_path_of(map, file, path, size, NULL) < 0)
		return file;
	return path;
}

GCK_EXPORT void *dlopen(const char *file, int mode)
{
	char path[PATH_MAX];
	void *handle;

	gck_ns_enter();
	handle = GCK_NS_NEXT(dlopen)(located(file, __builtin_return_address(0), path, sizeof path),
				     mode & ~(RTLD_GLOBAL | RTLD_DEEPBIND | RTLD_NODELETE));
	gck_ns_leave();
	return handle;
}

GCK_EXPORT int dlclose(void *handle)
{
	int r;

	gck_ns_enter();
	r = GCK_NS_NEXT(dlclose)(handle);
	gck_ns_leave();
	return r;
}

/* Calls the program's exit, with its handlers and buffers; the namespace's libc has others. */
GCK_EXPORT void exit(int status)
{
	if (gck_ns_root.host)
		gck_ns_root.host->exit(status);
	_exit(status);
}

/* Around forks of the program, and of the copy itself (popen). */
static void before_fork(void)
{
	gck_ns_fds_lock();
	gck_ns_ranges_lock();
	gck_ns_heap_lock();
}

static void after_fork(void)
{
	gck_ns_heap_unlock();
	gck_ns_ranges_unlock();
	gck_ns_fds_unlock();
}

/* Sets stdout unbuffered, because a restart would lose output of the copy in a buffer. */
static void start(void)
{
	gck_ns_root.join = GCK_NS_NEXT(pthread_join);
	pthread_atfork(before_fork, after_fork, after_fork);
	gck_ns_ranges_start();
	gck_ns_fds_start();
	gck_ns_threads_start();
	setvbuf(stdout, NULL, _IONBF, 0);
}

GCK_EXPORT struct gck_ns_root gck_ns_root = {
	.version = GCK_NS_ROOT_VERSION,
	.size = sizeof gck_ns_root,
	.start = start,
	.hold = gck_ns_hold,
	.release = gck_ns_release,
	.thread_ends = gck_ns_thread_ends,
	.enter = gck_ns_enter,
	.leave = gck_ns_leave,
	.before_fork = before_fork,
	.after_fork = after_fork,
	.free = free,
	.give_fd = gck_ns_fd_ends,
	.clearenv = clearenv,
	.setenv = setenv,
	.ctype_b = __ctype_b_loc,
	.ctype_tolower = __ctype_tolower_loc,
	.ctype_toupper = __ctype_toupper_loc,
};
