/* SPDX-License-Identifier: Apache-2.0
 * libc's functions with a path, interposed, for paths below /proc that name a process or thread.
 * Calls with any other path go to the next library's function of that name. */
#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

/* Whether the path, or what a link there says, has numbers that are translated. */
static inline bool is_translated(const char *path)
{
	return !gck_is_original() && gck_path_has_number(path);
}

/* Whether a call of libc's with the path as the program gave it, begun in this start, may have come
 * in another one, where the path has to be translated. */
static inline bool is_stale(uint32_t start, const char *path)
{
	return !GCK_LIKELY(gck_start() == start) && gck_path_has_number(path);
}

/* ---- system calls -------------------------------------------------------------------------- */

/* Under other names in C: prototypes are variadic, and old versions have none. */
#define PATH_CALL(type, name, params, args, ...)                                     \
	type gck_##name params __asm__(#name);                                       \
	GCK_EXPORT type gck_##name params                                            \
	{                                                                            \
		if (!is_translated(path)) {                                          \
			uint32_t start = gck_start();                                \
			type r = GCK_NEXT(name, type (*) params)args;                \
                                                                                     \
			if (!is_stale(start, path))                                  \
				return r;                                            \
		}                                                                    \
		return gck_result(gck_call(__VA_ARGS__));                            \
	}

/* The same for functions that may make the file. */
#define MAKING_CALL(type, name, params, args, ...)                                   \
	type gck_##name params __asm__(#name);                                       \
	GCK_EXPORT type gck_##name params                                            \
	{                                                                            \
		if (!is_translated(path)) {                                          \
			uint32_t start = gck_start();                                \
			bool made = flags & O_CREAT && gck_made_begin(path);         \
			type r = GCK_NEXT(name, type (*) params)args;                \
                                                                                     \
			if (made && r >= 0)                                          \
				gck_made_end(path);                                  \
			if (!is_stale(start, path))                                  \
				return r;                                            \
			if (r >= 0)                                                  \
				gck_raw(SYS_close, r);                               \
		}                                                                    \
		return gck_result(gck_call(__VA_ARGS__));                            \
	}

#define OPEN(name) \
	MAKING_CALL(int, name, (const char *path, int flags, mode_t mode), (path, flags, mode), \
		    SYS_openat, AT_FDCWD, path, flags, mode)
OPEN(open)
OPEN(open64)
OPEN(__open_2)
OPEN(__open64_2)

#define OPENAT(name) \
	MAKING_CALL(int, name, (int dir, const char *path, int flags, mode_t mode), \
		    (dir, path, flags, mode), SYS_openat, dir, path, flags, mode)
OPENAT(openat)
OPENAT(openat64)
OPENAT(__openat_2)
OPENAT(__openat64_2)

#define STAT(name, flags) \
	PATH_CALL(int, name, (const char *path, struct stat *st), (path, st), SYS_newfstatat, \
		  AT_FDCWD, path, st, flags)
STAT(stat, 0)
STAT(stat64, 0)
STAT(lstat, AT_SYMLINK_NOFOLLOW)
STAT(lstat64, AT_SYMLINK_NOFOLLOW)

#define FSTATAT(name) \
	PATH_CALL(int, name, (int dir, const char *path, struct stat *st, int flags), \
		  (dir, path, st, flags), SYS_newfstatat, dir, path, st, flags)
FSTATAT(fstatat)
FSTATAT(fstatat64)
PATH_CALL(int, statx, (int dir, const char *path, int flags, unsigned mask, struct statx *st),
	  (dir, path, flags, mask, st), SYS_statx, dir, path, flags, mask, st)

/* Those of programs that were linked with a glibc before 2.33. */
#define XSTAT(name, flags) \
	PATH_CALL(int, name, (int version, const char *path, struct stat *st), \
		  (version, path, st), SYS_newfstatat, AT_FDCWD, path, st, flags)
XSTAT(__xstat, 0)
XSTAT(__xstat64, 0)
XSTAT(__lxstat, AT_SYMLINK_NOFOLLOW)
XSTAT(__lxstat64, AT_SYMLINK_NOFOLLOW)

PATH_CALL(int, access, (const char *path, int mode), (path, mode), SYS_access, path, mode)
PATH_CALL(int, faccessat, (int dir, const char *path, int mode, int flags),
	  (dir, path, mode, flags), SYS_faccessat2, dir, path, mode, flags)

#define READLINK(name, params, args) \
	PATH_CALL(ssize_t, name, params, args, SYS_readlink, path, target, size)
READLINK(readlink, (const char *path, char *target, size_t size), (path, target, size))
READLINK(readlinkat, (int dir, const char *path, char *target, size_t size),
	 (dir, path, target, size))
READLINK(__readlink_chk, (const char *path, char *target, size_t size, size_t space),
	 (path, target, size, space))
READLINK(__readlinkat_chk, (int dir, const char *path, char *target, size_t size, size_t space),
	 (dir, path, target, size, space))

/* ---- streams and directories --------------------------------------------------------------- */

/* libc opens the path, and may make the file. What it has opened by numbers of the start before is
 * closed again. */
#define OPEN_STREAM(type, name, params, args, end, makes) \
	GCK_EXPORT type name params                                                  \
	{                                                                            \
		type (*real) params = GCK_NEXT(name, type (*) params);               \
		bool made = makes && gck_made_begin(path);                           \
		const char *given = path;                                            \
		char space[GCK_PROC_PATH];                                           \
		uint32_t start;                                                      \
		type opened;                                                         \
                                                                                     \
		do {                                                                 \
			start = gck_start();                                         \
			path = is_translated(given) ? gck_path_to_kernel(given, space) \
						    : given;                         \
			opened = real args;                                          \
		} while (is_stale(start, given) && (!opened || !end(opened)));       \
		if (made && opened)                                                  \
			gck_made_end(given);                                         \
		return opened;                                                       \
	}
OPEN_STREAM(FILE *, fopen, (const char *path, const char *mode), (path, mode), fclose,
	    *mode != 'r')
OPEN_STREAM(FILE *, fopen64, (const char *path, const char *mode), (path, mode), fclose,
	    *mode != 'r')
OPEN_STREAM(DIR *, opendir, (const char *path), (path), closedir, false)

/* The entry's own name may be too short for the number. */
static struct dirent *to_program(DIR *d, struct dirent *e)
{
	static __thread struct dirent other __attribute__((tls_model("initial-exec")));
	int32_t number = e && !gck_is_original() ? gck_entry_to_program(dirfd(d), e->d_name) : 0;

	if (!number)
		return e;
	memcpy(&other, e, offsetof(struct dirent, d_name));
	other.d_reclen = sizeof other;
	snprintf(other.d_name, sizeof other.d_name, "%d", (int)number);
	return &other;
}

typedef struct dirent *readdir_fn(DIR *);

GCK_EXPORT struct dirent *readdir(DIR *d)
{
	return to_program(d, GCK_NEXT(readdir, readdir_fn *)(d));
}

struct dirent *gck_readdir64(DIR *d) __asm__("readdir64");
GCK_EXPORT struct dirent *gck_readdir64(DIR *d)
{
	return to_program(d, GCK_NEXT(readdir64, readdir_fn *)(d));
}
