/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: devices whose memory several processes share (FAKE_CUDA_SHARED). Each allocation
 * is a file in that directory with a lock, which is held as long as anything refers to it: a
 * mapping, a descriptor, or a message in a socket. The end of a process releases its memory. */
#define _GNU_SOURCE
#include "test/support/driver/bodies.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* One process at a time makes or counts memory. */
static int begin(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || flock(fd, LOCK_EX))
		abort();
	return fd;
}

static size_t size_of(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDWR | O_CLOEXEC);
	struct stat st = {.st_size = 0};

	if (fd < 0)
		return 0;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		unlinkat(dir, name, 0);
	else
		fstat(fd, &st);
	close(fd);
	return (size_t)st.st_size;
}

static size_t count(int dir, CUdevice device)
{
	DIR *d = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	const struct dirent *e;
	size_t bytes = 0;
	int of;

	while (d && (e = readdir(d))) {
		if (sscanf(e->d_name, "%d-", &of) == 1 && of == device)
			bytes += size_of(dir, e->d_name);
	}
	closedir(d);
	return bytes;
}

static int make(int dir, CUdevice device)
{
	static unsigned serial;
	char name[64];
	int fd;

	snprintf(name, sizeof name, "%d-%d-%u", device, getpid(), ++serial);
	fd = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0 && flock(fd, LOCK_SH))
		abort();
	return fd;
}

/* The bytes that imaginary processes use, from the file FAKE_CUDA_TAKEN. */
static size_t taken(void)
{
	const char *path = getenv("FAKE_CUDA_TAKEN");
	FILE *f = path ? fopen(path, "re") : NULL;
	size_t mib = 0;

	if (f && fscanf(f, "%zu", &mib) != 1)
		mib = 0;
	if (f)
		fclose(f);
	return mib << 20;
}

static size_t used_with_others(CUdevice device)
{
	size_t used = fake.used[device] + taken(), all = fake.seen.v[device].memory;

	return used < all ? used : all;
}

size_t fake_used(CUdevice device)
{
	const char *shared = getenv("FAKE_CUDA_SHARED");
	size_t bytes;
	int dir;

	if (!shared)
		return used_with_others(device);
	dir = begin(shared);
	bytes = count(dir, device);
	close(dir);
	return bytes;
}

static int make_memfd(CUdevice device)
{
	char name[64];

	snprintf(name, sizeof name, "fake-cuda/%d-", device);
	return memfd_create(name, MFD_CLOEXEC);
}

/* The device that the name of its file has. */
CUdevice fake_memory_device(int fd)
{
	char link[64], name[4096];
	ssize_t n;
	CUdevice device;

	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	n = readlink(link, name, sizeof name - 1);
	name[n > 0 ? n : 0] = 0;
	return strrchr(name, '/') && sscanf(strrchr(name, '/'), "/%d-", &device) == 1 ? device : 0;
}

int fake_memory_file(CUdevice device, size_t size)
{
	const char *shared = getenv("FAKE_CUDA_SHARED");
	int dir = shared ? begin(shared) : -1, fd = -1;
	size_t used = shared ? count(dir, device) : used_with_others(device);

	if (size <= fake.seen.v[device].memory && used <= fake.seen.v[device].memory - size)
		fd = shared ? make(dir, device) : make_memfd(device);
	if (fd >= 0 && ftruncate(fd, (off_t)size))
		abort();
	if (shared)
		close(dir);
	return fd;
}
