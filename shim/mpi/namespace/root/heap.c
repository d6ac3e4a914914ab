/* SPDX-License-Identifier: Apache-2.0
 * The copy's malloc: all of its memory lies in one range, which images leave out. Small blocks are
 * of one of 40 sizes, each with a list of free ones; others are runs of pages. */
#include "config.h"

#include "shim/mpi/namespace/root/own.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "shim/mpi/namespace/root/lock.h"
#include "shim/mpi/namespace/root/pages.h"

#define STEP 16ul
#define EVEN_MOST 128ul            /* up to here a class every 16 bytes, then four a doubling */
#define SMALL_MOST 8192ul
#define CLASSES 32
#define SLAB_PAGES 16u

struct block {
	struct block *next;
};

struct class {
	struct gck_ns_lock lock;
	struct block *free;
	char *rest, *end;          /* of the slab that blocks are cut from */
} __attribute__((aligned(64)));

static struct class classes[CLASSES];
static struct gck_ns_lock pages_lock;

/* ---- sizes ---------------------------------------------------------------------------------- */

static unsigned int class_of(size_t size)
{
	unsigned int shift;

	if (size <= EVEN_MOST)
		return size ? (size - 1) / STEP : 0;
	shift = 63 - __builtin_clzl(size - 1);
	return EVEN_MOST / STEP + (shift - 7) * 4 + ((size - 1) >> (shift - 2) & 3);
}

static size_t size_of(unsigned int class)
{
	unsigned int k;

	if (class < EVEN_MOST / STEP)
		return (class + 1) * STEP;
	k = class - EVEN_MOST / STEP;
	return (5ul + k % 4) << (k / 4 + 5);
}

static size_t pages_of(size_t size)
{
	return (size + GCK_NS_PAGE - 1) / GCK_NS_PAGE;
}

static size_t usable(void *p)
{
	struct gck_ns_page *page = gck_ns_page_of(p);

	return page->use == GCK_NS_SMALL ? size_of(page->class) : page->n * GCK_NS_PAGE;
}

/* ---- small and big -------------------------------------------------------------------------- */

static bool add_slab(struct class *c)
{
	struct gck_ns_page *page;
	bool fresh;
	char *slab;

	gck_ns_lock(&pages_lock);
	slab = gck_ns_pages_get(SLAB_PAGES, 1, &fresh);
	if (slab) {
		page = gck_ns_page_of(slab);
		for (unsigned int i = 0; i < SLAB_PAGES; i++)
			page[i] = (struct gck_ns_page){ .use = GCK_NS_SMALL, .class = c - classes };
	}
	gck_ns_unlock(&pages_lock);
	if (!slab)
		return false;
	c->rest = slab;
	c->end = slab + SLAB_PAGES * GCK_NS_PAGE;
	return true;
}

static void *small_get(unsigned int class)
{
	struct class *c = &classes[class];
	size_t size = size_of(class);
	struct block *b;

	gck_ns_lock(&c->lock);
	b = c->free;
	if (b) {
		c->free = b->next;
	} else if ((size_t)(c->end - c->rest) >= size || add_slab(c)) {
		b = (struct block *)(void *)c->rest;
		c->rest += size;
	}
	gck_ns_unlock(&c->lock);
	return b;
}

static void small_put(void *p, unsigned int class)
{
	struct class *c = &classes[class];
	struct block *b = p;

	gck_ns_lock(&c->lock);
	b->next = c->free;
	c->free = b;
	gck_ns_unlock(&c->lock);
}

static void *big_get(size_t n, size_t align, bool *fresh)
{
	void *p;

	gck_ns_lock(&pages_lock);
	p = gck_ns_pages_get(n, align, fresh);
	if (p)
		*gck_ns_page_of(p) = (struct gck_ns_page){ .use = GCK_NS_BIG, .n = n };
	gck_ns_unlock(&pages_lock);
	return p;
}

static void *get(size_t size, bool *fresh)
{
	void *p;

	*fresh = false;
	if (size <= SMALL_MOST)
		p = small_get(class_of(size));
	else
		p = size < PTRDIFF_MAX ? big_get(pages_of(size), 1, fresh) : NULL;
	if (!p)
		errno = ENOMEM;
	return p;
}

