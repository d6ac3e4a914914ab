/* SPDX-License-Identifier: Apache-2.0
 * Dirty pages are not tracked for a rank whose memory a device may write past the page tables. Its
 * /proc entry is made by this test. */
#include "config.h"

#include "shim/process/memory/dirty_pages.h"

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/support/tap.h"

#define NO_PINS "Name:\trank\nVmLck:\t       4 kB\nVmPin:\t       0 kB\nVmHWM:\t       4 kB\n"

static char directory[] = "/tmp/gpuckpt-dirty-XXXXXX";
static int proc;

static void put_status(const char *text)
{
	int fd = openat(proc, "status", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		errx(99, "no status");
	close(fd);
}

/* Whether pages are tracked. fd: target of a descriptor that the image leaves out; NULL: none. */
static bool track_dirty(const char *fd, uint64_t cuda_state)
{
	struct gck_shim_state shim = {.cuda_state = cuda_state};
	int32_t number = 7;
	struct gck_target t = {.proc = proc,
			       .shim = &shim,
			       .excluded = {.fds = &number, .nfds = fd != NULL}};
	struct gck_dirty_tracker tracker = {.uffd = memfd_create("uffd", MFD_CLOEXEC)};
	const struct gck_image img = {0};
	bool has;

	unlinkat(proc, "fd/7", 0);
	if (fd && symlinkat(fd, proc, "fd/7"))
		errx(99, "no link");
	gck_dirty_protect(&tracker, &t, &img, &(const struct gck_ranges){0});
	has = tracker.uffd >= 0;
	gck_dirty_drop(&tracker);
	return has;
}

static void test_pins(void)
{
	static const char *const texts[] = {"VmPin:\t       4 kB\n", "VmPin:\t 8388608 kB\n",
					    "VmLck:\t       0 kB\n", ""};

	put_status(NO_PINS);
	ok(track_dirty(NULL, 0), "none of its memory is pinned");
	ok(!track_dirty(NULL, 4096), "it uses CUDA");
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		put_status(texts[i]);
		ok(!track_dirty(NULL, 0), "something is, or may be: %.*s",
		   (int)strcspn(texts[i], "\n"), texts[i]);
	}
	unlinkat(proc, "status", 0);
	ok(!track_dirty(NULL, 0), "its status cannot be read");
}

static void test_descriptors(void)
{
	static const char *const harmless[] = {
		"socket:[4711]",
		"pipe:[4711]",
		"anon_inode:[eventfd]",
		"anon_inode:[eventpoll]",
		"anon_inode:inotify",
		"/memfd:ring (deleted)",
		"/dev/null",
		"/dev/shm/segment",
		"/home/data",
	};
	static const char *const others[] = {
		"/dev/infiniband/uverbs0",
		"/dev/nvidia0",
		"/dev/kfd",
		"/dev/knem",
		"/dev/nullb0",
		"anon_inode:[io_uring]",
		"anon_inode:[vfio-device]",
		"anon_inode:kvm-vm",
		"something",
	};

	put_status(NO_PINS);
	for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
		ok(track_dirty(harmless[i], 0), "%s cannot write memory", harmless[i]);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		ok(!track_dirty(others[i], 0), "%s may write memory", others[i]);
}

int main(void)
{
	char command[64];

	if (!mkdtemp(directory) ||
	    (proc = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
	    mkdirat(proc, "fd", 0700) ||
	    close(openat(proc, "pagemap", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)))
		errx(99, "no directory");
	test_pins();
	test_descriptors();
	snprintf(command, sizeof command, "rm -rf %s", directory);
	return system(command) ? 99 : tap_done();
}
