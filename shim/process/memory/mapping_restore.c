/* SPDX-License-Identifier: Apache-2.0
 * Restore: the mappings. First all are made, writable where pages must be filled in. After that
 * they get their final protection. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/process/memory/memory.h"
#include "shim/process/ptrace/fd_channel.h"

#ifndef MAP_DROPPABLE
#define MAP_DROPPABLE 8 /* of Linux 6.11 */
#endif
#ifndef SYS_mseal
#define SYS_mseal 462 /* of Linux 6.10 */
#endif

/* Whether a stored page lies in [start, end). The list is sorted by address. */
bool gck_restore_has_pages(const struct gck_page_groups *w, uint64_t start, uint64_t end)
{
	for (size_t k = gck_page_groups_find(w, start); k < w->rows.n; k++) {
		struct gck_page_group x = gck_page_groups_at(w, k);

		if (x.address >= end)
			break;
		for (unsigned i = 0; i < GCK_GROUP_PAGES; i++) {
			uint64_t at = x.address + (uint64_t)i * GCK_PAGE;

			if ((x.mask >> i & 1) && at >= start && at < end)
				return true;
		}
	}
	return false;
}

static bool is_private(const struct gck_map *m)
{
	return m->kind == GCK_MAP_ANON || m->kind == GCK_MAP_FILE;
}

/* The content whose node's own file a private mapping shows, or -1: anonymous memory. */
static int file_of(const struct gck_restore *r, const struct gck_map *m)
{
	return m->kind == GCK_MAP_FILE && m->content >= 0 ? r->contents[m->content] : -1;
}

static bool is_filled(const struct gck_restore *r, const struct gck_map *m)
{
	return is_private(m) && (gck_restore_has_pages(&r->img->pages, m->start, m->end) ||
				 (m->kind == GCK_MAP_FILE && file_of(r, m) < 0));
}

static int first_prot(const struct gck_restore *r, const struct gck_map *m)
{
	return is_filled(r, m) ? PROT_READ | PROT_WRITE : m->prot;
}

static const struct {
	uint32_t flag;
	int advice;
	bool hint;             /* a kernel without it does no harm */
} advices[] = {
	{GCK_MAP_HUGE, MADV_HUGEPAGE, true},     {GCK_MAP_NOHUGE, MADV_NOHUGEPAGE, true},
	{GCK_MAP_DONTFORK, MADV_DONTFORK},       {GCK_MAP_WIPEONFORK, MADV_WIPEONFORK},
	{GCK_MAP_DONTDUMP, MADV_DONTDUMP},       {GCK_MAP_SEQUENTIAL, MADV_SEQUENTIAL, true},
	{GCK_MAP_RANDOM, MADV_RANDOM, true},     {GCK_MAP_MERGEABLE, MADV_MERGEABLE, true},
};
#define NADVICES (sizeof advices / sizeof advices[0])

static bool is_hint(uint64_t advice)
{
	for (size_t i = 0; i < NADVICES; i++)
		if ((uint64_t)advices[i].advice == advice)
			return advices[i].hint;
	return false;
}

static void add_advice(struct gck_batch *b, const struct gck_map *m)
{
	for (size_t i = 0; i < NADVICES; i++)
		if (m->flags & advices[i].flag)
			gck_batch_add(b, SYS_madvise, m->start, m->end - m->start,
				      (uint64_t)advices[i].advice);
}

/* An older kernel keeps what it may drop. */
static int private_type(const struct gck_map *m)
{
	static int droppable;
	void *page;

	if (!(m->flags & GCK_MAP_DROPPABLE))
		return MAP_PRIVATE;
	if (!droppable) {
		page = mmap(NULL, GCK_PAGE, PROT_NONE, MAP_DROPPABLE | MAP_ANONYMOUS, -1, 0);
		droppable = page == MAP_FAILED ? MAP_PRIVATE : MAP_DROPPABLE;
		if (page != MAP_FAILED)
			munmap(page, GCK_PAGE);
	}
	return droppable;
}

static void add_map(struct gck_batch *b, const struct gck_map *m, int fd, int prot)
{
	bool shared = !is_private(m) || (m->flags & GCK_MAP_READ_SHARED && fd >= 0);
	int flags = MAP_FIXED_NOREPLACE | (shared ? MAP_SHARED : private_type(m));

	if (fd < 0)
		flags |= MAP_ANONYMOUS;
	if (!(m->flags & GCK_MAP_RESERVED))
		flags |= MAP_NORESERVE;
	if (m->flags & GCK_MAP_GROWSDOWN)
		flags |= MAP_GROWSDOWN;
	gck_batch_add(b, SYS_mmap, m->start, m->end - m->start, (uint64_t)prot, (uint64_t)flags,
		      (uint64_t)(int64_t)fd, fd < 0 ? 0 : m->offset);
	add_advice(b, m);
}

static const char *call_name(int64_t nr)
{
	return nr == SYS_mmap       ? "mapping"
	       : nr == SYS_madvise  ? "madvise"
	       : nr == SYS_mprotect ? "mprotect"
	       : nr == SYS_mseal    ? "mseal"
				    : "closing";
}

static const char *remedy(int64_t error)
{
	return error == -ENOMEM ? ": raise vm.max_map_count or the limit of memory on this node"
				: "";
}

