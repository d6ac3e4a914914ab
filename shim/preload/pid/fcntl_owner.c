/* SPDX-License-Identifier: Apache-2.0
 * fcntl: owners of a file's signals. Everything else goes to libc, for whom waiting for a lock is a
 * cancellation point. */
#include "config.h"

#include "shim/preload/pid/fcntl_owner.h"

#include <fcntl.h>

#include "shim/preload/pid/libc_calls.h"
#include "shim/preload/pid/virtual_ids.h"

bool gck_fcntl_has_owner(int command)
{
	return command == F_SETOWN || command == F_GETOWN || command == F_SETOWN_EX ||
	       command == F_GETOWN_EX;
}

static long set_owner(int fd, const struct f_owner_ex *program)
{
	struct f_owner_ex kernel = *program;

	kernel.pid = kernel.type == F_OWNER_TID ? gck_tid_to_kernel(kernel.pid)
						: gck_pid_to_kernel(kernel.pid);
	return gck_raw(SYS_fcntl, fd, F_SETOWN_EX, &kernel);
}

static long get_owner(int fd, struct f_owner_ex *o)
{
	long r = gck_raw(SYS_fcntl, fd, F_GETOWN_EX, o);

	if (r < 0)
		return r;
	o->pid = o->type == F_OWNER_TID ? gck_tid_to_program(o->pid) : gck_pid_to_program(o->pid);
	return r;
}

long gck_fcntl_owner(int fd, int command, long arg)
{
	switch (command) {
	case F_SETOWN:
		return gck_raw(SYS_fcntl, fd, command, gck_pid_to_kernel(arg));
	case F_SETOWN_EX:
		return set_owner(fd, (const struct f_owner_ex *)arg);
	case F_GETOWN_EX:
		return get_owner(fd, (struct f_owner_ex *)arg);
	default:
		return gck_tid_to_program(gck_raw(SYS_fcntl, fd, F_GETOWN));
	}
}

static int owner_call(int fd, int command, long arg)
{
	struct f_owner_ex owner;
	long r;

	if (command != F_GETOWN)
		return gck_result(gck_fcntl_owner(fd, command, arg));
	/* A process group is a negative result, which is not to be taken for an error. */
	r = get_owner(fd, &owner);
	if (r < 0)
		return gck_result(r);
	return owner.type == F_OWNER_PGRP ? -owner.pid : owner.pid;
}

/* Under other names in C: the prototypes are variadic. */
int gck_fcntl(int fd, int command, long arg) __asm__("fcntl");
GCK_EXPORT int gck_fcntl(int fd, int command, long arg)
{
	if (gck_is_original() || !gck_fcntl_has_owner(command))
		return gck_real()->fcntl(fd, command, arg);
	return owner_call(fd, command, arg);
}

int gck_fcntl64(int fd, int command, long arg) __asm__("fcntl64");
GCK_EXPORT int gck_fcntl64(int fd, int command, long arg)
{
	return gck_fcntl(fd, command, arg);
}
