/* SPDX-License-Identifier: Apache-2.0
 * Capturing a real rank: what able refuses and reports, and the content of images. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/process/capture/capture.h"
#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/test/capture_rank.h"
#include "shim/process/tree/tree.h"
#include "test/support/tap.h"
#include "test/support/read_chunk.h"
#include "test/support/rings.h"

static bool passes(const char *name)
{
	static const char *const passing[] = {"connected", "broken-lease", "write-lease",
					      "log-lease", "mapped-lease",
					      "owner-outside", "unnamed-lease", "bare-child",
					      "mpi-child", "static-child", "zombie", "ring-poll",
					      "ring-timeout", "ring-more", "orphans",
					      "procfd", "procother", "procthread", "unread",
					      "fan-unread",
					      "mq", "mq-outside", "half-segment", "static-ipc",
					      "sem-outside", "msg-outside", "shm-outside"};

	for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
		if (!strcmp(name, passing[i]))
			return true;
	return false;
}

/* One obstacle that passes and one that stays: the error is the latter's. first is found before
 * second. */
static void refused_for_good(const char *first, const char *second)
{
	struct gck_error err = {0};
	struct gck_capture *c;

	tell("do", first);
	tell("do", second);
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	ok(!c && err.code == ENOTSUP, "what stays is told, not what passes: %s, %s: %s", first,
	   second, err.text);
	gck_capture_close(c);
	tell("undo", first);
	tell("undo", second);
}

static void test_able(void)
{
	static const char *const bad[][2] = {
		{"tcp", "a listening socket at"}, {"udp", "a UDP socket"},
		{"bare", "a TCP socket, not connected"},
		{"procfd", "a file of /proc open for writing: /proc/"},
		{"procother", "a file of /proc of a process that has ended or is no descendant"},
		{"procthread", "a file of /proc of a thread: /proc/"},
		{"nsfd", "it refers to a namespace, not to a file: net:["},
		{"zombie", "a child process in another's process group"},
		{"unix", "a unix socket with a relative name"},
		{"connected", "waits to be accepted"}, {"inotify", "was removed or renamed"},
		{"unread", "events wait that were not read (32 bytes)"},
		{"fan-moved", "removed or renamed, or whose name was not given to libc's fanotify"},
		{"fan-unread", "fanotify: events wait that were not read"},
		{"fan-mount", "fanotify: it watches a whole mount"},
		{"fan-decides", "fanotify: it decides about accesses"},
		{"made", "more than files="},
		{"high-watch", "a watch has the number 262145"},
		{"pidfd", "no descendant of the rank"},
		{"write-lease", "is not open for both reading and writing"},
		{"log-lease", "a large one that it appends to"},
		{"mapped-lease", "it is for writing, and the file is mapped"},
		{"broken-lease", "and it is being broken"},
		{"owner-outside", "are for process "},
		{"unnamed-lease", "and the file has no name"},
		{"fifo", "belongs to another file"}, {"device", "a device: /dev/"},
		{"terminal", "the other end of a pseudo-terminal"},
		{"renamed", "belongs to another file"}, {"large", "more than files="},
		{"epoll", "closed under that number"},
		{"bare-child", "has no preload"},
		{"mpi-child", "two of its processes have MPI"},
		{"static-child", "is a static program, beside"},
		{"static-ipc", "is a static program, beside System V objects"},
		{"half-segment", "a part of this System V shared memory was unmapped"},
		{"sem-outside", "none of the step's, has used it"},
		{"msg-outside", "none of the step's, has used it"},
		{"shm-outside", "none of the step's has attached it"},
		{"shm-mode", "its owner may not use it"}, {"mq", "a notification (mq_notify)"},
		{"mq-mode", "may not read and write the message queue"},
		{"mq-outside", "none of the rank's, has the message queue"},
		{"ring-poll", "io_uring: a poll that does not end is under way"},
		{"ring-timeout", "io_uring: 1 requests are under way that do not end"},
		{"ring-more", "io_uring: it has had 2 completions more than requests"},
		{"ring-disabled", "an io_uring that is not enabled"},
		{"ring-personality", "an io_uring with personalities"},
		{"ring-closed", "an io_uring whose descriptor was closed"},
		{"ring-provided", "an io_uring with provided buffers"},
		{"ring-selected", "an io_uring with provided buffers"},
		{"ring-file", "a registered file that the process has not open"},
		{"ring-twice", "a registered file that the process has open twice"},
		{"aio", "asynchronous I/O of the kernel"}, {"userfault", "[userfaultfd]"},
		{"guarded", "shared memory with guard pages"},
		{"traced", "it is traced by process"},
		{"orphans", "whose parent has ended, in another's session"},
		{"unshared", "it has its own table of descriptors"},
		{"no-privs", "differs from the main thread in NoNewPrivs"},
		{"cputimer", "it runs on CPU time"}, {"directory", "working directory is gone"},
	};
	struct gck_error err = {0};
	struct timespec now;

	start();
	ok(refuses(NULL), "an ordinary rank has no obstacles");
	ok(is_noted("standard input", "a pipe that is still open"), "its input is reported");
	clock_gettime(CLOCK_MONOTONIC, &now);
	ok(is_noted("clocks", "not in a time namespace") == (now.tv_sec < time(NULL) - 10),
	   "so is its clock, unless it is in a time namespace of the step");
	ok(is_noted("scheduling", "timer slack"), "so is what is lost");
	ok(is_noted("clocks", "CPU time clocks"), "and that CPU time starts from zero");
	options.files = 1 << 20;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct gck_capture *c;

		if (!strncmp(bad[i][0], "static-", 7) && access("/bin/busybox", X_OK)) {
			skip("a static program", "busybox is not installed");
			continue;
		}
		if (!strncmp(bad[i][0], "ring-", 5) && !can_carry_rings()) {
			skip(bad[i][0], "needs io_uring of Linux 6.8");
			continue;
		}
		if ((!strcmp(bad[i][0], "fan-mount") || !strcmp(bad[i][0], "fan-decides")) &&
		    geteuid()) {
			skip(bad[i][0], "only root may");
			continue;
		}
		if (!ok(tell("do", bad[i][0]), "the rank has a %s", bad[i][0]))
			continue;
		ok(refuses(bad[i][1]), "it is refused: %s", bad[i][1]);
		c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
		ok(!c && err.code == (passes(bad[i][0]) ? EAGAIN : ENOTSUP),
		   "no checkpoint begins%s", passes(bad[i][0]) ? ", for now" : "");
		gck_capture_close(c);
		tell("undo", bad[i][0]);
	}
	refused_for_good("zombie", "fifo");
	refused_for_good("aio", "procfd");
	tell("do", "twice");
	ok(refuses("none of the rank's") && refuses("belongs to another file") && named_once(),
	   "a descriptor with two obstacles is named once, with both");
	tell("undo", "twice");
	ok(refuses(NULL), "no obstacles without them");
	gck_options_init(&options);
	if (!geteuid())
		tell("do", "rights");
	ok(geteuid() || refuses("it has changed its rights since its start: CapPrm"),
	   "capabilities that were dropped are refused");
	tell("do", "seccomp");
	ok(refuses("seccomp filter"), "a seccomp filter is refused");
	is_int(stop(), 0, "the rank ends by itself");
}

