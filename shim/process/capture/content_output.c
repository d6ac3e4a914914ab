/* SPDX-License-Identifier: Apache-2.0
 * Writing the contents of files that are mapped privately, such as programs and libraries. */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/process/capture/capture.h"

/* A mapped page of a file: its offset in the file and its address in the clone. */
struct mapped {
	uint64_t offset, address;
};

static int by_offset(const void *a, const void *b)
{
	const struct mapped *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* The pages of a content that at least one mapping shows, each once, by offset. */
static struct mapped *mapped_pages(const struct gck_image *img, int32_t content, size_t *count_,
				   struct gck_error *err)
{
	uint64_t size = img->contents[content].size;
	struct mapped *v = NULL;
	size_t n = 0, unique = 0;

	for (size_t i = 0; i < img->nmaps; i++) {
		const struct gck_map *m = &img->maps[i];

		for (uint64_t at = m->start; m->content == content && at < m->end; at += GCK_PAGE) {
			uint64_t offset = m->offset + (at - m->start);
			struct mapped *slot;

			if (offset >= size)
				break;
			slot = gck_grow(&v, &n, sizeof(*slot), err);
			if (!slot) {
				free(v);
				return NULL;
			}
			*slot = (struct mapped){offset, at};
		}
	}
	if (n)
		qsort(v, n, sizeof(*v), by_offset);
	for (size_t i = 0; i < n; i++)
		if (!unique || v[unique - 1].offset != v[i].offset)
			v[unique++] = v[i];
	*count_ = unique;
	return v ? v : calloc(1, sizeof(*v));
}

/* Open the file if it is still the one that was mapped. -1: only the clone has it. */
static int open_content(const struct gck_content *c)
{
	int fd = open(c->path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) || st.st_dev != c->device || st.st_ino != c->inode ||
			(uint64_t)st.st_size != c->size ||
			st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec != c->mtime_ns)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Read one page; false: the file was cut before it. */
static bool read_page(const struct gck_output *o, int fd, const struct mapped *x, char *to)
{
	ssize_t n = fd >= 0 ? pread(fd, to, GCK_PAGE, (off_t)x->offset)
			    : pread(o->source.mem, to, GCK_PAGE, (off_t)x->address);

	if (n <= 0)
		return false;
	memset(to + n, 0, GCK_PAGE - (size_t)n);
	return true;
}

/* Read a run of consecutive pages with one call; if that fails, page by page. */
static uint64_t read_pages(const struct gck_output *o, int fd, const struct mapped *v, size_t n)
{
	uint64_t mask = 0;
	char *to = o->pages_out.buffer;

	for (size_t i = 0; i < n;) {
		size_t run = 1;
		uint64_t bit = v[i].offset % GCK_GROUP_BYTES / GCK_PAGE;

		while (i + run < n && v[i + run].offset == v[i].offset + run * GCK_PAGE)
			run++;
		if (fd >= 0 && pread(fd, to, run * GCK_PAGE, (off_t)v[i].offset) ==
				       (ssize_t)(run * GCK_PAGE)) {
			mask |= (run == 64 ? ~0ull : (1ull << run) - 1) << bit;
			to += run * GCK_PAGE;
			i += run;
			continue;
		}
		for (size_t end = i + run; i < end; i++, bit++)
			if (read_page(o, fd, &v[i], to)) {
				mask |= 1ull << bit;
				to += GCK_PAGE;
			}
	}
	return mask;
}

static int write_content(struct gck_output *o, int32_t index)
{
	struct gck_content *c = &o->c->img->contents[index];
	size_t n = 0, run;
	struct mapped *v = mapped_pages(o->c->img, index, &n, o->err);
	int fd = open_content(c), result = v ? 0 : -1;

	for (size_t i = 0; i < n && !result; i += run) {
		uint64_t group = v[i].offset / GCK_GROUP_BYTES * GCK_GROUP_BYTES, mask;

		for (run = 1; i + run < n && v[i + run].offset < group + GCK_GROUP_BYTES; run++)
			;
		mask = gck_pack_pages(o->pages_out.buffer, read_pages(o, fd, v + i, run));
		if (mask)
			result = gck_output_put(o, &c->groups, group, mask, o->pages_out.buffer);
	}
	if (fd >= 0)
		close(fd);
	free(v);
	return result;
}

/* Contents are sorted by path and written separately from other pages, so that ranks with the same
 * files write the same objects. */
int gck_output_contents(struct gck_output *o)
{
	const struct gck_image *img = o->c->img;
	size_t n = 0;
	int32_t *order = calloc(img->ncontents + 1, sizeof(*order));
	int result = order ? gck_writer_shared(o->w, true, o->err)
			   : gck_fail(o->err, ENOMEM, "out of memory for the list of files");

	for (size_t i = 0; i < img->ncontents && !result; i++) {
		size_t at = n;

		if (!img->contents[i].carried)
			continue;
		for (; at > 0 && strcmp(img->contents[order[at - 1]].path,
					img->contents[i].path) > 0; at--)
			order[at] = order[at - 1];
		order[at] = (int32_t)i;
		n++;
	}
	for (size_t i = 0; i < n && !result; i++)
		result = write_content(o, order[i]);
	free(order);
	return result ? -1 : gck_writer_shared(o->w, false, o->err);
}
