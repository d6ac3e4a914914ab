/* SPDX-License-Identifier: Apache-2.0
 * The addresses of the library's mappings. It lets the kernel choose those of its reservations,
 * and puts memory, variables and windows of the device there. Here each gets an address that
 * nothing else ever gets, and keeps it in each fresh copy.
 *
 * What the library unmaps is forgotten if it was for no object: nothing says that a fresh copy
 * makes it again, and an entry would be taken by another mapping of that kind. An object is made
 * again by the same calls. If it unmaps something while it is made, or later in its life, a fresh
 * copy maps that again, and the entries behind it have to stay in order: so an object's entries
 * stay until it ends. What the library keeps of an ended object's, it puts later objects into: in a
 * fresh copy it makes such a mapping for the first of these.
 *
 * The list is in memory of the program, which images contain, but not from its malloc: the library
 * may map where a lock of malloc's or the loader's is held. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "shim/cuda/apart/apart.h"
#include "shim/cuda/dispatch/dispatch.h"
#include "shim/preload/helper/raw.h"

#define ZONE 0x500000000000ul
#define UNIT (2ul << 20)
#define PAGE 4096ul
#define TRIES 64
#define ROOM (1ul << 30)
#define LEFT UINT64_MAX /* in place of an object that has ended */

struct mapping {
	uint64_t object;
	uintptr_t at;
	size_t length;
	size_t slot;      /* bytes of addresses that nothing else gets */
	size_t mapped;    /* bytes of it in this copy */
	int prot, flags;
	uint32_t copy;    /* the last one that made it */
};

static struct {
	pthread_mutex_t lock;
	struct mapping *v;
	size_t n, capacity;
	uintptr_t next;   /* in the zone */
	uint32_t copy;    /* counts the copies */
	void *(*mmap)(void *start, size_t length, int prot, int flags, int fd, off_t offset);
	int (*munmap)(void *start, size_t length);
} list = {.lock = PTHREAD_MUTEX_INITIALIZER, .next = ZONE};

static __thread uint64_t object __attribute__((tls_model("initial-exec")));

/* A held copy is at no place between the two: the lock of a thread that does not come back would
 * never be free. */
static void enter(void)
{
	gck_namespace.root->enter();
	pthread_mutex_lock(&list.lock);
}

static void leave(void)
{
	pthread_mutex_unlock(&list.lock);
	gck_namespace.root->leave();
}

/* ---- the list -------------------------------------------------------------------------------- */

static size_t round_up(size_t n, size_t unit)
{
	return (n + unit - 1) & -unit;
}

/* Room for as much again, for another version of the library. */
static size_t slot_of(size_t length)
{
	return round_up(length + (length < ROOM ? length : ROOM), UNIT);
}