/* Whether a file of the rank has an attribute of chattr: that needs root and a file system that has
 * them. */
static bool has_attribute(const char *name)
{
	struct statx x = {0};
	char path[64];

	snprintf(path, sizeof path, "%s/%s", rank_directory, name);
	return !statx(AT_FDCWD, path, 0, STATX_TYPE, &x) &&
	       x.stx_attributes & (STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE);
}

static void test_fixed(void)
{
	static const char *const names[] = {"append-only", "immutable"};

	start();
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		tell("do", names[i]);
		if (!has_attribute(names[i]))
			skip(names[i], "the attribute cannot be set here");
		else
			ok(refuses("append-only or immutable (chattr +a, +i)"),
			   "a file that a restart cannot cut back is refused: %s", names[i]);
		tell("undo", names[i]);
	}
	ok(refuses(NULL), "no obstacles without the attributes");
	is_int(stop(), 0, "the rank ends by itself");
}

/* A page's bytes in a list of page groups: the byte of a uniform page, -1: not stored, -2:
 * mixed. */
static int stored(struct gck_reader *r, const struct gck_page_groups *w, uint64_t address)
{
	static unsigned char data[GCK_GROUP_BYTES];
	unsigned bit = (unsigned)(address % GCK_GROUP_BYTES / GCK_PAGE);

	for (size_t i = 0; i < w->rows.n; i++) {
		struct gck_page_group x = gck_page_groups_at(w, i);
		unsigned char *page;

		if (x.address != address / GCK_GROUP_BYTES * GCK_GROUP_BYTES ||
		    !(x.mask >> bit & 1))
			continue;
		if (read_chunk(r, &x.chunk, data, NULL))
			return -2;
		page = data;
		page += (size_t)__builtin_popcountll(x.mask & ((1ull << bit) - 1)) * GCK_PAGE;
		return memcmp(page, page + 1, GCK_PAGE - 1) ? -2 : page[0];
	}
	return -1;
}

