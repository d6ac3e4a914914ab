/* SPDX-License-Identifier: Apache-2.0
 * A rank that must get its old number, because its image has programs that know numbers from the
 * kernel alone. Only in a PID namespace can it choose. So the task makes one, and a rank in it that
 * waits for its restore in the task's place; the task only waits for the rank's end, and ends
 * likewise. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/control.h"
#include "shim/preload/helper/helper.h"
#include "shim/preload/helper/raw.h"
#include "shim/preload/pid/pid.h"
#include "shim/preload/start/apart.h"

#define MAP_MAX 64

static long put_text(const char *path, const char *text)
{
	long fd = gck_raw(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC), n;

	if (fd < 0)
		return fd;
	n = gck_raw(SYS_write, fd, text, strlen(text));
	gck_raw(SYS_close, fd);
	return n < 0 ? n : 0;
}

/* An id means the same inside as outside. */
static long map_id(const char *path, uint32_t id)
{
	char text[MAP_MAX], digits[GCK_DIGITS_MAX], *begin, *at = text;
	size_t n = gck_write_digits(digits, id, &begin);

	for (int i = 0; i < 2; i++) {
		at = (char *)memcpy(at, begin, n) + n;
		*at++ = ' ';
	}
	memcpy(at, "1", 2);
	return put_text(path, text);
}

/* A process that the restorer has execute its program needs the right to choose numbers after
 * that, too. */
static long keep_right(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	long r = gck_raw(SYS_capget, &header, data);

	data[0].inheritable |= 1u << CAP_SYS_ADMIN;
	if (r >= 0)
		r = gck_raw(SYS_capset, &header, data);
	return r < 0 ? r : gck_raw(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN,
				   0, 0);
}

/* Root needs no user namespace, and would lose its rights in one. */
static long leave_namespaces(void)
{
	uint32_t uid = gck_raw(SYS_geteuid), gid = gck_raw(SYS_getegid);
	long r = gck_raw(SYS_unshare, CLONE_NEWPID | CLONE_NEWNS | (uid ? CLONE_NEWUSER : 0));

	if (r < 0 || !uid)
		return r;
	gck_raw(SYS_prctl, PR_SET_DUMPABLE, 1); /* the new rights have reset it */
	r = keep_right();
	if (r >= 0)
		r = put_text("/proc/self/setgroups", "deny");
	if (r >= 0)
		r = map_id("/proc/self/gid_map", gid);
	return r < 0 ? r : map_id("/proc/self/uid_map", uid);
}

static void close_all(void)
{
	gck_raw(SYS_close_range, 0, ~0u, 0);
}

static void block_all(void)
{
	uint64_t all = ~0ull;

	gck_raw(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, sizeof all);
}

/* ---- the namespace's PID 1 ----------------------------------------------------------------- */

static long mount_proc(void)
{
	long r = gck_raw(SYS_mount, "none", "/", 0, MS_REC | MS_SLAVE, 0);

	return r < 0 ? r : gck_raw(SYS_mount, "proc", "/proc", "proc",
				   MS_NOSUID | MS_NODEV | MS_NOEXEC, 0);
}

/* The restorer must not get a number that one of the image's processes has. Where the kernel cannot
 * be told, it may, and the restart fails. */
static void number_above(uint32_t last)
{
	char text[GCK_DIGITS_MAX + 1] = "", digits[GCK_DIGITS_MAX], *begin;

	size_t n = gck_write_digits(digits, last, &begin);

	memcpy(text, begin, n);
	put_text("/proc/sys/kernel/ns_last_pid", text);
}

/* The kernel waits for children whose end is ignored. With it, all in the namespace ends. */
static _Noreturn void be_init(int told, uint32_t above)
{
	struct {
		uint64_t handler, flags, restorer, mask;
	} ignore = { .handler = (uint64_t)SIG_IGN };
	int32_t result;

	gck_raw(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
	gck_raw(SYS_prctl, PR_SET_NAME, "gpuckpt-init");
	gck_raw(SYS_rt_sigaction, SIGCHLD, &ignore, 0, 8);
	block_all();
	result = mount_proc();
	number_above(above);
	gck_raw(SYS_write, told, &result, sizeof result);
	close_all();
	for (;;)
		gck_raw(SYS_pause);
}

static long make_init(uint32_t above)
{
	int32_t result = -EPIPE;
	int ends[2];
	long r = gck_raw(SYS_pipe2, ends, O_CLOEXEC);

	if (r < 0)
		return r;
	r = gck_raw(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (r == 0)
		be_init(ends[1], above);
	gck_raw(SYS_close, ends[1]);
	if (r > 0 && gck_raw(SYS_read, ends[0], &result, sizeof result) >= 0)
		r = result;
	gck_raw(SYS_close, ends[0]);
	return r;
}

/* ---- the task's process -------------------------------------------------------------------- */

/* Signals to the task reach the rank, too, since Slurm sends them to all of a step's processes. */
static _Noreturn void be_task(long rank)
{
	const struct rlimit no_core = { 0, 0 };
	int32_t status = 0;
	uint64_t one;

	block_all();
	close_all();
	while (gck_raw(SYS_wait4, rank, &status, __WALL, 0) != rank)
		;
	if (WIFSIGNALED(status)) {
		struct {
			uint64_t handler, flags, restorer, mask;
		} plain = { .handler = (uint64_t)SIG_DFL };

		one = ~(1ull << (WTERMSIG(status) - 1));
		gck_raw(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, 0);
		gck_raw(SYS_rt_sigaction, WTERMSIG(status), &plain, 0, 8);
		gck_raw(SYS_kill, gck_raw(SYS_getpid), WTERMSIG(status));
		gck_raw(SYS_rt_sigprocmask, SIG_SETMASK, &one, 0, sizeof one);
	}
	for (;;)
		gck_raw(SYS_exit_group, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* ---- the rank ------------------------------------------------------------------------------ */

/* GPUCKPT_PID has ten digits: those of the rank's number come last. */
static void name_rank(int32_t number, char *variable)
{
	char digits[GCK_DIGITS_MAX], *begin;
	size_t n = gck_write_digits(digits, (uint32_t)number, &begin);

	memset(variable, '0', GCK_PID_DIGITS);
	memcpy(variable + GCK_PID_DIGITS - n, begin, n);
	gck_state.vpid = gck_state.rpid = gck_state.rank_pid = number;
}

static long make_rank(int32_t number, bool leads)
{
	struct clone_args args = { .exit_signal = SIGCHLD, .set_tid = (uint64_t)&number,
				   .set_tid_size = 1 };
	long pid = gck_raw(SYS_clone3, &args, sizeof args);

	if (pid == 0 && leads)
		gck_raw(SYS_setpgid, 0, 0);
	return pid;
}

long gck_apart(int fd, int32_t number, uint32_t above, char *pid_variable)
{
	bool leads = gck_raw(SYS_getpgid, 0) == gck_raw(SYS_getpid);
	long r = strlen(pid_variable) == GCK_PID_DIGITS ? leave_namespaces() : -EINVAL;

	if (r >= 0)
		r = make_init(above);
	if (r >= 0)
		r = make_rank(number, leads);
	if (r > 0)
		be_task(r);
	if (r == 0) {
		gck_raw(SYS_close, fd);
		name_rank(number, pid_variable);
	}
	return r;
}