static void put(void *p)
{
	struct gck_ns_page *page = gck_ns_page_of(p);

	if (page->use == GCK_NS_SMALL) {
		small_put(p, page->class);
		return;
	}
	if (page->use != GCK_NS_BIG)
		abort(); /* not a block's beginning */
	gck_ns_lock(&pages_lock);
	gck_ns_pages_put(p, page->n);
	gck_ns_unlock(&pages_lock);
}

/* Blocks of a power of two lie at multiples of it, up to a page. */
static void *get_aligned(size_t align, size_t size)
{
	size_t power = size > align ? 1ul << (64 - __builtin_clzl(size - 1)) : align;
	bool fresh;
	void *p;

	if (align <= STEP)
		return get(size, &fresh);
	if (size < PTRDIFF_MAX && power <= GCK_NS_PAGE)
		return get(power, &fresh);
	p = size < PTRDIFF_MAX && align < PTRDIFF_MAX ?
		    big_get(pages_of(size ? size : 1), pages_of(align), &fresh) : NULL;
	if (!p)
		errno = ENOMEM;
	return p;
}

/* ---- libc's functions ----------------------------------------------------------------------- */

GCK_EXPORT void *malloc(size_t size)
{
	bool fresh;

	return get(size, &fresh);
}

GCK_EXPORT void free(void *p)
{
	int saved = errno;

	if (gck_ns_pages_has(p))
		put(p);
	else if (p && gck_mpi_root.host)
		gck_mpi_root.host->free(p);
	errno = saved;
}

GCK_EXPORT void *calloc(size_t n, size_t size)
{
	size_t bytes;
	bool fresh;
	void *p;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	p = get(bytes, &fresh);
	return p && !fresh ? memset(p, 0, bytes) : p;
}

/* In place: no larger class, or more pages behind it. What becomes too small to matter stays. */
static bool resize(void *p, size_t had, size_t size)
{
	struct gck_ns_page *page = gck_ns_page_of(p);
	bool done;

	if (size <= had && size >= had / 2)
		return true;
	if (page->use != GCK_NS_BIG || size <= SMALL_MOST || size < had || size >= PTRDIFF_MAX)
		return false;
	gck_ns_lock(&pages_lock);
	done = gck_ns_pages_extend(p, page->n, pages_of(size));
	if (done)
		page->n = pages_of(size);
	gck_ns_unlock(&pages_lock);
	return done;
}

GCK_EXPORT void *realloc(void *p, size_t size)
{
	size_t had;
	void *q;

	if (!p)
		return malloc(size);
	if (!size) {
		free(p);
		return NULL;
	}
	had = malloc_usable_size(p);
	if (gck_ns_pages_has(p) && resize(p, had, size))
		return p;
	q = malloc(size);
	if (q) {
		memcpy(q, p, had < size ? had : size);
		free(p);
	}
	return q;
}

static bool is_power(size_t n)
{
	return n && !(n & (n - 1));
}

GCK_EXPORT void *memalign(size_t align, size_t size)
{
	size_t power = STEP;

	while (power < align && power < 1ul << 62)
		power *= 2;
	return get_aligned(power, size);
}

GCK_EXPORT void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

GCK_EXPORT void *valloc(size_t size)
{
	return get_aligned(GCK_NS_PAGE, size);
}

GCK_EXPORT void *pvalloc(size_t size)
{
	return get_aligned(GCK_NS_PAGE, pages_of(size) * GCK_NS_PAGE);
}

GCK_EXPORT int posix_memalign(void **p, size_t align, size_t size)
{
	int saved = errno;
	void *q;

	if (!is_power(align) || align % sizeof(void *))
		return EINVAL;
	q = get_aligned(align, size);
	errno = saved;
	if (!q)
		return ENOMEM;
	*p = q;
	return 0;
}

GCK_EXPORT size_t malloc_usable_size(void *p)
{
	if (gck_ns_pages_has(p))
		return usable(p);
	return p && gck_mpi_root.host ? gck_mpi_root.host->usable_size(p) : 0;
}

/* ---- fork ----------------------------------------------------------------------------------- */

static void lock_all(void)
{
	for (int i = 0; i < CLASSES; i++)
		gck_ns_lock(&classes[i].lock);
	gck_ns_lock(&pages_lock);
}

static void unlock_all(void)
{
	gck_ns_unlock(&pages_lock);
	for (int i = CLASSES; i-- > 0;)
		gck_ns_unlock(&classes[i].lock);
}

void gck_ns_heap_start(void)
{
	pthread_atfork(lock_all, unlock_all, unlock_all);
}
