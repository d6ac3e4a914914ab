/* SPDX-License-Identifier: Apache-2.0
 * libc's functions that open a descriptor internally. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Without the gate, since opening a FIFO may wait. */
static FILE *list_stream(FILE *f)
{
	if (f)
		gck_ns_fd_made(fileno(f));
	return f;
}

GCK_EXPORT FILE *fopen(const char *path, const char *mode)
{
	return list_stream(GCK_NS_NEXT(fopen)(path, mode));
}

GCK_EXPORT FILE *fopen64(const char *path, const char *mode)
{
	return list_stream(GCK_NS_NEXT(fopen64)(path, mode));
}

GCK_EXPORT FILE *freopen(const char *path, const char *mode, FILE *f)
{
	gck_ns_fd_ends(fileno(f));
	return list_stream(GCK_NS_NEXT(freopen)(path, mode, f));
}

GCK_EXPORT FILE *freopen64(const char *path, const char *mode, FILE *f)
{
	gck_ns_fd_ends(fileno(f));
	return list_stream(GCK_NS_NEXT(freopen64)(path, mode, f));
}

GCK_EXPORT FILE *tmpfile(void)
{
	return list_stream(GCK_NS_NEXT(tmpfile)());
}

GCK_EXPORT FILE *popen(const char *command, const char *mode)
{
	return list_stream(GCK_NS_NEXT(popen)(command, mode));
}

GCK_EXPORT int pclose(FILE *f)
{
	gck_ns_fd_ends(fileno(f));
	return GCK_NS_NEXT(pclose)(f);
}

GCK_EXPORT int fclose(FILE *f)
{
	int r;

	gck_ns_enter();
	gck_ns_fd_ends(fileno(f));
	r = GCK_NS_NEXT(fclose)(f);
	gck_ns_leave();
	return r;
}

static DIR *list_directory(DIR *d)
{
	if (d)
		gck_ns_fd_made(dirfd(d));
	return d;
}

GCK_EXPORT DIR *opendir(const char *path)
{
	DIR *d;

	gck_ns_enter();
	d = list_directory(GCK_NS_NEXT(opendir)(path));
	gck_ns_leave();
	return d;
}

GCK_EXPORT int closedir(DIR *d)
{
	int r;

	gck_ns_enter();
	gck_ns_fd_ends(dirfd(d));
	r = GCK_NS_NEXT(closedir)(d);
	gck_ns_leave();
	return r;
}

GCK_EXPORT int shm_open(const char *name, int flags, mode_t mode)
{
	int fd;

	gck_ns_enter();
	fd = gck_ns_fd_made(GCK_NS_NEXT(shm_open)(name, flags, mode));
	gck_ns_leave();
	return fd;
}

#define TEMPORARY(name, parameters, arguments)                               \
	GCK_EXPORT int name parameters                                       \
	{                                                                    \
		int fd;                                                      \
		gck_ns_enter();                                              \
		fd = gck_ns_fd_made(GCK_NS_NEXT(name) arguments);            \
		gck_ns_leave();                                              \
		return fd;                                                   \
	}

TEMPORARY(mkstemp, (char *path), (path))
TEMPORARY(mkstemp64, (char *path), (path))
TEMPORARY(mkostemp, (char *path, int flags), (path, flags))
TEMPORARY(mkostemp64, (char *path, int flags), (path, flags))
TEMPORARY(mkstemps, (char *path, int suffix), (path, suffix))