static uint64_t page_of(const char *name)
{
	char line[64];

	snprintf(line, sizeof(line), "page %s", name);
	return strtoull(rank_ask(&rank, line), NULL, 16);
}

static const struct gck_map *map_of(const struct gck_image *img, uint64_t address)
{
	for (size_t i = 0; i < img->nmaps; i++)
		if (address >= img->maps[i].start && address < img->maps[i].end)
			return &img->maps[i];
	return NULL;
}

static bool has_swap(void)
{
	struct sysinfo node;

	return !sysinfo(&node) && node.totalswap;
}

static void check_memory(const struct gck_image *img, struct gck_reader *r)
{
	uint64_t shared = page_of("shared");
	const struct gck_map *m = map_of(img, shared);

	is_int(stored(r, &img->pages, page_of("dontfork")), 0xd0, "memory with MADV_DONTFORK");
	is_int(stored(r, &img->pages, page_of("wipeonfork")), 0xd1, "memory with MADV_WIPEONFORK");
	is_int(stored(r, &img->pages, page_of("none")), 0xd2, "memory with PROT_NONE");
	is_int(stored(r, &img->pages, page_of("zero")), -1, "zeros are not stored");
	is_int(stored(r, &img->pages, page_of("changed")), 0xd4, "a changed page of a file");
	is_int(stored(r, &img->pages, page_of("changed") + GCK_PAGE), -1,
	       "the next page is unchanged");
	ok(m && m->kind == GCK_MAP_SHARED && img->objects[m->object].size == 16ull << 30,
	   "shared memory");
	is_int(stored(r, &img->objects[m->object].groups, shared - m->start), 0xd5,
	       "its written page");
	is_int((long long)img->objects[m->object].groups.rows.n, 2, "and no holes are filled");
	shared = page_of("swapped");
	m = map_of(img, shared);
	is_int(stored(r, &img->objects[m->object].groups, shared - m->start), 0xd8,
	       has_swap() ? "shared memory that is swapped out" : "shared memory (no swap here)");
	is_int((long long)img->objects[m->object].groups.rows.n, 32, "all its pages");
	ok(map_of(img, page_of("dontfork"))->flags & GCK_MAP_DONTFORK, "the image has the lock");
}

static const struct gck_file *file_of(const struct gck_image *img, enum gck_fd_kind kind, int nth)
{
	for (size_t i = 0; i < img->nfiles; i++)
		if (img->files[i].kind == kind && !nth--)
			return &img->files[i];
	return NULL;
}

static bool holds(struct gck_reader *r, const struct gck_page_groups *w, const char *text)
{
	static char data[GCK_GROUP_BYTES];
	struct gck_chunk c;

	if (w->rows.n != 1)
		return false;
	c = gck_page_groups_at(w, 0).chunk;
	return !read_chunk(r, &c, data, NULL) && !strcmp(data, text);
}

