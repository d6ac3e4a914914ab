/* SPDX-License-Identifier: Apache-2.0
 * Executing a program. In a restored process, or in a child of one, the numbers go with it, in its
 * environment (inherited_ids.c reads them). No checkpoint is taken between the writing of that and
 * the execution. A child's program is begun without the stand-ins, whose loading costs much for a
 * short program. If it turns out to need one, it is executed again with them, before any of its
 * code has run. */
#include "config.h"

#include <alloca.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/program/program.h"
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

GCK_EACH static const char *find(list envp, const char *name)
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

/* ---- execution in progress ----------------------------------------------------------------- */

struct begun {
	volatile uint64_t mark;
	struct gck_shim_execution before;
};

static __thread struct gck_shim_execution own __attribute__((tls_model("initial-exec")));

/* A signal handler may execute a program while its thread is about to. */
static void begin_execution(struct begun *x)
{
	x->before = own;
	x->mark = GCK_SHIM_EXECUTION ^ (uint64_t)&x->mark;
	gck_state.execution_offset = (int64_t)((uint64_t)&own - (uint64_t)pthread_self());
	own.pid = (int32_t)gck_raw(SYS_getpid);
	__atomic_store_n(&own.mark, (uint64_t)&x->mark, __ATOMIC_SEQ_CST);
}

static void end_execution(const struct begun *x)
{
	own.pid = x->before.pid;
	__atomic_store_n(&own.mark, x->before.mark, __ATOMIC_SEQ_CST);
}

/* The result of a call that executes a program, or spawns one. */
#define EXECUTION(call)                   \
	({                                \
		struct begun begun_;      \
		int result_;              \
                                          \
		begin_execution(&begun_); \
		result_ = (call);         \
		end_execution(&begun_);   \
		result_;                  \
	})

/* ---- exec ---------------------------------------------------------------------------------- */

typedef int exec_fn(const char *, list, list);

/* Whether this process is no rank. */
static bool is_child(void)
{
	return !gck_state.helper_tid || !gck_is_rank();
}

#define PROGRAM GCK_PROGRAM_VARIABLE "="
#define PARENT GCK_PARENT_VARIABLE "="

/* Where gpuckpt-parent is (coordinator/parent), if this is a rank whose next program takes no
 * preload; else NULL. */
static const char *parent_of(const char *path, list argv, list envp)
{
	const char *parent = is_child() || !argv || !argv[0] ? NULL : find(envp, PARENT);

	return parent && gck_program_file_takes_no_preload(path) ? parent + sizeof PARENT - 1
								 : NULL;
}

/* gpuckpt may have been removed since the job's start: then it returns. */
static void become(const char *parent, const char *path, list argv, list envp)
{
	char *program = alloca(strlen(path) + sizeof PROGRAM), **to;
	size_t n = count(envp);

	stpcpy(stpcpy(program, PROGRAM), path);
	to = alloca((n + 2) * sizeof *to);
	memcpy(to, envp, n * sizeof *to);
	to[n] = program;
	to[n + 1] = NULL;
	GCK_NEXT(execve, exec_fn *)(parent, argv, to);
}

static int execute(const char *path, list argv, list envp)
{
	const char *parent = parent_of(path, argv, envp);

	if (parent)
		become(parent, path, argv, envp);
	return GCK_NEXT(execve, exec_fn *)(path, argv, envp);
}

GCK_EXPORT int execve(const char *path, list argv, list envp)
{
	return EXECUTION(execute(path, argv, ENVIRONMENT(envp, is_child())));
}

/* libc finds the program, unless it needs a parent. */
static int search(const char *file, list argv, list envp)
{
	char path[PATH_MAX];
	const char *parent = NULL;

	if (!is_child() && !gck_program_find(file, getenv("PATH"), path, sizeof path))
		parent = parent_of(path, argv, envp);
	if (parent)
		become(parent, path, argv, envp);
	return GCK_NEXT(execvpe, exec_fn *)(file, argv, envp);
}

GCK_EXPORT int execvpe(const char *file, list argv, list envp)
{
	return EXECUTION(search(file, argv, ENVIRONMENT(envp, is_child())));
}

GCK_EXPORT int execv(const char *path, list argv)
{
	return execve(path, argv, environ);
}

GCK_EXPORT int execvp(const char *file, list argv)
{
	return execvpe(file, argv, environ);
}

GCK_EXPORT int fexecve(int fd, list argv, list envp)
{
	return EXECUTION(GCK_NEXT(fexecve, int (*)(int, list, list))(fd, argv,
								    ENVIRONMENT(envp, is_child())));
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
	return EXECUTION(GCK_NEXT(execve, exec_fn *)(path, argv, ENVIRONMENT(envp, false)));
}

/* ---- programs that need a stand-in --------------------------------------------------------- */

/* Whether it is a library for which there is a stand-in, which is loaded by its own file name. */
GCK_EACH static int has_stand_in(struct dl_phdr_info *object, size_t size, void *unused)
{
	static char libraries[][16] GCK_AT_START = { "libmpi.so.40", "libcuda.so.1" };
	const char *slash = strrchr(object->dlpi_name, '/');
	bool has = false;

	(void)size;
	(void)unused;
	for (size_t i = 0; slash && i < sizeof libraries / sizeof *libraries; i++)
		has |= !strcmp(slash + 1, libraries[i]);
	return has;
}

/* They come last: a tool that the user has preloaded wraps the program's calls. A program that was
 * executed with them once, or that the stand-in for MPI has set aside, is left as it is. */
GCK_EACH void gck_stand_ins_load(list argv, list envp)
{
	const char *names = find(envp, GCK_START_NAME("GPUCKPT_STANDINS="));
	const char *old = find(envp, GCK_START_NAME(PRELOAD));
	char path[PATH_MAX], *preload;
	long n;

	names = names ? strchr(names, '=') + 1 : "";
	if (!*names || !old || strstr(old, names) ||
	    find(envp, GCK_START_NAME("GPUCKPT_MPI_ASIDE=")))
		return;
	if (!dl_iterate_phdr(has_stand_in, NULL)) {
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
	return EXECUTION(GCK_NEXT(posix_spawn, spawn_fn *)(pid, path, actions, how, argv,
							   ENVIRONMENT(envp, true)));
}

GCK_EXPORT int posix_spawnp(pid_t *pid, const char *file,
			    const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how,
			    list argv, list envp)
{
	return EXECUTION(GCK_NEXT(posix_spawnp, spawn_fn *)(pid, file, actions, how, argv,
							    ENVIRONMENT(envp, true)));
}
