/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shim/process/test/capture_rings.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SINGLE (1u << 12)       /* IORING_SETUP_SINGLE_ISSUER, of Linux 6.0 */
#define DEFER (1u << 13)        /* IORING_SETUP_DEFER_TASKRUN, of 6.1 */
#define RING_FDS 20             /* IORING_REGISTER_RING_FDS, of 5.18; one more: removes them */
#define PBUF_RING 22            /* IORING_REGISTER_PBUF_RING, of 5.19 */
#define ENTRIES 8
#define DEPTH 4
#define BLOCK 65536

static int ring = -1, event = -1, file[2] = {-1, -1};
static char *memory;
static struct io_uring_sqe *entries;
static struct io_uring_params p;
static pid_t child;
static pthread_t worker;
static volatile bool ends;
static bool numbered, opens;
static const char *wrong;

static uint32_t *at(uint32_t offset)
{
	return (uint32_t *)(void *)(memory + offset);
}

static void check(bool good, const char *what)
{
	if (!good) {
		wrong = what;
		printf("# io_uring: %s: %s\n", what, strerror(errno));
	}
}

static void open_ring(uint32_t flags)
{
	p = (struct io_uring_params){.flags = flags};
	wrong = NULL;
	ring = (int)syscall(SYS_io_uring_setup, ENTRIES, &p);
	check(ring >= 0, "it cannot be made");
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	entries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
	check(memory != MAP_FAILED && (void *)entries != MAP_FAILED, "it cannot be mapped");
}

