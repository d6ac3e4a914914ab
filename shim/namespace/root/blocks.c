/* SPDX-License-Identifier: Apache-2.0
 * Small blocks. A class has a list of free blocks, and each thread caches a few in a list that
 * needs no lock. Blocks move between the two lists several at a time. */
#include "config.h"

#include "shim/namespace/root/blocks.h"

#include <stdbool.h>
#include <stdint.h>

#include "shim/namespace/root/root.h"
#include "shim/namespace/root/lock.h"
#include "shim/namespace/root/pages.h"

#define EVEN_MOST 128ul /* up to here a class every 16 bytes, above it four for each doubling */
#define EVEN (EVEN_MOST / GCK_NS_STEP)
#define CLASSES 32
#define OWN_BYTES 16384ul /* a thread caches this much of a class, but at least OWN_LEAST blocks */
#define OWN_LEAST 4u
#define OWN_MOST 64u

struct block {
	struct block *next;
};

struct list {
	struct block *first;
	uint32_t n;
};

static struct class {
	struct gck_ns_lock lock;
	struct list free;
	char *rest, *end; /* the unused part of the current slab */
} __attribute__((aligned(64))) classes[CLASSES];

static __thread struct list *own; /* [CLASSES] */

/* ---- classes -------------------------------------------------------------------------------- */

unsigned int gck_ns_class_of(size_t size)
{
	unsigned int shift;

	if (size <= EVEN_MOST)
		return size ? (size - 1) / GCK_NS_STEP : 0;
	shift = 63 - __builtin_clzl(size - 1);
	return EVEN + (shift - 7) * 4 + ((size - 1) >> (shift - 2) & 3);
}

size_t gck_ns_class_size(unsigned int class)
{
	unsigned int k = class - EVEN;

	if (class < EVEN)
		return (class + 1) * GCK_NS_STEP;
	return (5ul + k % 4) << (k / 4 + 5);
}

static struct block *pop(struct list *list)
{
	struct block *b = list->first;

	if (b) {
		list->first = b->next;
		list->n--;
	}
	return b;
}

static void push(struct list *list, struct block *b)
{
	b->next = list->first;
	list->first = b;
	list->n++;
}

/* Takes a block from the class's list or slab. The caller holds the class's lock. */
static struct block *take(struct class *c)
{
	unsigned int class = c - classes;
	size_t size = gck_ns_class_size(class);
	struct block *b = pop(&c->free);

	if (b)
		return b;
	if ((size_t)(c->end - c->rest) < size) {
		char *slab = gck_ns_slab_get(class);

		if (!slab)
			return NULL;
		c->rest = slab;
		c->end = slab + GCK_NS_SLAB_PAGES * GCK_NS_PAGE;
	}
	b = (struct block *)(void *)c->rest;
	c->rest += size;
	return b;
}

/* ---- a thread's cache ----------------------------------------------------------------------- */

static bool is_full(uint32_t n, unsigned int class)
{
	return n > OWN_LEAST && (n > OWN_MOST || n * gck_ns_class_size(class) > OWN_BYTES);
}

/* Makes the calling thread's lists. Fails before the host is set, since only the host reports the
 * end of a thread. */
static bool make_lists(void)
{
	struct class *c = &classes[gck_ns_class_of(CLASSES * sizeof *own)];
	void *lists;

	if (!gck_ns_root.host)
		return false;
	gck_ns_lock(&c->lock);
	lists = take(c);
	gck_ns_unlock(&c->lock);
	if (!lists)
		return false;
	own = __builtin_memset(lists, 0, CLASSES * sizeof *own);
	gck_ns_thread_note();
	return true;
}

static void *refill(unsigned int class)
{
	bool has_own = own || make_lists();
	struct class *c = &classes[class];
	struct block *b;

	gck_ns_lock(&c->lock);
	b = take(c);
	while (b && has_own && c->free.first && !is_full(2 * own[class].n + 2, class))
		push(&own[class], pop(&c->free));
	gck_ns_unlock(&c->lock);
	return b;
}

static void return_blocks(struct list *list, unsigned int class, uint32_t keep)
{
	struct class *c = &classes[class];

	gck_ns_lock(&c->lock);
	while (list->n > keep)
		push(&c->free, pop(list));
	gck_ns_unlock(&c->lock);
}

void *gck_ns_block_get(unsigned int class)
{
	struct block *b = own ? pop(&own[class]) : NULL;

	return b ? b : refill(class);
}

void gck_ns_block_put(void *block, unsigned int class)
{
	struct list one = { 0 };

	if (!own && !make_lists()) {
		push(&one, block);
		return_blocks(&one, class, 0);
		return;
	}
	push(&own[class], block);
	if (is_full(own[class].n, class))
		return_blocks(&own[class], class, own[class].n / 2);
}

void gck_ns_blocks_end(void)
{
	struct list *lists = own, last = { 0 };

	if (!lists)
		return;
	own = NULL;
	for (int i = 0; i < CLASSES; i++)
		return_blocks(&lists[i], i, 0);
	push(&last, (struct block *)(void *)lists);
	return_blocks(&last, gck_ns_class_of(CLASSES * sizeof *own), 0);
}

/* ---- fork ----------------------------------------------------------------------------------- */

void gck_ns_blocks_lock(void)
{
	for (int i = 0; i < CLASSES; i++)
		gck_ns_lock(&classes[i].lock);
}

void gck_ns_blocks_unlock(void)
{
	for (int i = CLASSES; i-- > 0;)
		gck_ns_unlock(&classes[i].lock);
}
