/* SPDX-License-Identifier: Apache-2.0
 * What the library asks about processes. The program knows its own by numbers that the kernel has
 * given to others since a restart, and so must the library, which tells the program some of them
 * and gets others from it. The preload's functions translate them; the namespace's libc, which the
 * preload does not reach, would not. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/cuda/apart/apart.h"
#include "shim/cuda/dispatch/dispatch.h"
#include "shim/preload/preload.h"

#define OWN_PATH 128

/* The namespace's functions, which list what they open. */
static struct {
	int *(*errno_location)(void);
	DIR *(*opendir)(const char *path);
	FILE *(*fopen)(const char *path, const char *mode);
	int (*open)(const char *path, int flags, ...);
	int (*stat)(const char *path, struct stat *about);
	long (*syscall)(long nr, ...);
} inner;

/* The program's libc has set its errno; the library reads the other one. */
static long passed(long r)
{
	if (r == -1)
		*inner.errno_location() = errno;
	return r;
}

/* ---- processes and threads ------------------------------------------------------------------- */

static int led_kill(pid_t pid, int sig)
{
	return (int)passed(kill(pid, sig));
}

static pid_t led_waitpid(pid_t pid, int *status, int options)
{
	return (pid_t)passed(waitpid(pid, status, options));
}

/* The name of its socket has its number, and the preload adds what no other process has. */
static int led_bind(int fd, const struct sockaddr *address, socklen_t length)
{
	return (int)passed(bind(fd, address, length));
}

static bool is_about_processes(long nr)
{
	switch (nr) {
	case SYS_getpid:
	case SYS_getppid:
	case SYS_gettid:
	case SYS_kill:
	case SYS_tkill:
	case SYS_tgkill:
	case SYS_rt_sigqueueinfo:
	case SYS_rt_tgsigqueueinfo:
	case SYS_wait4:
	case SYS_waitid:
	case SYS_sched_setaffinity:
	case SYS_sched_getaffinity:
	case SYS_sched_setscheduler:
	case SYS_sched_getscheduler:
	case SYS_sched_setparam:
	case SYS_sched_getparam:
	case SYS_getpriority:
	case SYS_setpriority:
	case SYS_prlimit64:
	case SYS_process_vm_readv:
	case SYS_process_vm_writev:
	case SYS_prctl:
		return true;
	default:
		return false;
	}
}

/* The namespace's lists what others map and open. */
static long led_syscall(long nr, ...)
{
	long a[6];
	va_list rest;

	va_start(rest, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(rest, long);
	va_end(rest);
	if (is_about_processes(nr))
		return passed(syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]));
	return inner.syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- its own folder of /proc ----------------------------------------------------------------- */

static const char *own_path(const char *path, char space[OWN_PATH])
{
	size_t n = (size_t)snprintf(space, OWN_PATH, "/proc/%d", (int)getpid());

	if (strncmp(path, space, n) || (path[n] && path[n] != '/') ||
	    strlen(path + n) > OWN_PATH / 2)
		return path;
	snprintf(space, OWN_PATH, "/proc/self%s", path + n);
	return space;
}

static DIR *led_opendir(const char *path)
{
	char space[OWN_PATH];

	return inner.opendir(own_path(path, space));
}

static FILE *led_fopen(const char *path, const char *mode)
{
	char space[OWN_PATH];

	return inner.fopen(own_path(path, space), mode);
}

static int led_open(const char *path, int flags, ...)
{
	char space[OWN_PATH];
	va_list rest;
	int mode;

	va_start(rest, flags);
	mode = va_arg(rest, int);
	va_end(rest);
	return inner.open(own_path(path, space), flags, mode);
}

static int led_stat(const char *path, struct stat *about)
{
	char space[OWN_PATH];

	return inner.stat(own_path(path, space), about);
}

/* ---------------------------------------------------------------------------------------------- */

static void find_inner(void)
{
	void *root = gck_namespace.root_handle;

	*(void **)&inner.errno_location = dlsym(root, "__errno_location");
	*(void **)&inner.opendir = dlsym(root, "opendir");
	*(void **)&inner.fopen = dlsym(root, "fopen");
	*(void **)&inner.open = dlsym(root, "open");
	*(void **)&inner.stat = dlsym(root, "stat");
	*(void **)&inner.syscall = dlsym(root, "syscall");
}

void gck_cuda_apart_process_lead(void *library)
{
	const struct {
		const char *name;
		void *function;
	} led[] = {
		{"getpid", (void *)getpid}, {"kill", (void *)led_kill},
		{"pthread_kill", (void *)pthread_kill}, {"waitpid", (void *)led_waitpid},
		{"bind", (void *)led_bind}, {"syscall", (void *)led_syscall},
		{"opendir", (void *)led_opendir}, {"fopen", (void *)led_fopen},
		{"fopen64", (void *)led_fopen}, {"open", (void *)led_open},
		{"open64", (void *)led_open}, {"stat", (void *)led_stat},
	};

	if (!gck_preload_state)
		return;
	find_inner();
	for (size_t i = 0; i < sizeof led / sizeof *led; i++)
		gck_cuda_got_hook(library, led[i].name, led[i].function);
}
