/* SPDX-License-Identifier: Apache-2.0
 * An image in memory: freeing it, and its lists of windows. */
#include "shim/process/image.h"

#include <stdlib.h>

#include "shim/process/image_fields.h"

void gck_image_free(struct gck_image *img)
{
	if (!img)
		return;
	gck_shape_free(&gck_image_shape, img);
	free(img);
}

static int by_address(const void *a, const void *b)
{
	const struct gck_window *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

void gck_windows_sort(struct gck_windows *w)
{
	if (w->n)
		qsort(w->v, w->n, sizeof(w->v[0]), by_address);
}

uint64_t gck_windows_bytes(const struct gck_windows *w)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < w->n; i++)
		sum += w->v[i].chunk.size;
	return sum;
}

int gck_windows_add(struct gck_windows *w, const struct gck_window *x, struct gck_error *err)
{
	if (w->n == w->room) {
		size_t room = w->room ? w->room * 2 : 16;
		struct gck_window *v = realloc(w->v, room * sizeof(*v));

		if (!v)
			return gck_fail(err, ENOMEM, "out of memory for the list of windows");
		w->v = v;
		w->room = room;
	}
	w->v[w->n++] = *x;
	return 0;
}