static void check_descriptors(const struct gck_image *img, struct gck_reader *r)
{
	const struct gck_file *f = file_of(img, GCK_FD_PIPE, 0), *o = file_of(img, GCK_FD_PIPE, 1);
	size_t users = 0;

	ok(f && o && f->id == o->id && !f->write_end && o->write_end, "both ends of a pipe");
	ok(f && f->data_size == 9 && holds(r, &f->data, "in a pipe"), "with the bytes in it");
	f = file_of(img, GCK_FD_SOCKETPAIR, 0);
	o = file_of(img, GCK_FD_SOCKETPAIR, 1);
	ok(f && o && f->id == o->id && f->sock_type == SOCK_STREAM, "both ends of a socketpair");
	ok(f && f->data_size == 11 && holds(r, &f->data, "in a socket"), "with the bytes in it");
	f = file_of(img, GCK_FD_LISTENER, 0);
	ok(f && f->name_size == 5 && f->sock_type == SOCK_SEQPACKET &&
	   f->count == 7, "a listening socket with an abstract name");
	f = file_of(img, GCK_FD_EVENTFD, 0);
	ok(f && f->count == 7 && f->semaphore, "an eventfd");
	f = file_of(img, GCK_FD_EPOLL, 0);
	ok(f && f->nentries == 1 && f->entries[0].data == ~0ull &&
	   f->entries[0].events == 0x80000019u, "an epoll and its entries");
	f = file_of(img, GCK_FD_TIMERFD, 0);
	ok(f && f->clock == CLOCK_MONOTONIC && f->interval_ns == 7000000000ull &&
	   f->value_ns > 990000000000ull, "a timerfd");
	f = file_of(img, GCK_FD_SIGNALFD, 0);
	ok(f && f->sigmask == 1ull << (SIGUSR2 - 1), "a signalfd");
	f = file_of(img, GCK_FD_MEMFD, 0);
	ok(f && !strcmp(img->objects[f->object].name, "a name") &&
	   img->objects[f->object].seals == F_SEAL_GROW && f->offset == 10 &&
	   holds(r, &img->objects[f->object].groups, "in a memfd"), "a memfd");
	f = file_of(img, GCK_FD_FILE, 0);
	ok(f && f->whole && f->offset == 3 && f->size == 12 && strstr(f->path, "/written") &&
	   holds(r, &f->data, "written text"), "a written file");
	for (size_t i = 0; f && i < img->nfds; i++)
		users += img->fds[i].file == f - img->files;
	is_int((long long)users, 2, "with two descriptors");
	f = file_of(img, GCK_FD_FILE, 1);
	ok(f && f->unlinked && holds(r, &f->data, "unlinked text"), "a file without a name");
	ok(file_of(img, GCK_FD_DEVICE, 0) && file_of(img, GCK_FD_DIR, 0), "a device, a directory");
	ok(file_of(img, GCK_FD_STDIO, 2) && !file_of(img, GCK_FD_STDIO, 3),
	   "the task's own three descriptors");
}

static uint64_t chunks_at_most(void)
{
	struct gck_error err = {0};
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	uint64_t n = c ? gck_capture_chunks(c) : 0;

	gck_capture_close(c);
	return n;
}

static void test_image(void)
{
	struct gck_error err = {0};
	json_t *manifest = NULL;
	struct gck_reader *r = NULL;
	struct gck_image *img;
	uint64_t most;

	start();
	ok(tell("do", "memory") && tell("do", "swapped") && tell("do", "descriptors"),
	   "with memory and descriptors");
	most = chunks_at_most();
	img = checkpoint(&manifest, &err);
	if (img)
		r = gck_reader_open(store, manifest, &err);
	if (!ok(img && r, "a checkpoint that can be read"))
		printf("# %s\n", err.text);
	if (r) {
		check_memory(img, r);
		check_descriptors(img, r);
		is_int((long long)img->nthreads, 1, "the helper is not in the image");
		is_int(img->vpid, rank.pid, "its PID");
		ok(img->chunks.rows.n <= most && most < 4 * img->chunks.rows.n, "%zu chunks, "
		   "for which %llu were expected", img->chunks.rows.n, (unsigned long long)most);
		gck_reader_close(r);
	}
	gck_image_free(img);
	json_decref(manifest);
	is_int(stop(), 0, "the rank ends by itself");
}

/* Holds the rank as the signal comes that ends its lease. The number of signals in the image. */
static size_t hold_at_end(struct gck_error *err)
{
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, err);
	siginfo_t end = {.si_signo = SIGSTOP, .si_code = SI_TIMER};
	size_t n = SIZE_MAX;

	end.si_value.sival_ptr = (void *)(uintptr_t)hello.state;
	if (c && !gck_capture_freeze(c, err)) {
		c->held.v[0].signal = SIGSTOP;
		memcpy(&c->held.v[0].info, &end, sizeof end);
		n = gck_capture_take(c, true, err) ? SIZE_MAX : c->img->threads[0].npending;
		c->held.v[0].signal = 0;
		gck_capture_resume(c);
	}
	gck_capture_close(c);
	return n;
}

static void test_lease(void)
{
	struct gck_error err = {0};
	json_t *manifest = NULL;
	struct gck_image *img = NULL;

	start();
	agent_lease(helper_link, 3600000);
	ok(agent_sees_lease(rank.pid, true) && (img = checkpoint(&manifest, &err)) && !img->ntimers,
	   "the rank's lease is not in the image: %s", err.text);
	ok(hold_at_end(&err) == 0, "nor is the signal at its end: %s", err.text);
	gck_image_free(img);
	json_decref(manifest);
	is_int(stop(), 0, "the rank ends by itself");
}

