/* SPDX-License-Identifier: Apache-2.0
 * Names of files below /dev/shm that this process has made are recorded in the state: a program may
 * close one and open it later by its name, also in another process (joblib's arrays,
 * shared_memory). */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

#define SHM "/dev/shm/"
#define WAYS 16 /* places that a name may have */

static struct gck_shim_made table[GCK_SHIM_MADE];

static bool exists(const char *path)
{
	return gck_raw(SYS_faccessat, AT_FDCWD, path, F_OK) != -ENOENT;
}

bool gck_made_begin(const char *path)
{
	return gck_is_memory(path, sizeof SHM) && !strncmp(path, SHM, sizeof SHM - 1) &&
	       strlen(path) < sizeof SHM - 1 + sizeof table[0].name && !exists(path);
}

static bool is_gone(const struct gck_shim_made *m)
{
	char path[sizeof SHM + sizeof m->name] = SHM;

	memcpy(path + sizeof SHM - 1, m->name, sizeof m->name);
	return !exists(path);
}

/* The place is this name's if it was free, or its own file is gone. */
static bool put(struct gck_shim_made *m, const char *name)
{
	uint32_t now = __atomic_load_n(&m->state, __ATOMIC_ACQUIRE);

	if (now == GCK_MADE_BUSY || (now == GCK_MADE_KNOWN && !is_gone(m)) ||
	    !__atomic_compare_exchange_n(&m->state, &now, GCK_MADE_BUSY, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return false;
	strcpy(m->name, name);
	__atomic_store_n(&m->state, GCK_MADE_KNOWN, __ATOMIC_RELEASE);
	return true;
}

void gck_made_end(const char *path)
{
	const char *name = path + sizeof SHM - 1;
	uint32_t hash = 2166136261u;

	for (const char *at = name; *at; at++)
		hash = (hash ^ (unsigned char)*at) * 16777619u;
	gck_state.made = (uint64_t)table;
	for (uint32_t i = 0; i < WAYS; i++)
		if (put(&table[(hash + i) % GCK_SHIM_MADE], name))
			return;
}

/* ---- libc's functions that make files but do not open() them there --------------------------- */

GCK_EXPORT int shm_open(const char *name, int flags, mode_t mode)
{
	char path[sizeof SHM + sizeof table[0].name] = "";
	bool made = false;
	int fd;

	if (flags & O_CREAT && gck_is_memory(name, 1) &&
	    strlen(name) < sizeof table[0].name) {
		strcpy(path, SHM);
		strcat(path, name + strspn(name, "/"));
		made = gck_made_begin(path);
	}
	fd = GCK_NEXT(shm_open, int (*)(const char *, int, mode_t))(name, flags, mode);
	if (fd >= 0 && made)
		gck_made_end(path);
	return fd;
}

#define CREAT(function) \
	int gck_##function(const char *path, mode_t mode) __asm__(#function);        \
	GCK_EXPORT int gck_##function(const char *path, mode_t mode)                 \
	{                                                                            \
		bool made = gck_made_begin(path);                                    \
		int fd = GCK_NEXT(function, int (*)(const char *, mode_t))(path, mode); \
                                                                                     \
		if (fd >= 0 && made)                                                 \
			gck_made_end(path);                                          \
		return fd;                                                           \
	}
CREAT(creat)
CREAT(creat64)
