/* SPDX-License-Identifier: Apache-2.0
 * An image in memory: freeing it, and its lists of page groups. */
#include "shim/process/image/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/process/image/image_fields.h"

void gck_image_free(struct gck_image *img)
{
	if (!img)
		return;
	gck_shape_free(&gck_image_shape, img);
	gck_chunks_clear(&img->chunks);
	free(img);
}

void *gck_grow(void *list, size_t *n, size_t size, struct gck_error *err)
{
	char *v;

	memcpy(&v, list, sizeof(v));
	/* the capacity is the next power of two */
	if ((*n & (*n - 1)) == 0) {
		v = realloc(v, (*n ? *n * 2 : 1) * size);
		if (!v) {
			gck_fail(err, ENOMEM, "out of memory for the image");
			return NULL;
		}
		memcpy(list, &v, sizeof(v));
	}
	memset(v + *n * size, 0, size);
	return v + (*n)++ * size;
}

/* A row: 12 digits of the page group's number, 16 of its mask, 8 of its chunk's number. */
#define NUMBER 0, 12
#define MASK 12, 16
#define CHUNK 28, 8

uint64_t gck_page_groups_address(const struct gck_page_groups *w, size_t i)
{
	return gck_hex_table_get(&w->rows, i, NUMBER) * GCK_GROUP_BYTES;
}

struct gck_page_group gck_page_groups_at(const struct gck_page_groups *w, size_t i)
{
	struct gck_page_group x = {gck_page_groups_address(w, i),
				   gck_hex_table_get(&w->rows, i, MASK),
				   {.index = (uint32_t)gck_hex_table_get(&w->rows, i, CHUNK)}};

	if (w->chunks)
		x.chunk = gck_chunks_at(w->chunks, x.chunk.index);
	return x;
}

int gck_page_groups_add(struct gck_page_groups *w, const struct gck_page_group *x,
			struct gck_error *err)
{
	size_t i = w->rows.n;

	w->rows.width = GCK_GROUP_TEXT;
	if (gck_hex_table_add(&w->rows, err))
		return -1;
	gck_hex_table_set(&w->rows, i, NUMBER, x->address / GCK_GROUP_BYTES);
	gck_hex_table_set(&w->rows, i, MASK, x->mask);
	gck_hex_table_set(&w->rows, i, CHUNK, x->chunk.index);
	return 0;
}

static int check(const struct gck_page_groups *w, size_t i, struct gck_error *err)
{
	uint64_t mask = gck_hex_table_get(&w->rows, i, MASK);
	uint32_t size;

	if (gck_hex_table_get(&w->rows, i, NUMBER) >= INT64_MAX / GCK_GROUP_BYTES || !mask ||
	    (w->chunks && gck_hex_table_get(&w->rows, i, CHUNK) >= w->chunks->rows.n))
		return gck_fail(err, EINVAL,
				"page group %zu has an impossible address, mask or chunk", i);
	if (!w->chunks)
		return 0;
	size = gck_page_groups_at(w, i).chunk.size;
	if (size == (uint64_t)__builtin_popcountll(mask) * GCK_PAGE)
		return 0;
	return gck_fail(err, EINVAL, "page group %zu has %d pages and a chunk of %u bytes", i,
			__builtin_popcountll(mask), size);
}

int gck_page_groups_load(struct gck_page_groups *w, const json_t *value,
			 const struct gck_chunks *chunks, struct gck_error *err)
{
	struct gck_page_groups found = {.chunks = chunks};

	if (gck_hex_table_load(&found.rows, GCK_GROUP_TEXT, value, err))
		return -1;
	for (size_t i = 0; i < found.rows.n; i++)
		if (check(&found, i, err)) {
			gck_hex_table_clear(&found.rows);
			return -1;
		}
	*w = found;
	return 0;
}

/* Rows are sorted as text, and begin with the number. */
void gck_page_groups_sort(struct gck_page_groups *w)
{
	gck_hex_table_sort(&w->rows);
}

size_t gck_page_groups_find(const struct gck_page_groups *w, uint64_t address)
{
	size_t low = 0, high = w->rows.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (gck_page_groups_address(w, middle) + GCK_GROUP_BYTES <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint64_t gck_page_groups_bytes(const struct gck_page_groups *w)
{
	uint64_t pages = 0;

	for (size_t i = 0; i < w->rows.n; i++)
		pages += (uint64_t)__builtin_popcountll(gck_hex_table_get(&w->rows, i, MASK));
	return pages * GCK_PAGE;
}

const struct gck_page_groups *gck_image_device(const struct gck_image *img, int32_t vpid)
{
	const struct gck_page_groups *found = NULL;

	if (img->vpid == vpid)
		return &img->device;
	for (size_t i = 0; i < img->nprocesses && !found; i++)
		found = gck_image_device(&img->processes[i], vpid);
	return found;
}

uint64_t gck_image_device_bytes(const struct gck_image *img)
{
	uint64_t sum = gck_page_groups_bytes(&img->device);

	for (size_t i = 0; i < img->nprocesses; i++)
		sum += gck_image_device_bytes(&img->processes[i]);
	return sum;
}

int gck_image_fd_of(const struct gck_image *img, size_t file)
{
	for (size_t i = 0; i < img->nfds; i++)
		if (img->fds[i].file == file)
			return img->fds[i].fd;
	return -1;
}
