/* SPDX-License-Identifier: Apache-2.0
 * The copy's malloc. Its memory is in one range, which images leave out. Small blocks have one of a
 * few sizes, others are runs of pages. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "shim/namespace/root/blocks.h"
#include "shim/namespace/root/pages.h"

static size_t pages_of(size_t size)
{
	return (size + GCK_NS_PAGE - 1) / GCK_NS_PAGE;
}

static size_t usable(void *p)
{
	struct gck_ns_page *page = gck_ns_page_of(p);

	return page->use == GCK_NS_SMALL ? gck_ns_class_size(page->class) : page->n * GCK_NS_PAGE;
}

static void *checked(void *p)
{
	if (!p)
		errno = ENOMEM;
	return p;
}

static void *get(size_t size, bool *fresh)
{
	*fresh = false;
	if (size <= GCK_NS_SMALL_MOST)
		return checked(gck_ns_block_get(gck_ns_class_of(size)));
	return checked(size < PTRDIFF_MAX ? gck_ns_run_get(pages_of(size), 1, fresh) : NULL);
}

static void put(void *p)
{
	struct gck_ns_page *page = gck_ns_page_of(p);

	if (page->use == GCK_NS_SMALL)
		gck_ns_block_put(p, page->class);
	else if (page->use == GCK_NS_BIG)
		gck_ns_run_put(p);
	else
		abort(); /* not the beginning of a block */
}

/* Blocks whose size is a power of two up to a page are aligned to it. */
static void *get_aligned(size_t align, size_t size)
{
	size_t power = size > align ? 1ul << (64 - __builtin_clzl(size - 1)) : align;
	bool fresh;

	if (align <= GCK_NS_STEP)
		return get(size, &fresh);
	if (size >= PTRDIFF_MAX || align >= PTRDIFF_MAX)
		return checked(NULL);
	if (power <= GCK_NS_PAGE)
		return get(power, &fresh);
	return checked(gck_ns_run_get(pages_of(size ? size : 1), pages_of(align), &fresh));
}

/* ---- libc's functions ----------------------------------------------------------------------- */

GCK_EXPORT void *malloc(size_t size)
{
	bool fresh;

	return get(size, &fresh);
}

GCK_EXPORT void free(void *p)
{
	if (gck_ns_pages_has(p))
		put(p);
	else if (p && gck_ns_root.host)
		gck_ns_root.host->free(p);
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

/* Resizes in place if the block is large enough and not much too large, or if the pages behind it
 * are free. */
static bool resize(void *p, size_t old_size, size_t size)
{
	struct gck_ns_page *page = gck_ns_page_of(p);

	if (size <= old_size && size >= old_size / 2)
		return true;
	return page->use == GCK_NS_BIG && size > old_size && size < PTRDIFF_MAX &&
	       gck_ns_run_extend(p, pages_of(size));
}

GCK_EXPORT void *realloc(void *p, size_t size)
{
	size_t old_size;
	void *q;

	if (!p)
		return malloc(size);
	if (!size) {
		free(p);
		return NULL;
	}
	old_size = malloc_usable_size(p);
	if (gck_ns_pages_has(p) && resize(p, old_size, size))
		return p;
	q = malloc(size);
	if (q) {
		memcpy(q, p, old_size < size ? old_size : size);
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
	size_t power = GCK_NS_STEP;

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
	return p && gck_ns_root.host ? gck_ns_root.host->usable_size(p) : 0;
}

/* ---- fork ----------------------------------------------------------------------------------- */

void gck_ns_heap_lock(void)
{
	gck_ns_blocks_lock();
	gck_ns_pages_lock();
}

void gck_ns_heap_unlock(void)
{
	gck_ns_pages_unlock();
	gck_ns_blocks_unlock();
}
