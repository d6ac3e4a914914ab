/* SPDX-License-Identifier: Apache-2.0
 * PTX: its reader and the pass, with and without --auto. What the pass writes is read again. */
#include <stdint.h>
#include <stdlib.h>

#include "shim/kernels/pass/points.h"

static void write_points(const struct gck_ptx *ptx, bool is_auto)
{
	struct gck_error err;
	struct gck_ptx *again;
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int result = gck_points_write(ptx, is_auto ? GCK_POINTS_AUTO : NULL, out, NULL, &err);

	fclose(out);
	if (!result) {
		again = gck_ptx_read(text, size, &err);
		/* with points it has the mark besides */
		if (!again || again->n_functions - ptx->n_functions > 1)
			abort();
		gck_ptx_free(again);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gck_error err;
	struct gck_ptx *ptx = gck_ptx_read((const char *)data, size, &err);

	if (ptx) {
		write_points(ptx, false);
		write_points(ptx, true);
	}
	gck_ptx_free(ptx);
	return 0;
}