static void put(struct io_uring_sqe x)
{
	uint32_t tail = *at(p.sq_off.tail), place = tail & (ENTRIES - 1);

	entries[place] = x;
	at(p.sq_off.array)[place] = place;
	__atomic_store_n(at(p.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
}

static void enter(unsigned submit, unsigned wait, unsigned flags)
{
	check(syscall(SYS_io_uring_enter, ring, submit, wait, flags, NULL, 0) == submit,
	      "requests are not submitted");
}

static void submit(struct io_uring_sqe x)
{
	put(x);
	enter(1, 0, 0);
}

static struct io_uring_sqe nop(uint64_t data)
{
	return (struct io_uring_sqe){.opcode = IORING_OP_NOP, .user_data = data};
}

/* What has ended next; 12345: nothing. */
static int32_t take(uint64_t *data)
{
	uint32_t head = *at(p.cq_off.head);
	const struct io_uring_cqe *all = (void *)(memory + p.cq_off.cqes);
	struct io_uring_cqe x = all[head & (p.cq_entries - 1)];

	if (__atomic_load_n(at(p.cq_off.tail), __ATOMIC_ACQUIRE) == head)
		return 12345;
	__atomic_store_n(at(p.cq_off.head), head + 1, __ATOMIC_RELEASE);
	*data = x.user_data;
	return x.res;
}

static int ask(unsigned what, const void *arg, unsigned n)
{
	int result = (int)syscall(SYS_io_uring_register, ring, what, arg, n);

	check(result >= 0, "something cannot be registered");
	return result;
}

/* ---- what does not end, or is not known ------------------------------------------------------ */

void ring_do_poll(void)
{
	open_ring(0);
	event = eventfd(0, 0);
	submit((struct io_uring_sqe){.opcode = IORING_OP_POLL_ADD, .fd = event,
				     .poll32_events = POLLIN, .user_data = 1});
}

void ring_do_timeout(void)
{
	static const struct __kernel_timespec long_time = {.tv_sec = 1000};

	open_ring(0);
	submit((struct io_uring_sqe){.opcode = IORING_OP_TIMEOUT, .len = 1, .off = 1,
				     .addr = (uint64_t)(uintptr_t)&long_time, .user_data = 1});
}

/* A poll that tells more than once. */
void ring_do_more(void)
{
	open_ring(0);
	event = eventfd(0, EFD_NONBLOCK);
	submit((struct io_uring_sqe){.opcode = IORING_OP_POLL_ADD, .fd = event,
				     .poll32_events = POLLIN, .len = IORING_POLL_ADD_MULTI});
	for (int i = 0; i < 2; i++) {
		check(!eventfd_write(event, 1), "no event");
		enter(0, 1, IORING_ENTER_GETEVENTS);
	}
	submit((struct io_uring_sqe){.opcode = IORING_OP_POLL_REMOVE, .user_data = 3});
	enter(0, 1, IORING_ENTER_GETEVENTS);
}

static bool rename_worker(const char *path)
{
	int fd = open(path, O_RDWR);
	char name[16] = "";
	bool is = fd >= 0 && read(fd, name, sizeof name - 1) > 0 && !strncmp(name, "iou-wrk-", 8) &&
		  write(fd, "program", 7) == 7;

	if (fd >= 0)
		close(fd);
	return is;
}

/* A new worker has its creator's name until it runs. This one keeps such a name. */
static void rename_workers(void)
{
	int n = 0;

	for (int ms = 0; !n && ms < 10000; ms++) {
		glob_t tasks;

		usleep(1000);
		if (glob("/proc/self/task/*/comm", 0, NULL, &tasks))
			continue;
		for (size_t i = 0; i < tasks.gl_pathc; i++)
			n += rename_worker(tasks.gl_pathv[i]);
		globfree(&tasks);
	}
	check(n, "there is no worker");
}

/* One of the kernel's workers waits for who writes. */
void ring_do_open(void)
{
	open_ring(0);
	check(!mkfifo("waits", 0600), "no named pipe");
	submit((struct io_uring_sqe){.opcode = IORING_OP_OPENAT, .fd = AT_FDCWD,
				     .addr = (uint64_t)(uintptr_t)"waits", .flags = IOSQE_ASYNC,
				     .open_flags = O_RDONLY, .user_data = 1});
	opens = true;
	rename_workers();
}

/* ---- what cannot be made again --------------------------------------------------------------- */

void ring_do_disabled(void)
{
	open_ring(IORING_SETUP_R_DISABLED);
}

void ring_do_personality(void)
{
	open_ring(0);
	submit((struct io_uring_sqe){.opcode = IORING_OP_NOP, .personality = (uint16_t)
				     ask(IORING_REGISTER_PERSONALITY, NULL, 0)});
}

void ring_do_closed(void)
{
	open_ring(0);
	close(ring);
	ring = -1;
}

void ring_do_provided(void)
{
	static char buffers[4096] __attribute__((aligned(4096)));
	struct {
		uint64_t address;
		uint32_t entries;
		uint16_t group, flags;
		uint64_t reserved[3];
	} x = {(uint64_t)(uintptr_t)buffers, 8, 5, 0, {0}};

	open_ring(0);
	ask(PBUF_RING, &x, 1);
}

/* Of a ring that only one thread may ask, a request shows it. */
void ring_do_selected(void)
{
	static char buffer[64];

	open_ring(SINGLE | DEFER);
	put((struct io_uring_sqe){.opcode = IORING_OP_PROVIDE_BUFFERS, .fd = 1,
				  .len = sizeof buffer,
				  .addr = (uint64_t)(uintptr_t)buffer});
	enter(1, 1, IORING_ENTER_GETEVENTS);
}

static void register_file(bool again)
{
	open_ring(0);
	file[0] = open("registered", O_RDWR | O_CREAT, 0600);
	ask(IORING_REGISTER_FILES, file, 1);
	if (again) {
		file[1] = open("registered", O_RDWR);
	} else {
		close(file[0]);
		file[0] = -1;
	}
}

void ring_do_file(void)
{
	register_file(false);
}

void ring_do_twice(void)
{
	register_file(true);
}

/* Its completions are where the array of another would be. */
void ring_do_wide(void)
{
	open_ring(1u << 11); /* IORING_SETUP_CQE32 */
	for (int i = 0; i < 2 * ENTRIES; i++)
		submit(nop(~0ull));
}

void ring_do_eventfd(void)
{
	open_ring(0);
	event = eventfd(0, 0);
	ask(IORING_REGISTER_EVENTFD, &event, 1);
}

void ring_do_own_eventfd(void)
{
	open_ring(SINGLE | DEFER);
	event = eventfd(0, 0);
	ask(IORING_REGISTER_EVENTFD, &event, 1);
}

void ring_do_number(void)
{
	struct io_uring_rsrc_update x = {.offset = ~0u};

	open_ring(0);
	x.data = (uint64_t)ring;
	ask(RING_FDS, &x, 1);
	numbered = true;
}

void ring_do_child(void)
{
	open_ring(0);
	child = fork();
	if (!child)
		for (;;)
			pause();
}

/* ---- one that is used ------------------------------------------------------------------------ */

/* Workers of the kernel read; what they have read is known to this thread when it asks, which it
 * does after a while. */
static void *use(void *unused)
{
	static char blocks[DEPTH][BLOCK];

	open_ring(SINGLE | DEFER);
	while (!ends && !wrong) {
		uint64_t data, sum = 0;

		for (uint64_t i = 0; i < DEPTH; i++)
			put((struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = file[0],
						  .flags = IOSQE_ASYNC, .len = BLOCK,
						  .addr = (uint64_t)(uintptr_t)blocks[i],
						  .off = i * BLOCK, .user_data = i});
		enter(DEPTH, 0, 0);
		usleep(3000);
		enter(0, DEPTH, IORING_ENTER_GETEVENTS);
		for (int i = 0; i < DEPTH; i++) {
			check(take(&data) == BLOCK, "a read is cut short");
			sum += data;
		}
		check(sum == DEPTH * (DEPTH - 1) / 2, "a request is lost");
	}
	return unused;
}

void ring_do_busy(void)
{
	ends = false;
	file[0] = open("blocks", O_RDWR | O_CREAT, 0600);
	check(!ftruncate(file[0], DEPTH * BLOCK), "no file");
	pthread_create(&worker, NULL, use, NULL);
}

/* A ring is there for a moment, again and again. */
static void *make_many(void *unused)
{
	while (!ends && !wrong) {
		open_ring(0);
		usleep(50);
		munmap(entries, 4096);
		munmap(memory, 4096);
		close(ring);
	}
	open_ring(0);
	return unused;
}

void ring_do_many(void)
{
	ends = false;
	pthread_create(&worker, NULL, make_many, NULL);
}

/* ---- and removed ----------------------------------------------------------------------------- */

static void end_busy(void)
{
	ends = true;
	pthread_join(worker, NULL);
	worker = 0;
}

/* A request that did not end does so now, with its own result. */
static void end_one(void)
{
	bool polls = event >= 0 && *at(p.cq_off.tail) == 0 && *at(p.sq_off.head) == 1;
	uint64_t data = 0;

	if (polls) {
		check(!eventfd_write(event, 1), "no event");
		enter(0, 1, IORING_ENTER_GETEVENTS);
		check(take(&data) == POLLIN && data == 1, "the poll is lost");
	}
	if (opens) {
		file[1] = open("waits", O_WRONLY | O_NONBLOCK);
		check(file[1] >= 0, "nobody reads");
		enter(0, 1, IORING_ENTER_GETEVENTS);
		file[0] = take(&data);
		check(file[0] >= 0 && data == 1 && !unlink("waits"), "the open is cut short");
	}
	opens = false;
	while (take(&data) != 12345)
		;
	put(nop(99));
	enter(1, 1, IORING_ENTER_GETEVENTS);
	while (take(&data) != 12345 && data != 99)
		;
	check(data == 99 || p.flags & (1u << 11), "it does not work any more");
}

void ring_undo(void)
{
	if (worker)
		end_busy();
	else if (ring >= 0 && !(p.flags & IORING_SETUP_R_DISABLED))
		end_one();
	if (numbered)
		ask(RING_FDS + 1, &(struct io_uring_rsrc_update){.offset = 0}, 1);
	numbered = false;
	if (child) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
		child = 0;
	}
	munmap(memory, 4096);
	munmap(entries, 4096);
	close(ring);
	close(event);
	close(file[0]);
	close(file[1]);
	ring = event = file[0] = file[1] = -1;
	if (wrong)
		exit(5);
}
