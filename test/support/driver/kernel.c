/* SPDX-License-Identifier: Apache-2.0
 * libcuda-kernel.so, to be preloaded: the kernel module of the fake driver, as far as a process
 * asks it by ioctl. A request of the control device succeeds: the fake driver has filled in the
 * answer. Environment:
 *
 *   FAKE_CUDA_NO_KERNEL=FILE  while FILE exists, there is no such module
 *   FAKE_CUDA_UVM=FILE        /dev/nvidia-uvm can be opened; each request to it is a line of FILE:
 *                             "initialize" or "register LETTER" (of the device's UUID) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))
#define CONTROL 0xc020462aul
#define UVM_INITIALIZE 0x30000001ul
#define UVM_REGISTER_GPU 37ul

static bool is_there(void)
{
	const char *absent = getenv("FAKE_CUDA_NO_KERNEL");

	return !absent || access(absent, F_OK) != 0;
}

static int note(const char *path, const char *what, int letter)
{
	FILE *f = fopen(path, "ae");

	if (!f)
		return -1;
	fprintf(f, letter ? "%s %c\n" : "%s\n", what, letter);
	return fclose(f);
}

SHOWN int ioctl(int fd, unsigned long request, ...)
{
	const char *uvm = getenv("FAKE_CUDA_UVM");
	va_list list;
	char *arg;

	va_start(list, request);
	arg = va_arg(list, char *);
	va_end(list);
	if (request == CONTROL && is_there())
		return 0;
	if (request == UVM_INITIALIZE && uvm)
		return note(uvm, "initialize", 0);
	if (request == UVM_REGISTER_GPU && uvm)
		return note(uvm, "register", arg[0]);
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

static int open_file(const char *path, int flags, va_list list)
{
	int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, int) : 0;

	if (!strcmp(path, "/dev/nvidia-uvm") && getenv("FAKE_CUDA_UVM"))
		return memfd_create("nvidia-uvm", MFD_CLOEXEC);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

#define OPEN(name, more) \
	SHOWN int name(const char *path, int flags, ...) \
	{ \
		va_list list; \
		int fd; \
		va_start(list, flags); \
		fd = open_file(path, flags | (more), list); \
		va_end(list); \
		return fd; \
	}
OPEN(open, 0)
OPEN(open64, O_LARGEFILE)