/* The rank changes what it wrote before, during a checkpoint. */
static void test_rewrite(void)
{
	struct gck_error err = {0};
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	struct gck_writer *w = gck_writer_open(store, 99, "t", &options, NULL, &err);

	ok(c && w && tell("do", "rewrite") && !gck_capture_freeze(c, &err) &&
	   !gck_capture_take(c, true, &err), "a file that is changed in place during a checkpoint");
	gck_capture_resume(c);
	ok(gck_capture_write(c, w, NULL, NULL, &err) &&
	   strstr(err.text, "is changed in place"), "is refused (%s)", err.text);
	gck_writer_close(w);
	gck_capture_close(c);
}

static void test_append(void)
{
	struct gck_error err = {0};
	json_t *manifest = NULL;
	const struct gck_file *f;
	struct gck_image *img;
	char *content = malloc(20 << 20);
	struct gck_hash want;

	memset(content, 'a', 20 << 20);
	want = gck_hash_bytes(content, 20 << 20);
	free(content);
	start();
	ok(tell("do", "append"), "a long file that is appended to");
	img = checkpoint(&manifest, &err);
	f = img ? file_of(img, GCK_FD_FILE, 0) : NULL;
	if (!ok(f && !f->whole && f->written && !f->data.rows.n && f->size == 20 << 20,
		"is not carried"))
		printf("# %s\n", err.text);
	ok(f && f->prefix.hi == want.hi && f->prefix.lo == want.lo, "but its hash is in the image");
	test_rewrite();
	gck_image_free(img);
	json_decref(manifest);
	is_int(stop(), 0, "the rank ends by itself");
}

/* Only smaps, which is read while the rank runs, shows locks. */
static void is_locked(const char *verb, bool locked)
{
	struct gck_error err = {0};
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	const struct gck_map *m = NULL;
	uint64_t page = page_of("zero");

	if (c && tell(verb, "locked") && !gck_capture_freeze(c, &err) &&
	    !gck_capture_take(c, true, &err))
		m = map_of(c->img, page);
	ok(m && !(m->flags & GCK_MAP_LOCKED) == !locked, "memory that is %s meanwhile %s",
	   locked ? "locked" : "unlocked", err.text);
	gck_capture_close(c);
}

/* Whether a copy of what is under way is open while the rank is held, and no longer. */
static bool is_copied(const char *name)
{
	struct gck_error err = {0};
	struct gck_capture *c;
	bool copied = false, closed = false;

	tell("do", name);
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	if (c && !gck_capture_freeze(c, &err) && !gck_capture_take(c, true, &err)) {
		copied = c->t.flight->n == 1 && c->t.flight->fds[0] >= 0;
		gck_capture_resume(c);
		closed = c->t.flight->fds[0] < 0;
	}
	gck_capture_close(c);
	tell("undo", name);
	return copied && closed;
}

/* What is under way in a socket is seen when nobody reads it. */
static void check_flight(void)
{
	static const char *const bad[][2] = {
		{"epoll-flight", "an epoll, timerfd, inotify or fanotify is under way"},
		{"lease-flight", "a file with a lease is under way in a unix socket"},
		{"empty-flight", "a descriptor is under way with an empty packet"},
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct gck_error err = {0};
		struct gck_capture *c;

		tell("do", bad[i][0]);
		c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
		ok(c && !gck_capture_freeze(c, &err) && gck_capture_take(c, true, &err) &&
		   err.code == EAGAIN && strstr(err.text, bad[i][1]), "%s", err.text);
		gck_capture_close(c);
		ok(tell("undo", bad[i][0]), "the rank goes on");
	}
	ok(is_copied("event-flight"), "copies of what is under way are closed before it runs on");
}

/* A request that does not end is met once the rank is held. */
static void check_late_ring(void)
{
	struct gck_error err = {0};
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);

	tell("do", "ring-open");
	ok(c && gck_capture_freeze(c, &err) && err.code == EAGAIN &&
	   strstr(err.text, "1 requests are under way"), "what does not end is refused: %s",
	   err.text);
	gck_capture_close(c);
	ok(tell("undo", "ring-open"), "and was not cut short");
}

