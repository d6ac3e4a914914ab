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
