/* SPDX-License-Identifier: Apache-2.0
 * A rank that changes its memory in every possible way: `dirty_program DIRECTORY`. It reads "work
 * SEED NUMBER" and answers "ok" after that many changes, chosen by the seed; "count" is answered by
 * 0, "writing" starts a thread that writes all the time, "exec" executes the same program again.
 * "rewrite" starts a thread that rewrites much memory all the time, and "forked" is answered by ok
 * if a child by fork has that memory, and not what it must not have. */
#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/process/test/dirty_program.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define MOST (4ul << 20) /* bytes of a slot in use */
#define FILE_SIZE MOST

static size_t sizes[DIRTY_SLOTS]; /* 0: not mapped */
static bool closed[DIRTY_SLOTS];  /* not writable now */
static bool pieces[DIRTY_SLOTS];  /* several mappings, which mremap does not move at once */
static uint64_t seed_;
static int data_fd, direct_fd;

static uint64_t rnd(void)
{
	seed_ ^= seed_ << 13;
	seed_ ^= seed_ >> 7;
	seed_ ^= seed_ << 17;
	return seed_;
}

static char *slot_at(int i)
{
	return (char *)DIRTY_AT + (size_t)i * DIRTY_STRIDE;
}

static void map(int i, void *wanted, size_t size, int prot)
{
	if (mmap(wanted, size, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != wanted)
		_exit(3);
	sizes[i] = size;
	closed[i] = false;
}

/* ---- a page of a slot ---------------------------------------------------------------------- */

static void store_byte(char *page)
{
	page[rnd() % DIRTY_PAGE] = (char)rnd();
}

static void store_word(char *page)
{
	__atomic_add_fetch((uint64_t *)(void *)(page + rnd() % 512 * 8), rnd(), __ATOMIC_RELAXED);
}

static void store_page(char *page)
{
	uint64_t word = rnd();

	for (size_t i = 0; i < DIRTY_PAGE; i += 8)
		memcpy(page + i, &word, sizeof(word));
}

static void store_zeros(char *page)
{
	memset(page, 0, DIRTY_PAGE);
}

static void only_read(char *page)
{
	(void)*(volatile char *)page;
}

static void by_read(char *page)
{
	size_t n = rnd() % DIRTY_PAGE + 1;

	if (pread(data_fd, page, n, (off_t)(rnd() % (FILE_SIZE - DIRTY_PAGE))) != (ssize_t)n)
		_exit(4);
}

/* From the disk directly into the page, if the file system supports that. */
static void by_direct(char *page)
{
	if (direct_fd >= 0)
		(void)!pread(direct_fd, page, DIRTY_PAGE, (off_t)(rnd() % 200 * DIRTY_PAGE));
}

static void by_pipe(char *page)
{
	char data[64];
	int p[2];

	memset(data, (int)rnd(), sizeof(data));
	if (pipe(p) || write(p[1], data, sizeof(data)) < 0 || read(p[0], page, sizeof(data)) < 0)
		_exit(5);
	close(p[0]);
	close(p[1]);
}

static void by_socket(char *page)
{
	uint64_t word = rnd();
	int p[2];

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, p) || send(p[0], &word, sizeof(word), 0) < 0 ||
	    recv(p[1], page + 128, sizeof(word), 0) < 0)
		_exit(6);
	close(p[0]);
	close(p[1]);
}

static void by_kernel(char *page)
{
	(void)!getrandom(page, 100, 0);
}

/* Through /proc/self/mem, bypassing the program's mapping. */
static void by_mem(char *page)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	uint64_t word = rnd();

	if (fd >= 0 && pwrite(fd, &word, sizeof(word), (off_t)(uintptr_t)page + 8) < 0)
		_exit(7);
	close(fd);
}

static void by_vm(char *page)
{
	uint64_t word = rnd();
	struct iovec from = {&word, sizeof(word)}, to = {page + 16, sizeof(word)};

	if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) < 0)
		_exit(8);
}

/* A child gets a copy; when it has ended, the page is the parent's alone again. */
static void beside_child(char *page)
{
	pid_t pid = fork();

	if (pid == 0) {
		store_page(page);
		_exit(0);
	}
	if (rnd() % 2)
		store_word(page);
	waitpid(pid, NULL, 0);
}