/* They come and go between the looks at mappings and descriptors. */
static void check_many_rings(void)
{
	int refused = 0;

	tell("do", "ring-many");
	for (int i = 0; i < 100; i++) {
		struct gck_error err = {0};
		struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options,
							 &err);

		refused += !c && err.code != EAGAIN;
		if (!c && err.code != EAGAIN)
			printf("# %s\n", err.text);
		gck_capture_close(c);
	}
	is_int(refused, 0, "a rank that makes an io_uring all the time is not refused for good");
	ok(tell("undo", "ring-many"), "it goes on");
}

/* What only the held rank tells of its io_urings; and one that is used all the time. */
static void test_rings(void)
{
	static const char *const bad[][2] = {
		{"ring-wide", "an io_uring whose memory is laid out otherwise"},
		{"ring-eventfd", "an io_uring with an eventfd"},
		{"ring-own-eventfd", "an io_uring with an eventfd"},
		{"ring-number", "uses an io_uring by a registered number"},
		{"ring-child", "an io_uring that another process has, too"},
	};
	int taken = 0;

	if (!can_carry_rings()) {
		skip("io_uring", "needs Linux 6.8");
		return;
	}
	start();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		tell("do", bad[i][0]);
		ok(fails(bad[i][1]), "refused once it is held: %s", bad[i][1]);
		ok(tell("undo", bad[i][0]), "the rank goes on, and its ring works");
	}
	check_late_ring();
	check_many_rings();
	tell("do", "ring-busy");
	for (int i = 0; i < 20; i++) {
		struct gck_error err = {0};
		json_t *manifest = NULL;
		struct gck_image *img = checkpoint(&manifest, &err);

		taken += img != NULL;
		if (!img)
			printf("# %s\n", err.text);
		gck_image_free(img);
		json_decref(manifest);
	}
	is_int(taken, 20, "a rank that uses an io_uring all the time is captured");
	ok(tell("undo", "ring-busy"), "and none of its requests is cut short or lost");
	is_int(stop(), 0, "the rank ends by itself");
}

/* A file that whoever opens it waits for: F_UNLCK lets it go on. */
static int lease_program(void)
{
	char command[200], path[100];
	int fd;

	snprintf(path, sizeof path, "%s/leased-program", rank_directory);
	snprintf(command, sizeof command, "cp /bin/true %s", path);
	signal(SIGIO, SIG_IGN);
	fd = system(command) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK))
		printf("# %s: %s\n", path, strerror(errno));
	return fd;
}

static bool is_broken(int lease)
{
	for (int i = 0; i < 5000 && fcntl(lease, F_GETLEASE) == F_WRLCK; i++)
		usleep(1000);
	return fcntl(lease, F_GETLEASE) != F_WRLCK;
}

static int freeze(struct gck_error *err)
{
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, err);
	int failed = c ? gck_capture_freeze(c, err) : -1;

	gck_capture_close(c);
	return failed;
}

/* What it has written into its environment holds for this start only. */
static int meets_execution(const char *name)
{
	struct gck_error err = {0};
	int lease = lease_program();

	ok(tell("do", name) && is_broken(lease), "%s: it is about to execute a program", name);
	ok(freeze(&err) && err.code == EAGAIN && strstr(err.text, "about to execute a program"),
	   "which no checkpoint meets: %s", err.text);
	return lease;
}

static void check_execution(void)
{
	struct gck_error err = {0};
	int lease = meets_execution("execution");

	fcntl(lease, F_SETLEASE, F_UNLCK);
	close(lease);
	ok(tell("undo", "execution"), "it executes it");
	ok(!freeze(&err), "a program that was not there hinders no checkpoint");
	lease = meets_execution("left-execution");
	kill(rank.pid, SIGUSR1);
	ok(tell("undo", "left-execution"), "a signal takes it out of the call");
	ok(!freeze(&err), "which hinders no checkpoint: %s", err.text);
	ok(tell("do", "deeper-execution") && !freeze(&err),
	   "nor while its stack is longer than it was then: %s", err.text);
	fcntl(lease, F_SETLEASE, F_UNLCK);
	close(lease);
	lease = meets_execution("own-execution");
	kill(rank.pid, SIGKILL);
	close(lease);
}

static void test_held(void)
{
	start();
	tell("do", "memory");
	is_locked("do", true);
	is_locked("undo", false);
	check_flight();
	check_execution();
	stop();
}

