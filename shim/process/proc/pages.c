/* SPDX-License-Identifier: Apache-2.0
 * Reading a stopped process's pages through /proc/PID/mem. process_vm_readv would be simpler, but
 * it pins pages, and pinning a page that a fork shares gives the clone a copy: twice the memory,
 * and slower. */
#include "config.h"

#include "shim/process/proc/pages.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/process/image/image.h"
#include "shim/process/proc/pagemap.h"
#include "shim/process/proc/trace.h"

#define ENTRY_PRESENT (1ull << 63)
#define ENTRY_SWAPPED (1ull << 62)
#define ENTRY_FILE (1ull << 61)
#define ENTRY_GUARD (1ull << 58)
#define ENTRIES 4096

static int open_file(pid_t pid, const char *name, struct gck_error *err)
{
	char path[48];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd : gck_fail(err, errno, "cannot open %s: %s", path, strerror(errno));
}

int gck_source_open(struct gck_source *s, pid_t pid, struct gck_error *err)
{
	s->pid = pid;
	s->pagemap = open_file(pid, "pagemap", err);
	s->mem = s->pagemap < 0 ? -1 : open_file(pid, "mem", err);
	if (s->mem >= 0)
		return 0;
	gck_source_close(s);
	return -1;
}

void gck_source_close(struct gck_source *s)
{
	if (s->pagemap >= 0)
		close(s->pagemap);
	if (s->mem >= 0)
		close(s->mem);
	s->pagemap = s->mem = -1;
}

int gck_ranges_add(struct gck_ranges *r, uint64_t start, uint64_t end,
		   struct gck_error *err)
{
	struct gck_range *last = r->n ? &r->v[r->n - 1] : NULL;

	if (last && last->end == start) {
		last->end = end;
		return 0;
	}
	if (r->n == r->capacity) {
		size_t capacity = r->capacity ? r->capacity * 2 : 1024;
		struct gck_range *v = realloc(r->v, capacity * sizeof(*v));

		if (!v)
			return gck_fail(err, ENOMEM, "out of memory for the list of pages");
		r->v = v;
		r->capacity = capacity;
	}
	r->v[r->n++] = (struct gck_range){start, end};
	return 0;
}

bool gck_ranges_next_part(const struct gck_ranges *without, uint64_t *at, uint64_t end,
			  struct gck_range *part)
{
	size_t i = 0;

	for (; i < without->n && without->v[i].start <= *at; i++)
		if (without->v[i].end > *at)
			*at = without->v[i].end;
	if (*at >= end)
		return false;
	*part = (struct gck_range){*at, end};
	if (i < without->n && without->v[i].start < end)
		part->end = without->v[i].start;
	*at = part->end;
	return true;
}

uint64_t gck_pagemap_guard(void)
{
	static int known = -1;
	struct gck_pagemap_scan arg = {.size = sizeof(arg), .return_mask = GCK_PAGE_GUARD};
	int fd = known < 0 ? open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		known = ioctl(fd, GCK_PAGEMAP_SCAN, &arg) == 0;
		close(fd);
	}
	return known > 0 ? GCK_PAGE_GUARD : 0;
}

/* 1: this kernel has no PAGEMAP_SCAN. */
static int scan_fast(const struct gck_source *s, uint64_t start, uint64_t end, bool file,
		     struct gck_ranges *out, struct gck_ranges *guards, struct gck_error *err)
{
	struct gck_pagemap_region regions[GCK_PAGEMAP_REGIONS];
	struct gck_pagemap_scan arg = {
		.size = sizeof(arg), .start = start, .end = end,
		.vec = (uintptr_t)regions, .vec_len = GCK_PAGEMAP_REGIONS,
		.category_inverted = GCK_PAGE_ZERO | (file ? GCK_PAGE_FILE : 0),
		.category_mask = GCK_PAGE_ZERO | (file ? GCK_PAGE_FILE : 0),
		.category_anyof_mask = GCK_PAGE_PRESENT | GCK_PAGE_SWAPPED,
		.return_mask = GCK_PAGE_PRESENT | GCK_PAGE_SWAPPED | gck_pagemap_guard(),
	};