static int grow(void)
{
	size_t capacity = list.capacity ? 2 * list.capacity : 1024;
	long r = gck_raw(SYS_mmap, NULL, capacity * sizeof *list.v, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (r < 0 && r > -4096)
		return -1;
	if (list.v) {
		memcpy((void *)r, list.v, list.n * sizeof *list.v);
		gck_raw(SYS_munmap, list.v, list.capacity * sizeof *list.v);
	}
	list.v = (struct mapping *)r;
	list.capacity = capacity;
	return 0;
}

/* As another version of the library may map more or less for an object. */
static bool fits(const struct mapping *m, uint64_t of, size_t length, int prot, int flags)
{
	return m->copy != list.copy && m->object == of && m->prot == prot && m->flags == flags &&
	       length <= m->slot;
}

static struct mapping *take_left(size_t length, int prot, int flags)
{
	for (size_t i = 0; i < list.n; i++) {
		struct mapping *m = &list.v[i];

		if (m->length == length && fits(m, LEFT, length, prot, flags)) {
			m->object = object;
			return m;
		}
	}
	return NULL;
}

/* The first such mapping that this copy has not made yet, best of the same length; else one that an
 * ended object has left; a new one, if there is none. NULL: no memory. */
static struct mapping *take(size_t length, int prot, int flags)
{
	struct mapping *other = NULL;

	for (size_t i = 0; i < list.n; i++) {
		struct mapping *m = &list.v[i];

		if (!fits(m, object, length, prot, flags))
			continue;
		if (m->length == length)
			return m;
		if (!other && object)
			other = m;
	}
	if (other) {
		other->length = length;
		return other;
	}
	other = take_left(length, prot, flags);
	if (other)
		return other;
	if (list.n == list.capacity && grow())
		return NULL;
	list.v[list.n] = (struct mapping){.object = object, .length = length,
					  .slot = slot_of(length), .prot = prot, .flags = flags};
	return &list.v[list.n++];
}

/* Keeps the order. */
static void forget(size_t i)
{
	list.n--;
	memmove(&list.v[i], &list.v[i + 1], (list.n - i) * sizeof *list.v);
}

static size_t overlap(const struct mapping *m, uintptr_t start, size_t length)
{
	uintptr_t from = m->at > start ? m->at : start;
	uintptr_t end = m->at + round_up(m->length, PAGE), to = start + round_up(length, PAGE);

	to = end < to ? end : to;
	return m->copy == list.copy && to > from ? to - from : 0;
}

/* The library often maps more than it needs and unmaps both ends. */
static void unmapped(uintptr_t start, size_t length)
{
	for (size_t i = list.n; i-- > 0;) {
		struct mapping *m = &list.v[i];
		size_t n = overlap(m, start, length);

		if (!n)
			continue;
		m->mapped -= n < m->mapped ? n : m->mapped;
		if (!m->mapped && (!m->object || m->object == LEFT))
			forget(i);
	}
}

/* It maps memory into its reservations. */
static void mapped_over(uintptr_t start, size_t length)
{
	for (size_t i = 0; i < list.n; i++) {
		struct mapping *m = &list.v[i];
		size_t whole = round_up(m->length, PAGE);

		m->mapped += overlap(m, start, length);
		m->mapped = m->mapped < whole ? m->mapped : whole;
	}
}

/* ---- the library's calls --------------------------------------------------------------------- */

static void *map_at(uintptr_t at, const struct mapping *m, int fd, off_t offset)
{
	return list.mmap((void *)at, m->length, m->prot, m->flags | MAP_FIXED_NOREPLACE, fd,
			 offset);
}

/* Where the program has put something into the zone, the next place. */
static void *map_in_zone(const struct mapping *m, int fd, off_t offset)
{
	void *r = MAP_FAILED;

	for (int i = 0; i < TRIES && r == MAP_FAILED; i++) {
		r = map_at(list.next, m, fd, offset);
		list.next += m->slot;
	}
	return r;
}

static void *steered(size_t length, int prot, int flags, int fd, off_t offset)
{
	struct mapping *m = take(length, prot, flags);
	void *r = MAP_FAILED;

	if (m && m->at)
		r = map_at(m->at, m, fd, offset);
	if (m && r == MAP_FAILED)
		r = map_in_zone(m, fd, offset);
	if (r == MAP_FAILED)
		r = list.mmap(NULL, length, prot, flags, fd, offset);
	if (m && r != MAP_FAILED) {
		m->at = (uintptr_t)r;
		m->mapped = round_up(length, PAGE);
		m->copy = list.copy;
	} else if (m && !m->at) {
		forget((size_t)(m - list.v));
	}
	return r;
}

static void *hooked_mmap(void *start, size_t length, int prot, int flags, int fd, off_t offset)
{
	void *r;

	enter();
	if (start || flags & (MAP_FIXED | MAP_32BIT)) {
		r = list.mmap(start, length, prot, flags, fd, offset);
		if (r != MAP_FAILED)
			mapped_over((uintptr_t)r, length);
	} else {
		r = steered(length, prot, flags, fd, offset);
	}
	leave();
	return r;
}

static int hooked_munmap(void *start, size_t length)
{
	int rc;

	enter();
	rc = list.munmap(start, length);
	if (!rc)
		unmapped((uintptr_t)start, length);
	leave();
	return rc;
}

/* ---- for the folders above ------------------------------------------------------------------- */

void gck_cuda_apart_maps_for(uint64_t of)
{
	object = of;
}

bool gck_cuda_apart_object_ended(uint64_t of)
{
	bool left = false;
	size_t n = 0;

	pthread_mutex_lock(&list.lock);
	for (size_t i = 0; i < list.n; i++) {
		struct mapping m = list.v[i];

		if (m.object == of && !(m.mapped && m.copy == list.copy))
			continue;
		left |= m.object == of;
		m.object = m.object == of ? LEFT : m.object;
		list.v[n++] = m;
	}
	list.n = n;
	pthread_mutex_unlock(&list.lock);
	return left;
}

static void before_fork(void)
{
	pthread_mutex_lock(&list.lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&list.lock);
}

void gck_cuda_apart_steer(void *library)
{
	if (!list.copy++)
		pthread_atfork(before_fork, after_fork, after_fork);
	*(void **)&list.mmap = gck_cuda_got_find(library, "mmap");
	*(void **)&list.munmap = gck_cuda_got_find(library, "munmap");
	gck_cuda_got_hook(library, "mmap", (void *)hooked_mmap);
	gck_cuda_got_hook(library, "mmap64", (void *)hooked_mmap);
	gck_cuda_got_hook(library, "munmap", (void *)hooked_munmap);
}