static void test_headless(void)
{
	struct gck_error err = {0};

	start();
	ok(tell("do", "headless"), "the main thread ends, another one goes on");
	ok(!gck_process_ended(rank.pid), "the process has not ended");
	ok(!gck_process_able(rank.pid, &hello, &options, &err) &&
	   strstr(err.text, "its main thread has ended"), "able reports that: %s", err.text);
	err.text[0] = '\0';
	ok(!gck_capture_open(rank.pid, helper_link, &hello, &options, &err) &&
		   err.code == ENOTSUP && strstr(err.text, "its main thread has ended"),
	   "a checkpoint fails: %s", err.text);
	is_int(stop(), 0, "the rank ends by itself");
}

/* A child is part of the image, with a pipe between it and the rank. */
static void test_child(void)
{
	json_t *manifest = NULL;
	struct gck_error err = {0};
	struct gck_image *img;

	start();
	ok(tell("do", "half") && refuses(NULL), "a child with the other end of a pipe");
	img = checkpoint(&manifest, &err);
	ok(img && img->nprocesses == 1 && img->nchildren == 1 && img->children[0].runs &&
	   img->processes[0].vpid == img->children[0].vpid &&
	   img->processes[0].threads[0].vtid == img->children[0].vpid,
	   "is in the image: %s", err.text);
	gck_image_free(img);
	json_decref(manifest);
	ok(tell("undo", "half") && refuses(NULL), "it runs on, and ends when it is killed");
	tell("do", "outside");
	ok(!checkpoint(&manifest, &err) && strstr(err.text, "no descendant of the rank"),
	   "a child with memory of the rank's, and a pipe to another process: %s", err.text);
	ok(tell("undo", "outside") && refuses(NULL), "it is unharmed");
	is_int(stop(), 0, "the rank ends by itself");
}

/* Those of another step's rank, whose PID where it began was this rank's, are not this rank's. */
static void test_strangers(void)
{
	start();
	tell("do", "strangers");
	ok(refuses(NULL), "processes of another step, with the same PID, are not the rank's");
	tell("undo", "strangers");
	is_int(stop(), 0, "the rank ends by itself");
}

static char state_of(pid_t pid)
{
	int proc = gck_proc_open(pid, NULL);
	uint64_t v[GCK_STAT_FIELDS];
	char state = '?';

	if (proc < 0 || gck_proc_stat(proc, &state, v, NULL))
		state = '?';
	if (proc >= 0)
		close(proc);
	return state;
}

/* Once the rank is held, its child may go on to its preload. */
static pid_t begin_when_held(void)
{
	char name[64];
	pid_t pid = fork();

	if (pid)
		return pid;
	snprintf(name, sizeof name, "%s/begin", rank_directory);
	while (state_of(rank.pid) != 't')
		pause_ms(1);
	_exit(open(name, O_WRONLY | O_CLOEXEC) < 0);
}

static void test_starting(void)
{
	struct gck_error err = {0};
	struct gck_capture *c;
	bool held;
	pid_t pid;

	start();
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	ok(c && tell("do", "starting"), "a child has just executed a program: %s", err.text);
	pid = begin_when_held();
	held = c && !gck_capture_freeze(c, &err) && c->nchildren == 1;
	ok(held, "it is held once it has its preload: %s", held ? "" : err.text);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	gck_capture_close(c);
	tell("undo", "starting");
	is_int(stop(), 0, "the rank ends by itself");
}

/* What was known of a child before the rank was held is of another program. */
static void test_replaced(void)
{
	struct gck_error err = {0};
	struct gck_capture *c;
	const char *program;

	start();
	ok(tell("do", "replaced"), "a child");
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	ok(c && tell("do", "replace"), "executes another program: %s", err.text);
	program = c && !gck_capture_freeze(c, &err) && !gck_capture_take(c, true, &err) &&
				  c->nchildren == 1
			  ? strrchr(c->children[0]->img->exe, '/') : NULL;
	ok(program && !strcmp(program, "/sleep"), "the image has that: %s", err.text);
	gck_capture_close(c);
	tell("undo", "replaced");
	is_int(stop(), 0, "the rank ends by itself");
}

/* A program may look at how often a segment is attached: a frozen clone does not count. */
static void test_attached(void)
{
	struct gck_error err = {0};
	struct shmid_ds ds = {0};
	struct gck_capture *c;
	int looks = 200;
	bool taken;

	start();
	tell("do", "attached");
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	taken = c && !gck_capture_freeze(c, &err) && !gck_capture_take(c, true, &err);
	ok(taken, "a rank with a segment is taken: %s", err.text);
	do
		pause_ms(10);
	while (taken && !shmctl(shmget(rank.pid, 0, 0), IPC_STAT, &ds) && ds.shm_nattch != 1 &&
	       --looks);
	ok(taken && c->clone > 0 && !kill(c->clone, 0) && ds.shm_nattch == 1,
	   "its clone lives, and has not attached it");
	gck_capture_close(c);
	tell("undo", "attached");
	is_int(stop(), 0, "the rank ends by itself");
}

