/* SPDX-License-Identifier: Apache-2.0
 * This node: its kernel, its libraries, its GPU driver. */
#include "config.h"

#include "coordinator/cli/check/check.h"

#include <ctype.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/proc/pagemap.h"

#define YAMA "/proc/sys/kernel/yama/ptrace_scope"
#define DRIVER "/proc/driver/nvidia/version"
#define DRIVER_TESTED 580

/* The first line of a file; false: it cannot be read. */
static bool first_line(const char *path, char *line, int size)
{
	FILE *f = fopen(path, "re");
	bool read = f && fgets(line, size, f);

	if (f)
		fclose(f);
	if (read)
		line[strcspn(line, "\n")] = '\0';
	return read;
}

/* ---- the kernel ----------------------------------------------------------------------------- */

void check_ptrace(struct checks *c)
{
	char line[32] = "";
	int scope;

	if (!first_line(YAMA, line, sizeof line)) {
		check_ok(c, "this kernel has no kernel.yama.ptrace_scope");
		return;
	}
	scope = atoi(line);
	if (scope <= 1)
		check_ok(c, "kernel.yama.ptrace_scope is %d", scope);
	else
		check_error(c, scope == 2 ?
			    "sysctl kernel.yama.ptrace_scope=1, and the same in /etc/sysctl.d" :
			    "set it to 1 in /etc/sysctl.d and boot the node: 3 cannot be lowered",
			    "kernel.yama.ptrace_scope is %d: users may not trace their own "
			    "processes, so no rank can be checkpointed", scope);
}

static pid_t start_sleeper(void)
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == parent)
		pause();
	_exit(0);
}

static int try_ptrace(pid_t pid)
{
	return (int)ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_EXITKILL);
}

static int try_vm(pid_t pid)
{
	char a, b;
	struct iovec here = { &a, 1 }, there = { &b, 1 };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == 1 ? 0 : -1;
}

static int try_pidfd(pid_t pid)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), fd = -1, saved;

	if (pidfd < 0)
		return -1;
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, 0, 0);
	saved = errno;
	if (fd >= 0)
		close(fd);
	close(pidfd);
	errno = saved;
	return fd < 0 && saved != EBADF ? -1 : 0; /* EBADF: it has no descriptor 0 */
}

static int try_kcmp(pid_t pid)
{
	return syscall(SYS_kcmp, pid, pid, KCMP_VM, 0, 0) == 0 ? 0 : -1;
}

static int try_close_range(pid_t pid)
{
	(void)pid;
	return (int)syscall(SYS_close_range, ~0u, ~0u, 0);
}

static int try_clone3(pid_t pid)
{
	(void)pid;
	return syscall(SYS_clone3, NULL, 0) < 0 && errno == EINVAL ? 0 : -1;
}

static int try_memfd(pid_t pid)
{
	int fd = memfd_create("gpuckpt", MFD_CLOEXEC);

	(void)pid;
	return fd < 0 ? -1 : close(fd);
}

static bool scans_pages(void)
{
	struct gck_pagemap_scan arg = { .size = sizeof arg, .return_mask = GCK_PAGE_WRITTEN };
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	bool works = fd >= 0 && ioctl(fd, GCK_PAGEMAP_SCAN, &arg) == 0;

	if (fd >= 0)
		close(fd);
	return works;
}

static bool tracks_pages(void)
{
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd >= 0)
		close(fd);
	return fd >= 0 && scans_pages();
}

void check_kernel(struct checks *c)
{
	static const struct {
		const char *name;
		int (*try)(pid_t pid); /* -1 with errno */
	} calls[] = {
		{ "ptrace", try_ptrace }, { "process_vm_readv", try_vm },
		{ "pidfd_getfd", try_pidfd }, { "kcmp", try_kcmp },
		{ "close_range", try_close_range }, { "clone3", try_clone3 },
		{ "memfd_create", try_memfd },
	};
	pid_t pid = start_sleeper();
	bool all = pid > 0;

	for (size_t i = 0; pid > 0 && i < sizeof calls / sizeof *calls; i++) {
		if (calls[i].try(pid) == 0)
			continue;
		all = false;
		check_error(c, "use Linux 5.9 or later, and allow the call in seccomp filters of "
			    "containers", "%s does not work here: %s", calls[i].name,
			    strerror(errno));
	}
	if (pid > 0 && kill(pid, SIGKILL) == 0)
		waitpid(pid, NULL, 0);
	if (all)
		check_ok(c, "it has the system calls that a checkpoint needs%s", tracks_pages() ?
			 "" : "; it does not track written pages (Linux 6.7 does), so each "
			 "checkpoint reads all memory");
}