	while (arg.start < end) {
		int n = ioctl(s->pagemap, GCK_PAGEMAP_SCAN, &arg);

		if (n < 0 && (errno == ENOTTY || errno == EINVAL))
			return 1;
		if (n < 0)
			return gck_fail(err, errno, "cannot read the page map of process %d: %s",
					(int)s->pid, strerror(errno));
		for (int i = 0; i < n; i++)
			if (gck_ranges_add(regions[i].categories & GCK_PAGE_GUARD ? guards : out,
					   regions[i].start, regions[i].end, err))
				return -1;
		if (arg.walk_end <= arg.start)
			break;
		arg.start = arg.walk_end;
	}
	return 0;
}

static int scan_slow(const struct gck_source *s, uint64_t start, uint64_t end, bool file,
		     struct gck_ranges *out, struct gck_ranges *guards, struct gck_error *err)
{
	uint64_t entries[ENTRIES];

	for (uint64_t at = start; at < end;) {
		size_t n = (end - at) / GCK_PAGE < ENTRIES ? (end - at) / GCK_PAGE : ENTRIES;
		ssize_t got = pread(s->pagemap, entries, n * sizeof(entries[0]),
				    (off_t)(at / GCK_PAGE * sizeof(entries[0])));

		if (got <= 0 || got % (ssize_t)sizeof(entries[0]))
			return gck_fail(err, got < 0 ? errno : EIO,
					"cannot read the page map of process %d at %llx",
					(int)s->pid, (unsigned long long)at);
		n = (size_t)got / sizeof(entries[0]);
		for (size_t i = 0; i < n; i++, at += GCK_PAGE)
			if ((entries[i] & (ENTRY_PRESENT | ENTRY_SWAPPED)) &&
			    !(file && (entries[i] & ENTRY_FILE)) &&
			    gck_ranges_add(entries[i] & ENTRY_GUARD ? guards : out, at,
					   at + GCK_PAGE, err))
				return -1;
	}
	return 0;
}

int gck_source_scan(const struct gck_source *s, uint64_t start, uint64_t end, bool file,
		    struct gck_ranges *out, struct gck_ranges *guards, struct gck_error *err)
{
	int result = scan_fast(s, start, end, file, out, guards, err);

	return result > 0 ? scan_slow(s, start, end, file, out, guards, err) : result;
}

int gck_source_read(const struct gck_source *s, const struct gck_range *v, size_t n, void *data,
		    struct gck_error *err)
{
	char *to = data;

	for (size_t i = 0; i < n; i++)
		for (uint64_t at = v[i].start; at < v[i].end;) {
			ssize_t got = pread(s->mem, to, v[i].end - at, (off_t)at);

			if (got < 0 && errno == EINTR)
				continue;
			if (got <= 0)
				return gck_fail(err, got ? errno : EIO, "cannot read the memory of "
						"process %d at %llx: %s", (int)s->pid,
						(unsigned long long)at,
						got ? strerror(errno) : "nothing is there");
			at += (uint64_t)got;
			to += got;
		}
	return 0;
}

/* A page is zero if it equals itself moved by one word, and the first word is zero. */
static bool zero_page(const char *page)
{
	uint64_t first;

	memcpy(&first, page, sizeof(first));
	return !first && !memcmp(page, page + sizeof(first), GCK_PAGE - sizeof(first));
}

uint64_t gck_pack_pages(void *data, uint64_t mask)
{
	char *from = data, *to = data;
	uint64_t left = 0;

	for (; mask; mask &= mask - 1, from += GCK_PAGE) {
		if (zero_page(from))
			continue;
		if (to != from)
			memcpy(to, from, GCK_PAGE);
		to += GCK_PAGE;
		left |= mask & -mask;
	}
	return left;
}

int gck_memory_read(pid_t pid, uint64_t address, void *data, size_t n, struct gck_error *err)
{
	struct iovec here = {data, n}, there = {(void *)(uintptr_t)address, n};
	ssize_t done = !n ? 0 : !gck_trace_permitted(pid) ? -1
					: process_vm_readv(pid, &here, 1, &there, 1, 0);

	if (done == (ssize_t)n)
		return 0;
	return gck_fail(err, done < 0 ? errno : EFAULT,
			"cannot read %zu bytes at %llx of process %d: %s", n,
			(unsigned long long)address, (int)pid,
			done < 0 ? strerror(errno) : "not all of it is mapped");
}