/* A capture takes the messages of a queue, and puts them back in their order. */
static void test_messages(void)
{
	char name[32], text[8192] = "";
	struct gck_error err = {0};
	struct gck_capture *c;
	mqd_t queue;
	bool taken;

	start();
	tell("do", "messages");
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	taken = c && !gck_capture_freeze(c, &err) && !gck_capture_take(c, true, &err);
	ok(taken && c->img->files[c->img->nfiles - 1].npackets == 3,
	   "a queue with messages is taken: %s", err.text);
	gck_capture_close(c);
	snprintf(name, sizeof name, "/gpuckpt-left-%d", (int)rank.pid);
	queue = mq_open(name, O_RDONLY | O_NONBLOCK);
	ok(mq_receive(queue, text, sizeof text, NULL) == 5 && !memcmp(text, "first", 5) &&
	   mq_receive(queue, text, sizeof text, NULL) == 6 && !memcmp(text, "second", 6) &&
	   mq_receive(queue, text, sizeof text, NULL) == 4 && !memcmp(text, "last", 4) &&
	   mq_receive(queue, text, sizeof text, NULL) < 0, "they are still there, in their order");
	mq_close(queue);
	tell("undo", "messages");
	is_int(stop(), 0, "the rank ends by itself");
}

/* Whether the rank's objects of this key, and its queue, are n. */
static bool are_left(pid_t pid, int n)
{
	char name[32];
	mqd_t queue;

	snprintf(name, sizeof name, "/gpuckpt-left-%d", (int)pid);
	queue = mq_open(name, O_RDONLY);
	if (queue >= 0)
		mq_close(queue);
	return (shmget(pid, 0, 0) >= 0) + (semget(pid, 0, 0) >= 0) + (msgget(pid, 0) >= 0) +
	       (queue >= 0) == n;
}

/* None of its processes goes on when it is ended while it is held. */
static void test_end(void)
{
	struct gck_error err = {0};
	struct gck_capture *c;
	pid_t child = 0;

	start();
	tell("do", "half");
	tell("do", "leave");
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	if (c && !gck_capture_freeze(c, &err) && c->nchildren == 1 &&
	    !gck_capture_take(c, true, &err)) {
		child = c->children[0]->t.pid;
		ok(are_left(rank.pid, 4), "it has a System V object of each kind, and a queue");
		gck_capture_end(c);
	}
	ok(are_left(rank.pid, 0), "which are removed: %s", err.text);
	gck_capture_close(c);
	ok(child && process_ends(child), "a child of a rank that is ended ends: %s", err.text);
	ok(process_ends(rank.pid), "and so does the rank");
	stop(); /* its parent is its tracer, which may have reaped it */
}

/* The rank was held while a child of its ended: the wait's arguments are the kernel's. */
static void test_wait(void)
{
	struct gck_thread thread = {.regs.orig_rax = SYS_wait4};
	struct gck_child child = {.vpid = 7};
	struct gck_image img = {.threads = &thread, .nthreads = 1};
	struct gck_error err = {0};
	struct gck_obstacles f = {.err = &err};
	struct gck_scan s = {.img = &img, .f = &f, .err = &err};

	ok(!gck_scan_waits(&s) && !f.refused, "a wait for a child that runs is no obstacle");
	img.children = &child;
	img.nchildren = 1;
	ok(!gck_scan_waits(&s) && f.refused && err.code == EAGAIN,
	   "one for a child that has ended is, for now: %s", err.text);
}

static void test_namespace(void)
{
	if (geteuid()) {
		skip("a namespace of its own", "only root may make one");
		return;
	}
	start();
	tell("do", "namespace");
	ok(refuses("it has its own uts namespace"), "a namespace of its own is refused");
	is_int(stop(), 0, "the rank ends by itself");
}

int main(void)
{
	tests_begin();
	test_able();
	test_fixed();
	test_image();
	test_lease();
	test_held();
	test_append();
	test_rings();
	test_headless();
	test_child();
	test_strangers();
	test_starting();
	test_replaced();
	test_attached();
	test_messages();
	test_end();
	test_wait();
	test_namespace();
	tests_end();
	return tap_done();
}
