/* SPDX-License-Identifier: Apache-2.0
 * Restore: fetches chunks from the store and writes their pages to the process, or to a file. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/process/memory/memory.h"

size_t gck_restore_run_length(uint64_t mask, unsigned from, unsigned *start)
{
	uint64_t rest = from < GCK_GROUP_PAGES ? mask & (~0ull << from) : 0;
	uint64_t after;

	if (!rest)
		return 0;
	*start = __builtin_ctzll(rest);
	after = ~rest & (~0ull << *start);
	return (after ? (unsigned)__builtin_ctzll(after) : GCK_GROUP_PAGES) - *start;
}

static bool next_chunk(void *arg, struct gck_chunk *c)
{
	struct gck_restore *r = arg;

	if (r->next_wanted == r->wanted->rows.n)
		return false;
	*c = gck_page_groups_at(r->wanted, r->next_wanted++).chunk;
	return true;
}

/* Have the reader read these page groups ahead; NULL: end that. */
static int want(struct gck_restore *r, const struct gck_page_groups *w, struct gck_error *err)
{
	r->wanted = w;
	r->next_wanted = 0;
	return gck_reader_plan(r->reader, w && w->rows.n > 1 ? next_chunk : NULL, r, err);
}

/* Fetch a page group's pages, verified; valid until the next fetch. */
static const unsigned char *fetch(struct gck_restore *r, const struct gck_page_group *w,
				  struct gck_error *err)
{
	uint32_t size = (uint32_t)__builtin_popcountll(w->mask) * GCK_PAGE;
	const unsigned char *data;

	if (w->chunk.size != size) {
		gck_fail(err, EBADMSG,
			 "the image's pages at %#llx and their chunk differ in "
			 "size (%u, %u): the manifest is damaged",
			 (unsigned long long)w->address, size, w->chunk.size);
		return NULL;
	}
	data = gck_reader_view(r->reader, &w->chunk, err);
	if (!data)
		return NULL;
	r->done += size;
	if (!r->progress || !r->progress(r->progress_arg, r->done, r->all))
		return data;
	gck_fail(err, ECANCELED, "the restart was cancelled");
	return NULL;
}

/* Write the pages of mask to the process; data has all stored pages of the group, in order. */
static int put_pages(struct gck_restore *r, uint64_t base, const struct gck_page_group *w,
		     uint64_t mask, const unsigned char *data, struct gck_error *err)
{
	struct iovec here[GCK_GROUP_PAGES], there[GCK_GROUP_PAGES];
	size_t n = 0, size = 0, length;
	unsigned start = 0;

	for (unsigned i = 0; (length = gck_restore_run_length(mask, i, &start)); n++) {
		uint64_t below = start ? w->mask & (~0ull >> (GCK_GROUP_PAGES - start)) : 0;

		here[n].iov_base = (char *)(uintptr_t)data +
				   (size_t)__builtin_popcountll(below) * GCK_PAGE;
		there[n].iov_base = (void *)(uintptr_t)(base + (uint64_t)start * GCK_PAGE);
		here[n].iov_len = there[n].iov_len = length * GCK_PAGE;
		size += length * GCK_PAGE;
		i = start + (unsigned)length;
	}
	if (process_vm_writev(r->remote.pid, here, n, there, n, 0) == (ssize_t)size)
		return 0;
	return gck_fail(
		err, errno == ENOMEM ? ENOMEM : EFAULT,
		"filling memory at %#llx of process %d: %s: is the step's memory limit too low?",
		(unsigned long long)base, r->remote.pid, strerror(errno));
}

/* Bits of the page group at file offset `base` that a range of the file needs. */
static uint64_t bits_within(uint64_t base, uint64_t start, uint64_t end)
{
	uint64_t mask = 0;

	for (unsigned i = 0; i < GCK_GROUP_PAGES; i++) {
		uint64_t at = base + (uint64_t)i * GCK_PAGE;

		if (at >= start && at < end)
			mask |= 1ull << i;
	}
	return mask;
}

/* Write those pages of mask that the page group stores; base: where the group lies in the
 * process. */
