/* SPDX-License-Identifier: Apache-2.0
 * Restore: bring chunks from the store to where their pages belong. */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shim/process/restore.h"

/* The next run of set bits at or after `from`: its length (0: none) and where it starts. */
size_t gck_restore_run_length(uint64_t mask, unsigned from, unsigned *start)
{
	uint64_t rest = from < GCK_WINDOW_PAGES ? mask & (~0ull << from) : 0;
	uint64_t after;

	if (!rest)
		return 0;
	*start = __builtin_ctzll(rest);
	after = ~rest & (~0ull << *start);
	return (after ? (unsigned)__builtin_ctzll(after) : GCK_WINDOW_PAGES) - *start;
}

static bool next_chunk(void *arg, struct gck_chunk *c)
{
	struct gck_restore *r = arg;

	if (r->next_wanted == r->wanted->n)
		return false;
	*c = r->wanted->v[r->next_wanted++].chunk;
	return true;
}

/* Have these windows read ahead; NULL: no more. */
static int want(struct gck_restore *r, const struct gck_windows *w, struct gck_error *err)
{
	r->wanted = w;
	r->next_wanted = 0;
	return gck_reader_plan(r->reader, w && w->n > 1 ? next_chunk : NULL, r, err);
}

/* A window's pages, verified; valid until the next. */
static const unsigned char *fetch(struct gck_restore *r, const struct gck_window *w,
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

/* Write the pages of mask to the process; data has the window's, one after the other. */
static int put_pages(struct gck_restore *r, uint64_t base, const struct gck_window *w,
		     uint64_t mask, const unsigned char *data, struct gck_error *err)
{
	struct iovec here[GCK_WINDOW_PAGES], there[GCK_WINDOW_PAGES];
	size_t n = 0, size = 0, length;
	unsigned start = 0;

	for (unsigned i = 0; (length = gck_restore_run_length(mask, i, &start)); n++) {
		uint64_t below = start ? w->mask & (~0ull >> (GCK_WINDOW_PAGES - start)) : 0;

		here[n].iov_base = (char *)(uintptr_t)data + (size_t)__builtin_popcountll(below) * GCK_PAGE;
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

/* Bits of the window at `base` (of a file) that a range of it needs. */
static uint64_t bits_within(uint64_t base, uint64_t start, uint64_t end)
{
	uint64_t mask = 0;

	for (unsigned i = 0; i < GCK_WINDOW_PAGES; i++) {
		uint64_t at = base + (uint64_t)i * GCK_PAGE;

		if (at >= start && at < end)
			mask |= 1ull << i;
	}
	return mask;
}

/* Bring the pages of mask, of those that a window has, to where base is in the process. */
static int fill_window(struct gck_restore *r, const struct gck_window *w, uint64_t base,
		       uint64_t mask, struct gck_error *err)
{
	const unsigned char *data = mask ? fetch(r, w, err) : NULL;

	if (!mask)
		return 0;
	return data ? put_pages(r, base, w, mask, data, err) : -1;
}

/* The content of a file for a mapping that cannot be of the file. */
static int fill_map(struct gck_restore *r, const struct gck_map *m, struct gck_error *err)
{
	const struct gck_windows *w = &r->img->contents[m->content].windows;
	uint64_t end = m->offset + (m->end - m->start);

	if (want(r, w, err))
		return -1;
	for (size_t i = 0; i < w->n; i++) {
		uint64_t base = w->v[i].address;
		uint64_t mask = w->v[i].mask & bits_within(base, m->offset, end);

		if (fill_window(r, &w->v[i], m->start + (base - m->offset), mask, err))
			return gck_fail_in(err, "%s", m->name);
	}
	return 0;
}

static bool needs_content(const struct gck_restore *r, const struct gck_map *m)
{
	return m->kind == GCK_MAP_FILE && m->content >= 0 && r->contents[m->content] < 0;
}

/* The pages of a window that go into the process: the old vdso's only where it is not moved. */
static uint64_t wanted(const struct gck_restore *r, const struct gck_window *w)
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
	const struct gck_windows *w = &r->img->pages;

	for (size_t i = 0; i < r->img->nmaps; i++)
		if (needs_content(r, &r->img->maps[i]) && fill_map(r, &r->img->maps[i], err))
			return -1;
	if (want(r, w, err))
		return -1;
	for (size_t i = 0; i < w->n; i++)
		if (fill_window(r, &w->v[i], w->v[i].address, wanted(r, &w->v[i]), err))
			return -1;
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

/* One window's pages into a file of this size (the last page is padded in the chunk). */
static int put_window(const unsigned char *data, const struct gck_window *w, uint64_t size, int fd)
{
	unsigned start = 0;
	size_t length;

	for (unsigned i = 0; (length = gck_restore_run_length(w->mask, i, &start));) {
		uint64_t at = w->address + (uint64_t)start * GCK_PAGE;
		uint64_t end = at + length * GCK_PAGE;

		if (at < size && put_all(fd, data, (end < size ? end : size) - at, at))
			return -1;
		data += length * GCK_PAGE;
		i = start + (unsigned)length;
	}
	return 0;
}

int gck_restore_fill_file(struct gck_restore *r, const struct gck_windows *w, uint64_t size, int fd,
			  const char *what, struct gck_error *err)
{
	if (ftruncate(fd, (off_t)size))
		return gck_fail(err, errno, "%s: making it %llu bytes long: %s", what,
				(unsigned long long)size, strerror(errno));
	if (want(r, w, err))
		return -1;
	for (size_t i = 0; i < w->n; i++) {
		const unsigned char *data = fetch(r, &w->v[i], err);

		if (!data)
			return gck_fail_in(err, "%s", what);
		if (put_window(data, &w->v[i], size, fd))
			return gck_fail(err, errno, "%s: writing its content: %s", what,
					strerror(errno));
	}
	return want(r, NULL, err);
}

/* Bytes that will be fetched (a content that several mappings need counts once). */
uint64_t gck_restore_total(const struct gck_restore *r)
{
	uint64_t sum = gck_windows_bytes(&r->img->pages);

	for (size_t i = 0; i < r->img->nobjects; i++)
		sum += gck_windows_bytes(&r->img->objects[i].windows);
	for (size_t i = 0; i < r->img->nfiles; i++)
		sum += gck_windows_bytes(&r->img->files[i].data);
	for (size_t i = 0; i < r->img->ncontents; i++)
		if (r->contents[i] < 0)
			sum += gck_windows_bytes(&r->img->contents[i].windows);
	return sum;
}