/* ---- the libraries -------------------------------------------------------------------------- */

static bool is_missing(struct checks *c, const char *path, int mode, const char *key)
{
	char remedy[128];

	if (access(path, mode) == 0)
		return false;
	snprintf(remedy, sizeof remedy,
		 "install gpuckpt on this node, or correct %s in gpuckpt.conf", key);
	check_error(c, remedy, "%s: %s", path, strerror(errno));
	return true;
}

/* The loader of the system names the libraries that it does not find. */
static bool lacks_libraries(struct checks *c, const char *program)
{
	const char *const argv[] = { program, NULL };
	char text[8192], *at;

	program_run(argv, "LD_TRACE_LOADED_OBJECTS=1", text, sizeof text);
	at = strstr(text, " => not found");
	if (!at)
		return false;
	*at = '\0';
	at = strrchr(text, '\t');
	check_error(c, "install the package that has it", "%s needs %s, which is not there",
		    program, at ? at + 1 : text);
	return true;
}

/* Whether this program starts with a library in front of it, as ranks do. */
static bool cannot_load(struct checks *c, const char *path)
{
	static const char *const argv[] = { "/proc/self/exe", "--version", NULL };
	char setting[PATH_MAX + 80] = "LD_PRELOAD=", text[1024];
	size_t n = strlen(setting);

	gck_conf_preload(path, setting + n, sizeof setting - n);
	if (program_run(argv, setting, text, sizeof text) == 0 &&
	    !strcmp(text, "gpuckpt " PACKAGE_VERSION "\n"))
		return false;
	text[strcspn(text, "\n")] = '\0';
	check_error(c, "install gpuckpt on this node with `make install`: its links belong to it",
		    "%s is not loaded: %s", setting, *text ? text : "the program ended");
	return true;
}

void check_libraries(struct checks *c)
{
	const struct gck_conf *conf = c->conf;
	bool bad = is_missing(c, conf->agent, X_OK, "AgentPath") ||
		   lacks_libraries(c, conf->agent);

	if (is_missing(c, conf->preload, R_OK, "PreloadPath") || cannot_load(c, conf->preload))
		return;
	if (access(conf->mpi, R_OK))
		check_warn(c, "build gpuckpt with Open MPI's headers (libopenmpi-dev)",
			   "%s: %s: MPI programs run, and cannot be checkpointed", conf->mpi,
			   strerror(errno));
	else
		bad = cannot_load(c, conf->mpi) || bad;
	if (!bad)
		check_ok(c, "the agent and the libraries of ranks can be loaded");
}

/* ---- MPI, the driver ------------------------------------------------------------------------ */

void check_mpi(struct checks *c)
{
	static const char *const argv[] = { "mpirun", "--version", NULL };
	char text[4096], *version;

	if (program_run(argv, NULL, text, sizeof text) != 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	version = strstr(text, "(Open MPI) ");
	if (version && !strncmp(version, "(Open MPI) 4.1.", 15))
		check_ok(c, "mpirun in PATH is of Open MPI %s", version + 11);
	else
		check_warn(c, "link programs with Open MPI 4.1; programs of other libraries run, "
			   "and cannot be checkpointed", "mpirun in PATH is not of Open MPI 4.1: "
			   "%.80s", text);
}

/* The word of the module's line that is a version: 580.95.05. */
static const char *version_in(char *line)
{
	for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
		if (isdigit((unsigned char)*word) && strchr(word, '.'))
			return word;
	return "?";
}

/* A node without the driver has nothing to check. */
void check_driver(struct checks *c)
{
	char line[512];
	const char *version;

	if (!first_line(DRIVER, line, sizeof line))
		return;
	version = version_in(line);
	if (access(c->conf->cuda, R_OK))
		check_error(c, "build gpuckpt with CUDA 13.0's cuda.h (--with-cuda=DIR), or "
			    "correct CudaPath in gpuckpt.conf",
			    "%s: %s: programs that use the GPU cannot be checkpointed",
			    c->conf->cuda, strerror(errno));
	else if (cannot_load(c, c->conf->cuda))
		return;
	else if (atoi(version) != DRIVER_TESTED)
		check_warn(c, "run test/gpu on this node first (HACKING.md)",
			   "NVIDIA's driver is version %s; gpuckpt is tested with %d", version,
			   DRIVER_TESTED);
	else
		check_ok(c, "NVIDIA's driver is version %s", version);
}
