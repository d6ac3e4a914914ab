/* SPDX-License-Identifier: Apache-2.0
 * Runs of pages. The range begins with a table of its pages, which uses memory only as far as the
 * range is used. Free runs are in one list for each power of two of lengths, and are joined with
 * free neighbours. */
#include "config.h"

#include "shim/namespace/root/pages.h"

#include <sys/mman.h>

#include "shim/namespace/root/root.h"
#include "shim/namespace/root/lock.h"

#define MOST_BYTES (1ul << 36)
#define LEAST_BYTES (1ul << 28)
#define GROW_PAGES 256u          /* made accessible at a time */
#define KEEP_PAGES (64u << 8)    /* free pages that stay in memory: 64 MiB */
#define LISTS 32

static struct gck_ns_lock lock;
static char *base;
static struct gck_ns_page *table;
static uint32_t npages;     /* of the whole range */
static uint32_t top;        /* the first page that was never allocated */
static uint32_t accessible; /* the first page that is not accessible */
static uint32_t resident;   /* at most so many pages of free runs have memory */
static uint32_t lists[LISTS];

static void *map(size_t bytes, int prot)
{
	long r = gck_raw(SYS_mmap, NULL, bytes, prot,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return r < 0 && r > -4096 ? NULL : (void *)r;
}

static bool reserve(void)
{
	size_t bytes = MOST_BYTES, entries;
	char *range = NULL;

	for (; !range && bytes >= LEAST_BYTES; bytes /= 2)
		range = map(bytes, PROT_NONE);
	if (!range)
		return false;
	bytes *= 2;
	entries = bytes / GCK_NS_PAGE;
	table = (struct gck_ns_page *)(void *)range;
	top = accessible = entries * sizeof *table / GCK_NS_PAGE;
	npages = entries;
	base = range;
	gck_ns_root.heap.start = (uintptr_t)range;
	return gck_ns_range_add(range, bytes) == 0;
}

bool gck_ns_pages_has(const void *p)
{
	return (uintptr_t)p - (uintptr_t)base < (uintptr_t)npages * GCK_NS_PAGE;
}

static uint32_t index_of(const void *p)
{
	return ((const char *)p - base) / GCK_NS_PAGE;
}

struct gck_ns_page *gck_ns_page_of(const void *p)
{
	return &table[index_of(p)];
}

/* ---- lists of free runs --------------------------------------------------------------------- */

static int list_for(uint32_t n)
{
	return 31 - __builtin_clz(n);
}

static void enlist(uint32_t i, uint32_t n)
{
	uint32_t *head = &lists[list_for(n)];

	table[i] = (struct gck_ns_page){ .use = GCK_NS_FREE, .n = n, .next = *head };
	if (n > 1)
		table[i + n - 1] = (struct gck_ns_page){ .use = GCK_NS_FREE, .n = n };
	if (*head)
		table[*head].prev = i;
	*head = i;
}

static void delist(uint32_t i)
{
	struct gck_ns_page *p = &table[i];

	if (p->prev)
		table[p->prev].next = p->next;
	else
		lists[list_for(p->n)] = p->next;
	if (p->next)
		table[p->next].prev = p->prev;
	table[i + p->n - 1].use = GCK_NS_UNUSED;
	p->use = GCK_NS_UNUSED;
}

/* The number of pages from page i to the next multiple of align. */
static uint32_t slack(uint32_t i, uint32_t align)
{
	uint32_t first = (uintptr_t)base / GCK_NS_PAGE % align + i % align;

	return (align - first % align) % align;
}

static uint32_t find(uint32_t n, uint32_t align)
{
	for (int k = list_for(n); k < LISTS; k++) {
		for (uint32_t i = lists[k]; i; i = table[i].next) {
			if (table[i].n >= n + slack(i, align))
				return i;
		}
	}
	return 0;
}

/* ---- allocation ----------------------------------------------------------------------------- */

static size_t whole_pages(size_t bytes)
{
	return (bytes + GCK_NS_PAGE - 1) & ~(GCK_NS_PAGE - 1);
}

/* Makes pages accessible up to end, and as much of the table as they need. Only as much as is used,
 * because without overcommit all accessible memory is charged. */
static bool make_accessible(uint32_t end)
{
	uint32_t to = (end + GROW_PAGES - 1) / GROW_PAGES * GROW_PAGES;

	if (end <= accessible)
		return true;
	if (end > npages)
		return false;
	to = to > npages ? npages : to;
	if (gck_raw(SYS_mprotect, table, whole_pages(to * sizeof *table),
		    PROT_READ | PROT_WRITE) < 0 ||
	    gck_raw(SYS_mprotect, base + accessible * GCK_NS_PAGE,
		    (to - accessible) * GCK_NS_PAGE, PROT_READ | PROT_WRITE) < 0)
		return false;
	accessible = to;
	gck_ns_root.heap.length = to * GCK_NS_PAGE;
	return true;
}

static void free_run(uint32_t i, uint32_t n)
{
	if (i + n < top && table[i + n].use == GCK_NS_FREE) {
		uint32_t added = table[i + n].n;

		delist(i + n);
		n += added;
	}
	if (table[i - 1].use == GCK_NS_FREE) {
		uint32_t added = table[i - 1].n;

		delist(i - added);
		i -= added;
		n += added;
	}
	enlist(i, n);
}

static void *from_lists(uint32_t n, uint32_t align)
{
	uint32_t i = find(n, align), run_pages, before;

	if (!i)
		return NULL;
	run_pages = table[i].n;
	before = slack(i, align);
	delist(i);
	if (before)
		enlist(i, before);
	i += before;
	if (run_pages - before > n)
		enlist(i + n, run_pages - before - n);
	resident -= n < resident ? n : resident;
	return base + i * GCK_NS_PAGE;
}

static void *get(size_t n, size_t align, bool *fresh)
{
	uint32_t before, i;
	void *run;

	*fresh = false;
	if ((!base && !reserve()) || n >= npages || align >= npages)
		return NULL;
	run = from_lists(n, align);
	if (run)
		return run;
	before = slack(top, align);
	if ((uint64_t)top + before + n > npages || !make_accessible(top + before + n))
		return NULL;
	i = top + before;
	top = i + n;
	if (before)
		free_run(i - before, before);
	*fresh = true;
	return base + i * GCK_NS_PAGE;
}

static void put(uint32_t i, uint32_t n)
{
	table[i].use = GCK_NS_UNUSED;
	if (resident + n <= KEEP_PAGES)
		resident += n;
	else
		gck_raw(SYS_madvise, base + i * GCK_NS_PAGE, n * GCK_NS_PAGE, MADV_DONTNEED);
	free_run(i, n);
}

static bool extend(uint32_t i, uint32_t n)
{
	uint32_t next = i + table[i].n, added = n - table[i].n, available;

	if (next == top) {
		if ((uint64_t)i + n > npages || !make_accessible(i + n))
			return false;
		top = i + n;
		return true;
	}
	available = table[next].n;
	if (table[next].use != GCK_NS_FREE || available < added)
		return false;
	delist(next);
	if (available > added)
		enlist(next + added, available - added);
	return true;
}

/* ---- runs and slabs ------------------------------------------------------------------------- */

void *gck_ns_run_get(size_t n, size_t align, bool *fresh)
{
	void *run;

	gck_ns_lock(&lock);
	run = get(n, align, fresh);
	if (run)
		*gck_ns_page_of(run) = (struct gck_ns_page){ .use = GCK_NS_BIG, .n = n };
	gck_ns_unlock(&lock);
	return run;
}

void gck_ns_run_put(void *run)
{
	gck_ns_lock(&lock);
	put(index_of(run), gck_ns_page_of(run)->n);
	gck_ns_unlock(&lock);
}

bool gck_ns_run_extend(void *run, size_t n)
{
	struct gck_ns_page *page = gck_ns_page_of(run);
	bool done;

	gck_ns_lock(&lock);
	done = n < npages && extend(index_of(run), n);
	if (done)
		page->n = n;
	gck_ns_unlock(&lock);
	return done;
}

char *gck_ns_slab_get(unsigned int class)
{
	struct gck_ns_page *page;
	bool fresh;
	char *slab;

	gck_ns_lock(&lock);
	slab = get(GCK_NS_SLAB_PAGES, 1, &fresh);
	for (unsigned int i = 0; slab && i < GCK_NS_SLAB_PAGES; i++) {
		page = gck_ns_page_of(slab) + i;
		*page = (struct gck_ns_page){ .use = GCK_NS_SMALL, .class = class };
	}
	gck_ns_unlock(&lock);
	return slab;
}

void gck_ns_pages_lock(void)
{
	gck_ns_lock(&lock);
}

void gck_ns_pages_unlock(void)
{
	gck_ns_unlock(&lock);
}
