/* SPDX-License-Identifier: Apache-2.0
 * The list of the copy's mappings, and libc's functions that change it. During a change an entry is
 * empty or correct but never too long, because the image leaves out what it covers. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include <stdarg.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "shim/namespace/root/lock.h"

#define MAX_RANGES 16384
#define PAGE 4096ul

static struct gck_ns_range ranges[MAX_RANGES];
static uint32_t used; /* entries from this index on are empty */
static struct gck_ns_lock lock;

static void publish(void)
{
	gck_ns_owned()->ranges = (uintptr_t)ranges;
	__atomic_store_n(&gck_ns_owned()->nranges, used, __ATOMIC_RELEASE);
}

void gck_ns_ranges_lock(void)
{
	gck_ns_lock(&lock);
}

void gck_ns_ranges_unlock(void)
{
	gck_ns_unlock(&lock);
}

void gck_ns_ranges_start(void)
{
	publish();
}

static void set(struct gck_ns_range *r, uint64_t start, uint64_t length)
{
	__atomic_store_n(&r->length, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&r->start, start, __ATOMIC_RELEASE);
	__atomic_store_n(&r->length, length, __ATOMIC_RELEASE);
}

static struct gck_ns_range *empty_entry(void)
{
	for (uint32_t i = 0; i < used; i++) {
		if (!ranges[i].length)
			return &ranges[i];
	}
	if (used == MAX_RANGES)
		return NULL;
	used++;
	publish();
	return &ranges[used - 1];
}

static bool add(uint64_t start, uint64_t length)
{
	struct gck_ns_range *r = empty_entry();

	if (r)
		set(r, start, length);
	return r;
}

static uint64_t round_up(uint64_t length)
{
	return (length + PAGE - 1) & ~(PAGE - 1);
}

/* Takes the addresses out of all ranges. If that splits a range in two and the list is full, the
 * second part is lost, and so in the image. */
static void cut(uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < used; i++) {
		struct gck_ns_range *r = &ranges[i];
		uint64_t first = r->start, last = r->start + r->length;

		if (!r->length || end <= first || start >= last)
			continue;
		set(r, first, start > first ? start - first : 0);
		if (end < last)
			add(end, last - end);
	}
}

int gck_ns_range_add(const void *start, size_t length)
{
	bool added;

	gck_ns_lock(&lock);
	cut((uintptr_t)start, (uintptr_t)start + round_up(length));
	added = add((uintptr_t)start, round_up(length));
	gck_ns_unlock(&lock);
	return added ? 0 : -1;
}

void gck_ns_range_remove(const void *start, size_t length)
{
	gck_ns_lock(&lock);
	cut((uintptr_t)start, (uintptr_t)start + round_up(length));
	gck_ns_unlock(&lock);
}

/* Removes the range that begins at start; returns its length, 0: none. */
static size_t range_take(const void *start)
{
	size_t length = 0;

	gck_ns_lock(&lock);
	for (uint32_t i = 0; i < used && !length; i++) {
		if (ranges[i].length && ranges[i].start == (uintptr_t)start) {
			length = ranges[i].length;
			ranges[i].length = 0;
		}
	}
	gck_ns_unlock(&lock);
	return length;
}

/* ---- libc's functions ----------------------------------------------------------------------- */

static bool failed(long r)
{
	return r < 0 && r > -4096;
}

/* Lists a new mapping. One that does not fit is unmapped again: otherwise it would be in the image,
 * and useless after a restart. */
static long list_mapping(long r, size_t length)
{
	if (failed(r) || gck_ns_range_add((void *)r, length) == 0)
		return r;
	gck_raw(SYS_munmap, r, length);
	return -ENOMEM;
}

GCK_EXPORT void *mmap(void *start, size_t length, int prot, int flags, int fd, off_t offset)
{
	long r;

	gck_ns_enter();
	r = list_mapping(gck_raw(SYS_mmap, start, length, prot, flags, fd, offset), length);
	gck_ns_leave();
	return (void *)gck_ns_result(r);
}

GCK_EXPORT void *mmap64(void *start, size_t length, int prot, int flags, int fd, off64_t offset)
{
	return mmap(start, length, prot, flags, fd, offset);
}

/* Takes it out of the list first, because another thread of the program may get the addresses at
 * once. */
GCK_EXPORT int munmap(void *start, size_t length)
{
	long r;

	gck_ns_enter();
	gck_ns_range_remove(start, length);
	r = gck_raw(SYS_munmap, start, length);
	gck_ns_leave();
	return gck_ns_result(r);
}

GCK_EXPORT void *mremap(void *old, size_t old_length, size_t length, int flags, ...)
{
	void *to = NULL;
	va_list ap;
	long r;

	if (flags & MREMAP_FIXED) {
		va_start(ap, flags);
		to = va_arg(ap, void *);
		va_end(ap);
	}
	gck_ns_enter();
	gck_ns_range_remove(old, old_length);
	r = gck_raw(SYS_mremap, old, old_length, length, flags, to);
	if (failed(r))
		gck_ns_range_add(old, old_length);
	else
		r = list_mapping(r, length);
	gck_ns_leave();
	return (void *)gck_ns_result(r);
}

GCK_EXPORT void *shmat(int id, const void *start, int flags)
{
	struct shmid_ds ds;
	long r;

	gck_ns_enter();
	r = gck_raw(SYS_shmctl, id, IPC_STAT, &ds);
	if (!failed(r))
		r = gck_raw(SYS_shmat, id, start, flags);
	if (!failed(r))
		r = list_mapping(r, ds.shm_segsz);
	gck_ns_leave();
	return (void *)gck_ns_result(r);
}

GCK_EXPORT int shmdt(const void *start)
{
	size_t length;
	long r;

	gck_ns_enter();
	length = range_take(start);
	r = gck_raw(SYS_shmdt, start);
	if (failed(r) && length)
		gck_ns_range_add(start, length);
	gck_ns_leave();
	return gck_ns_result(r);
}
