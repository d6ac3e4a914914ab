/* SPDX-License-Identifier: Apache-2.0
 * Objects for all processes of a node, in a memfd: a table and slots. The locks are the kernel's
 * on open file descriptions (F_OFD_SETLK), one description for each use, so that the death of a
 * process releases them: byte 0 for the table, byte 1 + i for slot i. A process changes a slot
 * while it holds the slot's write lock, which it takes under the table's lock; it reads the
 * slot's bytes under the slot's read lock. */
#include "config.h"

#include "storage/store/node_cache.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>


#define SLOTS 16u
#define HEAD 4096u
#define BLOCK ((uint64_t)4 << 20)
#define POOL_SIZE (HEAD + SLOTS * BLOCK)
#define TABLE 0

enum { FREE, FILLING, READY };

struct block {
	char name[GCK_NAME_MAX]; /* of the object */
	uint64_t at;             /* a multiple of BLOCK */
};

struct slot {
	struct block block;
	_Atomic int state; /* FILLING, and not locked: the process that filled it has died */
	uint64_t size, used;
};

struct head {
	uint64_t clock;
	struct slot v[SLOTS];
};

_Static_assert(sizeof(struct head) <= HEAD, "the table fits before the slots");

struct gck_node_cache {
	int fd; /* the caller's */
	struct head *head;
};

/* ---- making and opening --------------------------------------------------------------------- */

int gck_node_cache_create(struct gck_error *err)
{
	int fd = memfd_create("gpuckpt-pool", MFD_CLOEXEC);

	if (fd < 0)
		return gck_fail(err, errno, "memfd_create: %s", strerror(errno));
	if (ftruncate(fd, (off_t)POOL_SIZE) == 0)
		return fd;
	gck_fail(err, errno, "memfd: %s", strerror(errno));
	close(fd);
	return -1;
}

void gck_store_use_node_cache(struct gck_store *s, int fd)
{
	struct gck_node_cache *p = s->b->remote && !s->cache ? calloc(1, sizeof *p) : NULL;

	if (!p)
		return;
	p->fd = fd;
	p->head = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p->head != MAP_FAILED) {
		s->cache = p;
		return;
	}
	free(p);
}

void gck_node_cache_close(struct gck_node_cache *p)
{
	if (!p)
		return;
	munmap(p->head, POOL_SIZE);
	free(p);
}

/* ---- locks ---------------------------------------------------------------------------------- */

/* Open a description for one use; closing it releases its locks. */
static int begin(const struct gck_node_cache *p)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/self/fd/%d", p->fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

static bool lock(int use, short type, off_t byte, bool wait)
{
	struct flock l = { .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
	int rc;

	do
		rc = fcntl(use, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l);
	while (rc < 0 && errno == EINTR);
	return rc == 0;
}

static bool lock_slot(int use, short type, unsigned i, bool wait)
{
	return lock(use, type, 1 + (off_t)i, wait);
}

/* ---- slots ---------------------------------------------------------------------------------- */

static char *bytes_of(const struct gck_node_cache *p, unsigned i)
{
	return (char *)p->head + HEAD + i * BLOCK;
}

static bool is_of(const struct slot *at, const struct block *x)
{
	return at->state != FREE && at->block.at == x->at && !strcmp(at->block.name, x->name);
}

/* Called under the table's lock. */
static int find(const struct gck_node_cache *p, const struct block *x)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (is_of(&p->head->v[i], x))
			return (int)i;
	return -1;
}

/* Lock the least recently used slot among the unlocked ones for writing. */
static int claim(struct gck_node_cache *p, int use, const struct block *x)
{
	bool tried[SLOTS] = { false };

	for (unsigned n = 0; n < SLOTS; n++) {
		int oldest = -1;

		for (unsigned i = 0; i < SLOTS; i++)
			if (!tried[i] &&
			    (oldest < 0 || p->head->v[i].used < p->head->v[oldest].used))
				oldest = (int)i;
		tried[oldest] = true;
		if (!lock_slot(use, F_WRLCK, (unsigned)oldest, false))
			continue;
		p->head->v[oldest].state = FILLING;
		p->head->v[oldest].block = *x;
		return oldest;
	}
	return -1;
}

/* Find the slot of a block, or claim one. *fill: this process must fill it, and holds its write
 * lock. -1: all slots are in use. */
static int look(struct gck_node_cache *p, int use, const struct block *x, bool *fill)
{
	int i;

	if (!lock(use, F_WRLCK, TABLE, true))
		return -1;
	i = find(p, x);
	*fill = i < 0 || p->head->v[i].state == FILLING;
	if (i < 0)
		i = claim(p, use, x);
	else if (*fill) /* the filling process may have finished meanwhile */
		*fill = lock_slot(use, F_WRLCK, (unsigned)i,
				  false) && p->head->v[i].state == FILLING;
	if (i >= 0)
		p->head->v[i].used = ++p->head->clock;
	lock(use, F_UNLCK, TABLE, false);
	return i;
}

/* Read the block into the locked slot. */
static int fill_slot(struct gck_store *s, const struct block *x, uint64_t end, unsigned i)
{
	struct gck_backend *b = s->b;
	struct slot *at = &s->cache->head->v[i];

	at->size = end - x->at < BLOCK ? end - x->at : BLOCK;
	if (b->ops->get(b, x->name, x->at, bytes_of(s->cache, i), at->size, NULL) < 0) {
		at->state = FREE;
		return -1;
	}
	at->state = READY;
	return 0;
}

/* Copy out of a slot, after waiting for the process that fills it. -1: the slot does not have the
 * block. 1: the process that filled it has died. */
static int take(struct gck_node_cache *p, int use, const struct block *x, unsigned i, size_t from,
		char *data,
		size_t size)
{
	const struct slot *at = &p->head->v[i];

	if (!lock_slot(use, F_RDLCK, i, true) || !is_of(at, x))
		return -1;
	if (at->state == FILLING)
		return 1;
	if (from > at->size || size > at->size - from)
		return -1;
	memcpy(data, bytes_of(p, i) + from, size);
	return 0;
}

static int get_block(struct gck_store *s, int use, const struct block *x, uint64_t end, size_t from,
		     char *data, size_t size)
{
	int rc = 1;

	while (rc == 1) {
		bool fill;
		int i = look(s->cache, use, x, &fill);

		if (i < 0 || (fill && fill_slot(s, x, end, (unsigned)i) < 0))
			return -1;
		rc = take(s->cache, use, x, (unsigned)i, from, data, size);
		lock_slot(use, F_UNLCK, (unsigned)i, false);
	}
	return rc;
}

static int get(struct gck_store *s, const char *name, uint64_t end, uint64_t offset, char *data,
	       size_t size)
{
	int use = begin(s->cache), rc = use < 0 ? -1 : 0;
	struct block x;

	snprintf(x.name, sizeof x.name, "%s", name);
	while (rc == 0 && size > 0) {
		size_t from = offset % BLOCK, n = BLOCK - from < size ? BLOCK - from : size;

		x.at = offset - from;
		rc = get_block(s, use, &x, end, from, data, n);
		offset += n;
		data += n;
		size -= n;
	}
	if (use >= 0)
		close(use);
	return rc;
}

int gck_node_cache_get(struct gck_store *s, const char *name, uint64_t end, uint64_t offset,
		       void *data,
		 size_t size, struct gck_error *err)
{
	if (s->cache && offset + size <= end && get(s, name, end, offset, data, size) == 0)
		return 0;
	return s->b->ops->get(s->b, name, offset, data, size, err);
}