static int fill_group(struct gck_restore *r, const struct gck_page_group *w, uint64_t base,
		       uint64_t mask, struct gck_error *err)
{
	const unsigned char *data = mask ? fetch(r, w, err) : NULL;

	if (!mask)
		return 0;
	return data ? put_pages(r, base, w, mask, data, err) : -1;
}

/* ---- mappings whose file is missing -------------------------------------------------------- */

/* The pages of a content's page group that a mapping without its file needs. */
struct piece {
	const struct gck_content *of;
	size_t group;            /* its index in the content */
	uint64_t at, mask;        /* at: where the group's first page belongs; mask: pages */
};

struct pieces {
	struct piece *v;
	size_t n, next;           /* next: the next to read ahead */
};

static bool needs_content(const struct gck_restore *r, const struct gck_map *m)
{
	return m->kind == GCK_MAP_FILE && m->content >= 0 && r->contents[m->content] < 0;
}

/* In the order of writing (gck_output_contents), so that all ranks of a node fetch what they share
 * at the same time. */
static int by_place(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	int paths = strcmp(x->of->path, y->of->path);

	if (paths)
		return paths;
	if (x->of != y->of)
		return x->of < y->of ? -1 : 1;
	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Without p->v, count the pieces only. */
static void add_map(struct pieces *p, const struct gck_map *m, const struct gck_content *c)
{
	uint64_t end = m->offset + (m->end - m->start);

	for (size_t i = gck_page_groups_find(&c->groups, m->offset); i < c->groups.rows.n; i++) {
		struct gck_page_group w = gck_page_groups_at(&c->groups, i);
		uint64_t mask = w.mask & bits_within(w.address, m->offset, end);

		if (w.address >= end)
			break;
		if (mask && p->v)
			p->v[p->n] = (struct piece){c, i, m->start + (w.address - m->offset), mask};
		p->n += mask != 0;
	}
}

static void add_maps(struct pieces *p, const struct gck_restore *r)
{
	const struct gck_image *img = r->img;

	p->n = 0;
	for (size_t i = 0; i < img->nmaps; i++)
		if (needs_content(r, &img->maps[i]))
			add_map(p, &img->maps[i], &img->contents[img->maps[i].content]);
}

static bool of_one_group(const struct piece *x, const struct piece *y)
{
	return x->of == y->of && x->group == y->group;
}

static int find_pieces(struct pieces *p, const struct gck_restore *r, struct gck_error *err)
{
	add_maps(p, r);
	p->v = calloc(p->n + 1, sizeof *p->v);
	if (!p->v)
		return gck_fail(err, ENOMEM, "out of memory for the list of files");
	add_maps(p, r);
	qsort(p->v, p->n, sizeof *p->v, by_place);
	return 0;
}

/* Several pieces may need one page group; it is read ahead once. */
static bool next_piece(void *arg, struct gck_chunk *c)
{
	struct pieces *p = arg;
	const struct piece *x = &p->v[p->next];

	if (p->next == p->n)
		return false;
	*c = gck_page_groups_at(&x->of->groups, x->group).chunk;
	while (p->next < p->n && of_one_group(x, &p->v[p->next]))
		p->next++;
	return true;
}

static int fill_pieces(struct gck_restore *r, const struct pieces *p, struct gck_error *err)
{
	const unsigned char *data = NULL;

	for (size_t i = 0; i < p->n; i++) {
		const struct piece *x = &p->v[i];
		struct gck_page_group w = gck_page_groups_at(&x->of->groups, x->group);

		if (!i || !of_one_group(x, x - 1))
			data = fetch(r, &w, err);
		if (!data || put_pages(r, x->at, &w, x->mask, data, err))
			return gck_fail_in(err, "%s", x->of->path);
	}
	return 0;
}

static int fill_contents(struct gck_restore *r, struct gck_error *err)
{
	struct pieces p = { 0 };
	int result = find_pieces(&p, r, err);

	if (!result && p.n)
		result = gck_reader_plan(r->reader, next_piece, &p, err);
	if (!result)
		result = fill_pieces(r, &p, err);
	(void)!gck_reader_plan(r->reader, NULL, NULL, NULL); /* ending a plan does not fail */
	free(p.v);
	return result;
}

/* ---- pages --------------------------------------------------------------------------------- */

/* The pages of a group to write to the process. The old vdso's are written only if it was not
 * moved. */
static uint64_t wanted(const struct gck_restore *r, const struct gck_page_group *w)
{
	uint64_t mask = w->mask;

	for (size_t i = 0; i < r->img->nmaps && !r->vdso_now; i++)
		if (r->img->maps[i].kind == GCK_MAP_VDSO)
			mask &= ~bits_within(w->address, r->img->maps[i].start,
					     r->img->maps[i].end);
	return mask;
}

int gck_restore_fill(struct gck_restore *r, struct gck_error *err)
{
	const struct gck_page_groups *w = &r->img->pages;

	if (fill_contents(r, err) || want(r, w, err))
		return -1;
	for (size_t i = 0; i < w->rows.n; i++) {
		struct gck_page_group x = gck_page_groups_at(w, i);

		if (fill_group(r, &x, x.address, wanted(r, &x), err))
			return -1;
	}
	return want(r, NULL, err);
}

static int put_all(int fd, const unsigned char *data, size_t size, uint64_t offset)
{
	while (size) {
		ssize_t n = pwrite(fd, data, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		data += n;
		size -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/* What a content is written to: a file, or (fd -1) memory of ours. */
struct sink {
	int fd;
	char *memory;
};

static int put_bytes(const struct sink *to, const unsigned char *data, size_t size, uint64_t offset)
{
	if (to->fd >= 0)
		return put_all(to->fd, data, size, offset);
	memcpy(to->memory + offset, data, size);
	return 0;
}

/* Write one page group's pages into a content of this size (the chunk pads the last page). */
static int put_group(const unsigned char *data, const struct gck_page_group *w, uint64_t size,
		     const struct sink *to)
{
	unsigned start = 0;
	size_t length;

	for (unsigned i = 0; (length = gck_restore_run_length(w->mask, i, &start));) {
		uint64_t at = w->address + (uint64_t)start * GCK_PAGE;
		uint64_t end = at + length * GCK_PAGE;

		if (at < size && put_bytes(to, data, (end < size ? end : size) - at, at))
			return -1;
		data += length * GCK_PAGE;
		i = start + (unsigned)length;
	}
	return 0;
}

static int fill_content(struct gck_restore *r, const struct gck_page_groups *w, uint64_t size,
			const struct sink *to, const char *what, struct gck_error *err)
{
	if (want(r, w, err))
		return -1;
	for (size_t i = 0; i < w->rows.n; i++) {
		struct gck_page_group x = gck_page_groups_at(w, i);
		const unsigned char *data = fetch(r, &x, err);

		if (!data)
			return gck_fail_in(err, "%s", what);
		if (put_group(data, &x, size, to))
			return gck_fail(err, errno, "%s: writing its content: %s", what,
					strerror(errno));
	}
	return want(r, NULL, err);
}

int gck_restore_fill_file(struct gck_restore *r, const struct gck_page_groups *w, uint64_t size,
			  int fd, const char *what, struct gck_error *err)
{
	const struct sink to = {.fd = fd};

	if (ftruncate(fd, (off_t)size))
		return gck_fail(err, errno, "%s: making it %llu bytes long: %s", what,
				(unsigned long long)size, strerror(errno));
	return fill_content(r, w, size, &to, what, err);
}

int gck_restore_fill_memory(struct gck_restore *r, const struct gck_page_groups *w, uint64_t size,
			    void *memory, const char *what, struct gck_error *err)
{
	const struct sink to = {.fd = -1, .memory = memory};

	return fill_content(r, w, size, &to, what, err);
}

uint64_t gck_restore_total(const struct gck_restore *r)
{
	uint64_t sum = gck_page_groups_bytes(&r->img->pages);

	for (size_t i = 0; i < r->img->nobjects; i++)
		sum += gck_page_groups_bytes(&r->img->objects[i].groups);
	for (size_t i = 0; i < r->img->nfiles; i++)
		sum += gck_page_groups_bytes(&r->img->files[i].data);
	for (size_t i = 0; i < r->img->ncontents; i++)
		if (r->contents[i] < 0)
			sum += gck_page_groups_bytes(&r->img->contents[i].groups);
	return sum;
}