/* A child with the same memory. */
static void by_vfork(char *page)
{
	volatile char *to = page + rnd() % DIRTY_PAGE;
	char value = (char)rnd();
	pid_t pid = vfork();

	if (pid == 0) {
		*to = value;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void throw_away(char *page)
{
	madvise(page, DIRTY_PAGE, MADV_DONTNEED);
}

static void throw_and_read(char *page)
{
	throw_away(page);
	only_read(page);
}

static void throw_and_store(char *page)
{
	throw_away(page);
	store_byte(page);
}

static void free_and_store(char *page)
{
	madvise(page, DIRTY_PAGE, MADV_FREE);
	store_word(page);
}

static void swap_out(char *page)
{
	madvise(page, DIRTY_PAGE, MADV_PAGEOUT);
	if (rnd() % 2)
		store_byte(page);
}

static void populate(char *page)
{
	madvise(page, DIRTY_PAGE, MADV_POPULATE_WRITE);
}

static void protect_and_store(char *page)
{
	mprotect(page, DIRTY_PAGE, PROT_READ);
	only_read(page);
	mprotect(page, DIRTY_PAGE, PROT_READ | PROT_WRITE);
	store_byte(page);
}

static void (*const on_page[])(char *) = {
	store_byte, store_byte, store_byte, store_word, store_word, store_page, store_page,
	store_zeros, only_read, by_read, by_direct, by_pipe, by_socket, by_kernel, by_mem, by_vm,
	beside_child, by_vfork, throw_away, throw_and_read, throw_and_store, free_and_store,
	swap_out, populate, protect_and_store,
};

/* ---- a slot -------------------------------------------------------------------------------- */

static void map_anew(int i)
{
	size_t size = (rnd() % 16 + 1) * (MOST / 16);
	bool all = rnd() % 2;

	munmap(slot_at(i), DIRTY_STRIDE);
	map(i, slot_at(i), size, PROT_READ | PROT_WRITE);
	pieces[i] = false;
	for (size_t at = 0; at < size; at += DIRTY_PAGE)
		if (all || rnd() % 4)
			store_page(slot_at(i) + at);
}

/* Map over a part; what is around it stays. */
static void map_over(int i)
{
	size_t at = rnd() % (sizes[i] / DIRTY_PAGE) * DIRTY_PAGE;
	size_t size = rnd() % 32 * DIRTY_PAGE + DIRTY_PAGE, all = sizes[i];

	if (size > all - at)
		size = all - at;
	map(i, slot_at(i) + at, size, PROT_READ | PROT_WRITE);
	sizes[i] = all;
	pieces[i] = true;
	if (rnd() % 2)
		store_page(slot_at(i) + at);
}

static void map_file(int i)
{
	size_t size = sizes[i] / 4;

	mmap(slot_at(i), size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, data_fd, 0);
	store_byte(slot_at(i));
	pieces[i] = true;
}

static void resize(int i)
{
	size_t size = (rnd() % 16 + 1) * (MOST / 16);

	if (!pieces[i] && mremap(slot_at(i), sizes[i], size, 0) != MAP_FAILED)
		sizes[i] = size;
}

/* Exchange two slots with their pages. */
static void exchange(int i)
{
	int other = (int)(rnd() % DIRTY_SLOTS);
	char *aside = slot_at(DIRTY_SLOTS);
	size_t size = sizes[i];

	if (other == i || !sizes[other] || closed[other] || pieces[i] || pieces[other])
		return;
	if (mremap(slot_at(i), size, size, MREMAP_MAYMOVE | MREMAP_FIXED, aside) == MAP_FAILED ||
	    mremap(slot_at(other), sizes[other], sizes[other], MREMAP_MAYMOVE | MREMAP_FIXED,
		   slot_at(i)) == MAP_FAILED ||
	    mremap(aside, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, slot_at(other)) == MAP_FAILED)
		_exit(9);
	sizes[i] = sizes[other];
	sizes[other] = size;
}

/* Move the pages to another slot; the mapping stays and is empty. */
static void move_pages_out(int i)
{
	int other = (int)(rnd() % DIRTY_SLOTS);

	if (other == i || closed[other] || pieces[i])
		return;
	munmap(slot_at(other), DIRTY_STRIDE);
	sizes[other] = 0;
	if (mremap(slot_at(i), sizes[i], sizes[i],
		   MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, slot_at(other)) != MAP_FAILED)
		sizes[other] = sizes[i];
	pieces[other] = false;
}

static void close_it(int i)
{
	mprotect(slot_at(i), sizes[i], rnd() % 2 ? PROT_NONE : PROT_READ);
	closed[i] = true;
}

static void huge(int i)
{
	madvise(slot_at(i), sizes[i], rnd() % 3 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	if (rnd() % 2)
		madvise(slot_at(i), sizes[i], MADV_COLLAPSE);
}

static void throw_all(int i)
{
	madvise(slot_at(i), sizes[i], rnd() % 2 ? MADV_DONTNEED : MADV_FREE);
}

static void (*const on_slot[])(int) = {
	map_anew, map_anew, map_over, map_over, map_over, map_file, resize, resize, exchange,
	exchange, move_pages_out, close_it, huge, huge, throw_all,
};

/* ---- the program --------------------------------------------------------------------------- */

static void change(void)
{
	int i = (int)(rnd() % DIRTY_SLOTS);

	if (closed[i]) {
		if (rnd() % 4)
			return;
		mprotect(slot_at(i), sizes[i], PROT_READ | PROT_WRITE);
		closed[i] = false;
	}
	if (!sizes[i])
		map_anew(i);
	else if (rnd() % 12)
		on_page[rnd() % (sizeof(on_page) / sizeof(on_page[0]))](
			slot_at(i) + rnd() % (sizes[i] / DIRTY_PAGE) * DIRTY_PAGE);
	else
		on_slot[rnd() % (sizeof(on_slot) / sizeof(on_slot[0]))](i);
}

/* Writes in a slot of its own while the other thread works. */
static void *write_on(void *arg)
{
	char *at = (char *)DIRTY_AT + (DIRTY_SLOTS + 1ul) * DIRTY_STRIDE;

	(void)arg;
	if (mmap(at, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) != at)
		_exit(10);
	for (uint64_t n = 1;; n++) {
		memcpy(at + n * 7919 % (MOST / DIRTY_PAGE) * DIRTY_PAGE, &n, sizeof(n));
		if (n % 16 == 0)
			usleep(100);
	}
	return NULL;
}

static void *rewrite_on(void *arg)
{
	for (uint64_t n = 1;; n++)
		for (size_t at = 0; at < REWRITTEN_BYTES; at += DIRTY_PAGE)
			memcpy((char *)arg + at + 8 * (n % 512), &n, sizeof(n));
	return NULL;
}

static bool rewrite(void)
{
	char *at = mmap((void *)UNFORKED_AT, UNFORKED_BYTES + REWRITTEN_ALL, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	pthread_t thread;

	madvise(at, UNFORKED_BYTES + REWRITTEN_ALL, MADV_NOHUGEPAGE);
	madvise(at, UNFORKED_BYTES, MADV_DONTFORK);
	for (size_t i = 0; i < UNFORKED_BYTES + REWRITTEN_ALL; i += DIRTY_PAGE)
		at[i] = (char)(i / DIRTY_PAGE | 1);
	return !pthread_create(&thread, NULL, rewrite_on, (void *)REWRITTEN_AT);
}

static bool is_mapped(uint64_t at)
{
	unsigned char there;

	return mincore((void *)at, DIRTY_PAGE, &there) == 0;
}

static bool forked(void)
{
	int status = 1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(is_mapped(UNFORKED_AT) || !is_mapped(REWRITTEN_AT) ||
		      !is_mapped(REWRITTEN_AT + REWRITTEN_ALL - DIRTY_PAGE));
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static void make_data(const char *directory)
{
	char path[256], page[DIRTY_PAGE];

	snprintf(path, sizeof(path), "%s/data", directory);
	data_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (size_t i = 0; i < FILE_SIZE / DIRTY_PAGE; i++) {
		memset(page, (int)i + 1, sizeof(page));
		if (write(data_fd, page, sizeof(page)) != sizeof(page))
			_exit(11);
	}
	fsync(data_fd);
	close(data_fd);
	data_fd = open(path, O_RDONLY | O_CLOEXEC);
	direct_fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
}

int main(int argc, char **argv)
{
	char line[128];
	pthread_t thread;

	if (argc != 2)
		return 2;
	make_data(argv[1]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long seed, n;

		if (sscanf(line, "work %lu %lu", &seed, &n) == 2) {
			seed_ = seed * 0x9e3779b97f4a7c15ul + 1;
			while (n--)
				change();
			puts("ok");
		} else if (!strcmp(line, "writing\n")) {
			puts(pthread_create(&thread, NULL, write_on, NULL) ? "no" : "ok");
		} else if (!strcmp(line, "rewrite\n")) {
			puts(rewrite() ? "ok" : "no");
		} else if (!strcmp(line, "forked\n")) {
			puts(forked() ? "ok" : "no");
		} else if (!strcmp(line, "exec\n")) {
			puts("ok");
			execv("/proc/self/exe", argv);
			_exit(12);
		} else {
			puts("0");
		}
	}
	return 0;
}
