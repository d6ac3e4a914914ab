/* SPDX-License-Identifier: Apache-2.0
 * Executing a program. In a restored process, or in a child of one, the numbers go with it, in its
 * environment (inherited_ids.c reads them). A child's program does without the stand-ins, which
 * serve ranks only, and whose loading costs much for a short program. */
#include "config.h"

#include <alloca.h>
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

typedef char *const *list;

static size_t count(list v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

/* ---- the environment ----------------------------------------------------------------------- */

#define PRELOAD "LD_PRELOAD="
#define OURS "libgpuckpt-"
#define SEPARATORS ": "

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static const char *find(list envp, const char *name)
{
	for (; envp && *envp; envp++)
		if (begins(*envp, name))
			return *envp;
	return NULL;
}

/* Whether it is a library of ours other than the preload. */
static bool is_stand_in(const char *path, size_t n)
{
	const char *name = path + n;

	while (name > path && name[-1] != '/')
		name--;
	return begins(name, OURS) && !begins(name, OURS "preload");
}

/* Copy LD_PRELOAD without the stand-ins. */
static char *without_stand_ins(const char *from, char *to)
{
	char *end = to + sizeof PRELOAD - 1, *begin = end;

	memcpy(to, PRELOAD, sizeof PRELOAD - 1);
	from += sizeof PRELOAD - 1;
	while (*from) {
		size_t n = strcspn(from, SEPARATORS), all = n + strspn(from + n, SEPARATORS);

		if (!is_stand_in(from, n)) {
			memcpy(end, from, all);
			end += all;
		}
		from += all;
	}
	while (end > begin && strchr(SEPARATORS, end[-1]))
		end--;
	*end = '\0';
	return to;
}

/* The same environment with this variable (NULL: as it is there) and another LD_PRELOAD, in `to`,
 * which has room for one more. */
static list with(list envp, char *ids, const char *old_preload, char *preload, char **to)
{
	size_t n = 0;

	for (size_t i = 0; envp && envp[i]; i++) {
		if (envp[i] == old_preload)
			to[n++] = preload;
		else if (!ids || !begins(envp[i], GCK_IDS))
			to[n++] = envp[i];
	}
	if (ids)
		to[n++] = ids;
	to[n] = NULL;
	return to;
}

/* Lies on the caller's stack: a child by vfork() must change nothing else, and a signal handler may
 * execute a program. */
#define ENVIRONMENT(envp, child)                                                   \
	({                                                                         \
		const char *old_ = (child) ? find(envp, PRELOAD) : NULL;           \
		char *preload_ = old_ ? alloca(strlen(old_) + 1) : NULL;           \
		char *ids_ = gck_is_original() ? NULL : alloca(gck_ids_size());    \
                                                                                   \
		!old_ && !ids_ ? (envp)                                            \
			       : with(envp, ids_ ? gck_ids_write(ids_) : NULL, old_, \
				      old_ ? without_stand_ins(old_, preload_) : NULL, \
				      alloca((count(envp) + 2) * sizeof(char *))); \
	})

/* ---- exec ---------------------------------------------------------------------------------- */

typedef int exec_fn(const char *, list, list);

/* Whether this process is no rank. */
static bool is_child(void)
{
	return !gck_state.helper_tid || !gck_is_rank();
}

GCK_EXPORT int execve(const char *path, list argv, list envp)
{
	return GCK_NEXT(execve, exec_fn *)(path, argv, ENVIRONMENT(envp, is_child()));
}

GCK_EXPORT int execvpe(const char *file, list argv, list envp)
{
	return GCK_NEXT(execvpe, exec_fn *)(file, argv, ENVIRONMENT(envp, is_child()));
}

GCK_EXPORT int execv(const char *path, list argv)
{
	if (gck_is_original() && !is_child())
		return GCK_NEXT(execv, int (*)(const char *, list))(path, argv);
	return execve(path, argv, environ);
}

GCK_EXPORT int execvp(const char *file, list argv)
{
	if (gck_is_original() && !is_child())
		return GCK_NEXT(execvp, int (*)(const char *, list))(file, argv);
	return execvpe(file, argv, environ);
}

GCK_EXPORT int fexecve(int fd, list argv, list envp)
{
	return GCK_NEXT(fexecve, int (*)(int, list, list))(fd, argv, ENVIRONMENT(envp, is_child()));
}

static size_t count_arguments(va_list from)
{
	va_list v;
	size_t n = 1;

	va_copy(v, from);
	while (va_arg(v, char *))
		n++;
	va_end(v);
	return n;
}

static void take_arguments(char **argv, const char *first, size_t n, va_list *from)
{
	argv[0] = (char *)first;
	for (size_t i = 1; i <= n; i++)
		argv[i] = va_arg(*from, char *);
}

/* argv gets the arguments, which end with NULL. */
#define TAKE_ARGUMENTS(argv, first)                                                \
	va_list v;                                                                 \
	char **argv;                                                               \
	size_t n;                                                                  \
                                                                                   \
	va_start(v, first);                                                        \
	n = count_arguments(v);                                                    \
	argv = alloca((n + 1) * sizeof *argv);                                     \
	take_arguments(argv, first, n, &v)

GCK_EXPORT int execl(const char *path, const char *first, ...)
{
	TAKE_ARGUMENTS(argv, first);
	va_end(v);
	return execve(path, argv, environ);
}

GCK_EXPORT int execlp(const char *file, const char *first, ...)
{
	TAKE_ARGUMENTS(argv, first);
	va_end(v);
	return execvpe(file, argv, environ);
}

GCK_EXPORT int execle(const char *path, const char *first, ...)
{
	list envp;

	TAKE_ARGUMENTS(argv, first);
	envp = va_arg(v, char **);
	va_end(v);
	return execve(path, argv, envp);
}

/* ---- spawn --------------------------------------------------------------------------------- */

typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *,
		     const posix_spawnattr_t *, list, list);

GCK_EXPORT int posix_spawn(pid_t *pid, const char *path,
			   const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
			   list argv, list envp)
{
	return GCK_NEXT(posix_spawn, spawn_fn *)(pid, path, actions, how, argv,
						     ENVIRONMENT(envp, true));
}

GCK_EXPORT int posix_spawnp(pid_t *pid, const char *file,
			    const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
			    list argv, list envp)
{
	return GCK_NEXT(posix_spawnp, spawn_fn *)(pid, file, actions, how, argv,
						      ENVIRONMENT(envp, true));
}
