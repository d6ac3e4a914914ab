/* SPDX-License-Identifier: Apache-2.0
 * Executing a program in a restored process, or in a child of one: the numbers go with it, in its
 * environment (inherited_ids.c reads them). */
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

/* The same environment with this variable, in `to`, which has room for one more. */
static list with(list envp, char *variable, char **to)
{
	size_t n = 0;

	for (size_t i = 0; envp && envp[i]; i++)
		if (strncmp(envp[i], GCK_IDS, sizeof GCK_IDS - 1))
			to[n++] = envp[i];
	to[n++] = variable;
	to[n] = NULL;
	return to;
}

/* Lies on the caller's stack: a child by vfork() must change nothing else, and a signal handler may
 * execute a program. */
#define WITH_IDS(envp)                                                             \
	(gck_is_original() ? (envp)                                                \
			   : with(envp, gck_ids_write(alloca(gck_ids_size())),     \
				  alloca((count(envp) + 2) * sizeof(char *))))

/* ---- exec ---------------------------------------------------------------------------------- */

typedef int exec_fn(const char *, list, list);

GCK_EXPORT int execve(const char *path, list argv, list envp)
{
	return GCK_NEXT(execve, exec_fn *)(path, argv, WITH_IDS(envp));
}

GCK_EXPORT int execvpe(const char *file, list argv, list envp)
{
	return GCK_NEXT(execvpe, exec_fn *)(file, argv, WITH_IDS(envp));
}

GCK_EXPORT int execv(const char *path, list argv)
{
	if (gck_is_original())
		return GCK_NEXT(execv, int (*)(const char *, list))(path, argv);
	return execve(path, argv, environ);
}

GCK_EXPORT int execvp(const char *file, list argv)
{
	if (gck_is_original())
		return GCK_NEXT(execvp, int (*)(const char *, list))(file, argv);
	return execvpe(file, argv, environ);
}

GCK_EXPORT int fexecve(int fd, list argv, list envp)
{
	return GCK_NEXT(fexecve, int (*)(int, list, list))(fd, argv, WITH_IDS(envp));
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
	return GCK_NEXT(posix_spawn, spawn_fn *)(pid, path, actions, how, argv, WITH_IDS(envp));
}

GCK_EXPORT int posix_spawnp(pid_t *pid, const char *file,
			    const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
			    list argv, list envp)
{
	return GCK_NEXT(posix_spawnp, spawn_fn *)(pid, file, actions, how, argv, WITH_IDS(envp));
}
