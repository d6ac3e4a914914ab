/* SPDX-License-Identifier: Apache-2.0
 * Executing a program. In a restored process, or in a child of one, the numbers go with it, in its
 * environment (inherited_ids.c reads them). A child's program is begun without the stand-ins, whose
 * loading costs much for a short program. If it turns out to need one, it is executed again with
 * them, before any of its code has run. */
#include "config.h"

#include <alloca.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <spawn.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"
#include "shim/preload/preload.h"

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
static void without_stand_ins(const char *from, char *to)
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
}

/* The same environment with another LD_PRELOAD, in `to`. After a restart it also has the numbers,
 * for which there must be room, and this start's variables (else both are NULL). */
static list with(list envp, const char *old_preload, char *preload, char *ids,
		 const struct gck_task_variables *now, char **to)
{
	size_t n = 0;

	for (size_t i = 0; envp && envp[i]; i++) {
		if (envp[i] == old_preload)
			to[n++] = preload;
		else if (!ids || !begins(envp[i], GCK_IDS))
			to[n++] = now ? (char *)gck_task_variable(now, envp[i]) : envp[i];
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
		bool original_ = gck_is_original();                                \
		const char *old_ = (child) ? find(envp, PRELOAD) : NULL;           \
		char *preload_ = old_ ? alloca(strlen(old_) + 1) : NULL;           \
		char *ids_ = original_ ? NULL : alloca(gck_ids_size());            \
		struct gck_task_variables *now_ =                                  \
			original_ ? NULL : alloca(gck_task_variables_size());      \
                                                                                   \
		if (old_)                                                          \
			without_stand_ins(old_, preload_);                         \
		if (ids_)                                                          \
			gck_ids_write(ids_);                                       \
		if (now_)                                                          \
			gck_task_variables_write(now_);                            \
		!old_ && !ids_ ? (envp)                                            \
			       : with(envp, old_, preload_, ids_, now_,            \
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

GCK_EXPORT int gck_preload_execute(const char *path, list argv, list envp)
{
	return GCK_NEXT(execve, exec_fn *)(path, argv, ENVIRONMENT(envp, false));
}

/* ---- programs that need a stand-in --------------------------------------------------------- */

#define MPI_LIBRARY "libmpi.so.40" /* in the list of objects only while the stand-in is not */

static int is_mpi(struct dl_phdr_info *object, size_t size, void *unused)
{
	const size_t n = sizeof MPI_LIBRARY - 1, all = strlen(object->dlpi_name);

	(void)size;
	(void)unused;
	return all > n && object->dlpi_name[all - n - 1] == '/' &&
	       !strcmp(object->dlpi_name + all - n, MPI_LIBRARY);
}

/* They come last: a tool that the user has preloaded wraps the program's calls. A program that was
 * executed with them once, or that the stand-in for MPI has set aside, is left as it is. */
void gck_stand_ins_load(list argv, list envp)
{
	const char *names = find(envp, "GPUCKPT_STANDINS="), *old = find(envp, PRELOAD);
	char path[PATH_MAX], *preload;
	long n;

	names = names ? strchr(names, '=') + 1 : "";
	if (!*names || !old || strstr(old, names) || find(envp, "GPUCKPT_MPI_ASIDE="))
		return;
	if (!dl_iterate_phdr(is_mpi, NULL)) {
		gck_stand_ins_later(names);
		return;
	}
	n = gck_raw(SYS_readlink, "/proc/self/exe", path, sizeof path - 1);
	if (n <= 0)
		return;
	path[n] = '\0';
	preload = alloca(strlen(old) + strlen(names) + 2);
	stpcpy(stpcpy(stpcpy(preload, old), ":"), names);
	gck_raw(SYS_execve, path, argv,
		with(envp, old, preload, NULL, NULL,
		     alloca((count(envp) + 1) * sizeof(char *))));
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