/* Run the batch when it is nearly full, or at the end; every call must succeed. */
static int flush(struct gck_restore *r, struct gck_batch *b, bool end, struct gck_error *err)
{
	if (!b->n || (!end && b->n + NADVICES + 2 < GCK_REMOTE_CALLS))
		return 0;
	if (gck_remote_run(&r->remote, r->remote.pid, b, err))
		return -1;
	for (unsigned i = 0; i < b->n; i++) {
		const struct gck_link_call *c = &b->calls[i];

		if (c->result >= 0 ? c->nr != SYS_mmap || c->result == (int64_t)c->args[0] : false)
			continue;
		if (c->nr == SYS_madvise && c->result == -EINVAL && is_hint(c->args[2]))
			continue;
		return gck_fail(err, c->result < 0 ? (int)-c->result : EEXIST,
				"%s %llu bytes at %#llx: %s%s", call_name(c->nr),
				(unsigned long long)c->args[1], (unsigned long long)c->args[0],
				strerror(c->result < 0 ? (int)-c->result : EEXIST),
				remedy(c->result));
	}
	b->n = 0;
	return 0;
}

static int map_anonymous(struct gck_restore *r, struct gck_error *err)
{
	struct gck_batch b;

	b.n = 0;
	for (size_t i = 0; i < r->img->nmaps; i++) {
		const struct gck_map *m = &r->img->maps[i];

		if (!is_private(m) || file_of(r, m) >= 0)
			continue;
		add_map(&b, m, -1, first_prot(r, m));
		if (flush(r, &b, false, err))
			return -1;
	}
	return flush(r, &b, true, err);
}

/* Pass a file to the process, make its mappings (those of that content, or those of that object
 * that are only read or that are not), and close it there. */
static int map_file(struct gck_restore *r, int fd, int32_t content, int32_t object, bool read,
		    struct gck_error *err)
{
	int there = gck_restore_give(r, fd, err);
	struct gck_batch b;

	b.n = 0;
	if (there < 0)
		return -1;
	for (size_t i = 0; i < r->img->nmaps; i++) {
		const struct gck_map *m = &r->img->maps[i];
		bool its = content >= 0 ? m->kind == GCK_MAP_FILE && m->content == content
					: !is_private(m) && m->object == object &&
						  read == !!(m->flags & GCK_MAP_READ_SHARED);

		if (its)
			add_map(&b, m, there, first_prot(r, m));
		if (its && flush(r, &b, false, err))
			return -1;
	}
	gck_batch_add(&b, SYS_close, (uint64_t)there);
	return flush(r, &b, true, err);
}

static bool is_read(const struct gck_image *img, size_t object)
{
	for (size_t i = 0; i < img->nmaps; i++)
		if (img->maps[i].object == (int32_t)object &&
		    img->maps[i].flags & GCK_MAP_READ_SHARED)
			return true;
	return false;
}

/* Memory that is sealed against writing can only be mapped by a descriptor that cannot write. */
static int map_read(struct gck_restore *r, size_t object, int fd, struct gck_error *err)
{
	char path[32];
	int reader, failed;

	if (!is_read(r->img, object))
		return 0;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	failed = map_file(r, reader >= 0 ? reader : fd, -1, (int32_t)object, true, err);
	if (reader >= 0)
		close(reader);
	return failed;
}

int gck_restore_map_object(struct gck_restore *r, size_t object, int fd, struct gck_error *err)
{
	if (map_file(r, fd, -1, (int32_t)object, false, err) || map_read(r, object, fd, err))
		return gck_fail_in(err, "shared memory \"%s\"", r->img->objects[object].name);
	return 0;
}

static bool is_mapped(const struct gck_restore *r, size_t content)
{
	for (size_t i = 0; i < r->img->nmaps; i++)
		if (r->img->maps[i].kind == GCK_MAP_FILE &&
		    r->img->maps[i].content == (int32_t)content)
			return true;
	return false;
}

int gck_restore_maps(struct gck_restore *r, struct gck_error *err)
{
	if (map_anonymous(r, err))
		return -1;
	for (size_t i = 0; i < r->img->ncontents; i++)
		if (r->contents[i] >= 0 && is_mapped(r, i) &&
		    map_file(r, r->contents[i], (int32_t)i, -1, false, err))
			return gck_fail_in(err, "%s", r->img->contents[i].path);
	for (size_t i = 0; i < r->img->nobjects; i++)
		if (r->objects[i] >= 0 && gck_restore_map_object(r, i, r->objects[i], err))
			return -1;
	return 0;
}

int gck_restore_protect(struct gck_restore *r, struct gck_error *err)
{
	struct gck_batch b;

	b.n = 0;
	for (size_t i = 0; i < r->img->nmaps; i++) {
		const struct gck_map *m = &r->img->maps[i];

		if (is_private(m) && first_prot(r, m) != m->prot)
			gck_batch_add(&b, SYS_mprotect, m->start, m->end - m->start,
				      (uint64_t)m->prot);
		if (flush(r, &b, false, err))
			return -1;
	}
	return flush(r, &b, true, err);
}

static bool is_sealed(const struct gck_map *m)
{
	return m->flags & GCK_MAP_SEALED && m->kind < GCK_MAP_VDSO;
}

int gck_restore_check_seals(struct gck_restore *r, struct gck_error *err)
{
	bool sealed = false;

	for (size_t i = 0; i < r->img->nmaps; i++)
		sealed |= is_sealed(&r->img->maps[i]);
	if (!sealed || !syscall(SYS_mseal, 0, 0, 0))
		return 0;
	return gck_fail(err, ENOTSUP, "its memory is sealed (mseal), which this node's kernel does "
			"not have: Linux 6.10 or newer is needed");
}

int gck_restore_seal_maps(struct gck_restore *r, struct gck_error *err)
{
	struct gck_batch b;

	b.n = 0;
	for (size_t i = 0; i < r->img->nmaps; i++) {
		const struct gck_map *m = &r->img->maps[i];

		if (is_sealed(m))
			gck_batch_add(&b, SYS_mseal, m->start, m->end - m->start);
		if (flush(r, &b, false, err))
			return -1;
	}
	return flush(r, &b, true, err);
}
