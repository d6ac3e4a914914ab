/* SPDX-License-Identifier: Apache-2.0
 * Reading pages: the page map, by PAGEMAP_SCAN and on kernels without it; packing. */
#include "shim/process/proc/pages.c"

#include <sys/mman.h>

#include "test/support/tap.h"

#define PAGES 64

/* Pages 1 and 2 are written, 5 is read only, 9 is written and freed, 20 is written. */
static char *make_anonymous(void)
{
	char *at = mmap(NULL, PAGES * GCK_PAGE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile char seen;

	madvise(at, PAGES * GCK_PAGE, MADV_NOHUGEPAGE);
	at[GCK_PAGE] = at[2 * GCK_PAGE] = at[20 * GCK_PAGE] = 'x';
	seen = at[5 * GCK_PAGE];
	at[9 * GCK_PAGE] = 'x';
	madvise(at + 9 * GCK_PAGE, GCK_PAGE, MADV_DONTNEED);
	(void)seen;
	return at;
}

static char *make_file(void)
{
	int fd = memfd_create("a", 0);
	char *at;
	volatile char seen = 0;

	if (ftruncate(fd, PAGES * GCK_PAGE))
		abort();
	at = mmap(NULL, PAGES * GCK_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	for (int i = 0; i < PAGES; i++)
		seen += at[i * (int)GCK_PAGE];
	(void)seen;
	at[7 * GCK_PAGE] = 'y';
	close(fd);
	return at;
}

static bool has(const struct gck_ranges *r, const char *base, unsigned page)
{
	uint64_t at = (uintptr_t)base + (uint64_t)page * GCK_PAGE;

	for (size_t i = 0; i < r->n; i++)
		if (at >= r->v[i].start && at < r->v[i].end)
			return true;
	return false;
}

/* Whether pages that were only read are one page of zeros: not with every kernel. Two that are not
 * one have different numbers, which root can read. */
static bool has_zero_page(const char *read)
{
	uint64_t at[2] = {0, 0};
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	char *other = mmap(NULL, GCK_PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const char *page[2] = {read, other};
	volatile char seen = *other;

	for (int i = 0; i < 2; i++)
		if (pread(fd, &at[i], 8, (off_t)((uintptr_t)page[i] / GCK_PAGE * 8)) != 8)
			abort();
	(void)seen;
	munmap(other, GCK_PAGE);
	close(fd);
	return at[0] << 9 == at[1] << 9;
}

static void test_scan(const struct gck_source *s, bool fast)
{
	const char *name = fast ? "PAGEMAP_SCAN" : "pagemap";
	char *anonymous = make_anonymous(), *file = make_file();
	struct gck_ranges a = {0}, f = {0}, now = {0}, guards = {0};
	uint64_t start = (uintptr_t)anonymous, size = (uint64_t)PAGES * GCK_PAGE;
	int (*scan)(const struct gck_source *, uint64_t, uint64_t, bool, struct gck_ranges *,
		    struct gck_ranges *, struct gck_error *) = fast ? scan_fast : scan_slow;
	int result = scan(s, start, start + size, false, &a, &guards, NULL);

	if (result > 0) {
		skip(name, "this kernel has no PAGEMAP_SCAN");
		return;
	}
	ok(!result && has(&a, anonymous, 1) && has(&a, anonymous, 2) && has(&a, anonymous, 20),
	   "%s: written pages", name);
	ok(!has(&a, anonymous, 0) && !has(&a, anonymous, 9) && !has(&a, anonymous, 21),
	   "%s: not unwritten ones", name);
	if (fast && !has_zero_page(anonymous + 5 * GCK_PAGE))
		skip("PAGEMAP_SCAN: nor the zero page", "this kernel has none");
	else
		ok(!fast || !has(&a, anonymous, 5), "%s: nor the zero page", name);
	start = (uintptr_t)file;
	ok(!scan(s, start, start + size, true, &f, &guards, NULL) && f.n == 1 && has(&f, file, 7) &&
	   !has(&f, file, 6) && !has(&f, file, 8), "%s: the changed page of a file", name);
	if (madvise(anonymous + 20 * GCK_PAGE, GCK_PAGE, 102) || !gck_pagemap_guard())
		skip(name, "this kernel has no guard pages, or does not show them");
	else
		ok(!scan(s, (uintptr_t)anonymous, (uintptr_t)anonymous + size, false, &now, &guards,
			 NULL) && !has(&now, anonymous, 20) && guards.n == 1 &&
		   has(&guards, anonymous, 20), "%s: a guard page", name);
	free(a.v);
	free(f.v);
	free(now.v);
	free(guards.v);
	munmap(anonymous, size);
	munmap(file, size);
}

static void test_read(const struct gck_source *s)
{
	char *at = make_anonymous(), data[2 * GCK_PAGE];
	uint64_t base = (uintptr_t)at;
	struct gck_range v[] = {{base + 20 * GCK_PAGE, base + 21 * GCK_PAGE},
				{base + 2 * GCK_PAGE, base + 3 * GCK_PAGE}};
	struct gck_error err = {0};

	mprotect(at + 20 * GCK_PAGE, GCK_PAGE, PROT_NONE);
	ok(!gck_source_read(s, v, 2, data, &err) && data[0] == 'x' && data[GCK_PAGE] == 'x' &&
	   data[1] == 0, "ranges are read, also with PROT_NONE");
	munmap(at + 2 * GCK_PAGE, GCK_PAGE);
	ok(gck_source_read(s, v, 2, data, &err) == -1 && err.code, "an unmapped range: %s",
	   err.text);
	munmap(at, PAGES * GCK_PAGE);
}

static void test_pack(void)
{
	static char data[4 * GCK_PAGE];

	data[GCK_PAGE + 4095] = 1;
	data[3 * GCK_PAGE] = 2;
	ok(gck_pack_pages(data, 0x8000000000000111ull) == 0x8000000000000010ull,
	   "zero pages are dropped");
	ok(data[4095] == 1 && data[GCK_PAGE] == 2, "and the others move up");
	memset(data, 0, sizeof(data));
	is_int((long long)gck_pack_pages(data, 15), 0, "only zero pages");
	memset(data, 1, sizeof(data));
	is_int((long long)gck_pack_pages(data, 15), 15, "no zero pages");
}

int main(void)
{
	struct gck_source s;
	struct gck_error err;

	ok(!gck_source_open(&s, getpid(), &err), "this process");
	test_scan(&s, true);
	test_scan(&s, false);
	test_read(&s);
	test_pack();
	gck_source_close(&s);
	ok(gck_source_open(&s, 1 << 22, &err) == -1 && s.mem == -1, "no such process");
	return tap_done();
}
