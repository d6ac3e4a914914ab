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

void gck_map_advise(struct gck_batch *b, const struct gck_map *m)
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
	gck_map_advise(b, m);
}

static const char *call_name(int64_t nr)
{
	return nr == SYS_mmap       ? "mapping"
	       : nr == SYS_madvise  ? "madvise"
	       : nr == SYS_mprotect ? "mprotect"
	       : nr == SYS_mseal    ? "mseal"
				    : "closing";
}

static const char *map_name(const struct gck_image *img, uint64_t start)
{
	for (size_t i = 0; i < img->nmaps; i++)
		if (img->maps[i].start == start && *img->maps[i].name)
			return img->maps[i].name;
	return "memory without a name";
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
				"%s %llu bytes at %#llx (%s): %s%s", call_name(c->nr),
				(unsigned long long)c->args[1], (unsigned long long)c->args[0],
				map_name(r->img, c->args[0]),
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

/* A file that is mapped: those mappings of that content, or those of that object that are only read
 * or that are not. */
struct mapped_file {
	int fd;                /* of ours; -1: none */
	int32_t content, object; /* -1: not that */
	bool read;
	bool own;              /* fd is closed afterwards */
};

struct mapped_files {
	struct mapped_file *v;
	size_t n;
};

static bool is_of(const struct gck_map *m, const struct mapped_file *x)
{
	return x->content >= 0 ? m->kind == GCK_MAP_FILE && m->content == x->content
			       : !is_private(m) && m->object == x->object &&
					 x->read == !!(m->flags & GCK_MAP_READ_SHARED);
}

/* Pass files to the process, make their mappings, and close them there. */
static int map_some(struct gck_restore *r, const struct mapped_file *v, size_t n,
		    struct gck_error *err)
{
	int ours[GCK_FDS_MAX], there[GCK_FDS_MAX];
	struct gck_batch b;

	b.n = 0;
	for (size_t i = 0; i < n; i++)
		ours[i] = v[i].fd;
	if (gck_restore_give_all(r, ours, n, there, err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < r->img->nmaps; k++) {
			const struct gck_map *m = &r->img->maps[k];

			if (is_of(m, &v[i]))
				add_map(&b, m, there[i], first_prot(r, m));
			if (flush(r, &b, false, err))
				return -1;
		}
		gck_batch_add(&b, SYS_close, (uint64_t)there[i]);
	}
	return flush(r, &b, true, err);
}

static int map_files(struct gck_restore *r, const struct mapped_files *f, struct gck_error *err)
{
	for (size_t i = 0, n; i < f->n; i += n) {
		n = f->n - i < GCK_FDS_MAX ? f->n - i : GCK_FDS_MAX;
		if (map_some(r, f->v + i, n, err))
			return -1;
	}
	return 0;
}

static void drop_files(struct mapped_files *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].own)
			close(f->v[i].fd);
	free(f->v);
}

static int add_file(struct mapped_files *f, struct mapped_file x, struct gck_error *err)
{
	struct mapped_file *slot = gck_grow(&f->v, &f->n, sizeof *slot, err);

	if (slot)
		*slot = x;
	else if (x.own)
		close(x.fd);
	return slot ? 0 : -1;
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
static int add_object(const struct gck_restore *r, struct mapped_files *f, size_t object, int fd,
		      struct gck_error *err)
{
	struct mapped_file x = {.fd = fd, .content = -1, .object = (int32_t)object};
	char path[32];
	int reader;

	if (add_file(f, x, err))
		return -1;
	if (!is_read(r->img, object))
		return 0;
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	x.read = true;
	x.own = reader >= 0;
	x.fd = x.own ? reader : fd;
	return add_file(f, x, err);
}

int gck_restore_map_object(struct gck_restore *r, size_t object, int fd, struct gck_error *err)
{
	struct mapped_files f = {.v = NULL};
	int failed = add_object(r, &f, object, fd, err) || map_files(r, &f, err);

	drop_files(&f);
	return failed ? -1 : 0;
}

static bool is_mapped(const struct gck_restore *r, size_t content)
{
	for (size_t i = 0; i < r->img->nmaps; i++)
		if (r->img->maps[i].kind == GCK_MAP_FILE &&
		    r->img->maps[i].content == (int32_t)content)
			return true;
	return false;
}

static int add_all(const struct gck_restore *r, struct mapped_files *f, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->ncontents; i++) {
		struct mapped_file x = {.fd = r->contents[i], .content = (int32_t)i, .object = -1};

		if (x.fd >= 0 && is_mapped(r, i) && add_file(f, x, err))
			return -1;
	}
	for (size_t i = 0; i < r->img->nobjects; i++)
		if (r->objects[i] >= 0 && add_object(r, f, i, r->objects[i], err))
			return -1;
	return 0;
}

int gck_restore_maps(struct gck_restore *r, struct gck_error *err)
{
	struct mapped_files f = {.v = NULL};
	int failed = map_anonymous(r, err) || add_all(r, &f, err) || map_files(r, &f, err);

	drop_files(&f);
	return failed ? -1 : 0;
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
