/* SPDX-License-Identifier: Apache-2.0
 * The names that inotify and fanotify watch, which the kernel forgets, are recorded in the state.
 * Names are not removed: a checkpoint finds out which are watched. */
#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/mman.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

#define CHUNK 65536u
#define CHUNKS_MAX 512u /* names beyond are not known, and refused at a checkpoint */

struct chunk {
	size_t used;
};

static struct chunk *current;
static unsigned chunks;

static struct chunk *new_chunk(void)
{
	struct chunk *c;

	if (__atomic_add_fetch(&chunks, 1, __ATOMIC_RELAXED) > CHUNKS_MAX)
		return NULL;
	c = (struct chunk *)gck_raw(SYS_mmap, 0, CHUNK, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if ((unsigned long)c >= -4095ul)
		return NULL;
	c->used = sizeof *c;
	return c;
}

/* Memory for an entry, also beside other threads and in a signal handler. NULL: none is left. */
static void *take(size_t n)
{
	for (;;) {
		struct chunk *c = __atomic_load_n(&current, __ATOMIC_ACQUIRE), *more;
		size_t at = c ? __atomic_fetch_add(&c->used, n, __ATOMIC_RELAXED) : CHUNK;

		if (at + n <= CHUNK)
			return (char *)c + at;
		more = new_chunk();
		if (!more)
			return NULL;
		if (!__atomic_compare_exchange_n(&current, &c, more, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			gck_raw(SYS_munmap, more, CHUNK);
	}
}

static uint64_t *list_of(const char *name)
{
	uint32_t hash = 2166136261u;

	while (*name)
		hash = (hash ^ (unsigned char)*name++) * 16777619u;
	return &gck_state.watched[hash % GCK_SHIM_WATCHED];
}

static void note(const char *name, size_t n)
{
	uint64_t *list = list_of(name), first = __atomic_load_n(list, __ATOMIC_ACQUIRE);
	struct gck_shim_watched *w;

	for (uint64_t at = first; at; at = w->next) {
		w = (struct gck_shim_watched *)at;
		if (w->size == n + 1 && !memcmp(w + 1, name, n))
			return;
	}
	w = take((sizeof *w + n + 8) & ~7ul);
	if (!w)
		return;
	w->size = (uint32_t)n + 1;
	memcpy(w + 1, name, n + 1);
	w->next = first;
	while (!__atomic_compare_exchange_n(list, &w->next, (uint64_t)w, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_RELAXED))
		;
}

/* The name as the kernel has it, without links and from the root. */
static void note_file(int fd)
{
	char name[PATH_MAX];
	long got = gck_read_fd_link(fd, name, sizeof name - 1);

	if (got <= 0 || name[0] != '/')
		return;
	name[got] = '\0';
	note(name, (size_t)got);
}

static void note_path(int directory, const char *path, bool follow)
{
	long fd = gck_call(SYS_openat, directory, path,
			   O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));

	if (fd < 0)
		return;
	note_file((int)fd);
	gck_raw(SYS_close, fd);
}

GCK_EXPORT int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	long wd = gck_raw(SYS_inotify_add_watch, fd, path, mask);

	if (wd >= 0)
		note_path(AT_FDCWD, path, !(mask & IN_DONT_FOLLOW));
	return gck_result(wd);
}

/* Without a path the descriptor's own file is watched. */
GCK_EXPORT int fanotify_mark(int fd, unsigned flags, uint64_t mask, int directory,
			     const char *path)
{
	long rc = gck_raw(SYS_fanotify_mark, fd, flags, mask, directory, path);

	if (rc >= 0 && flags & FAN_MARK_ADD && path)
		note_path(directory, path, !(flags & FAN_MARK_DONT_FOLLOW));
	else if (rc >= 0 && flags & FAN_MARK_ADD && directory == AT_FDCWD)
		note_path(directory, ".", true);
	else if (rc >= 0 && flags & FAN_MARK_ADD)
		note_file(directory);
	return gck_result(rc);
}
