/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt-points [--auto] IN OUT: points in a file of PTX, for gckcc. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/kernels/pass/points.h"

static char *read_file(const char *path, size_t *size)
{
	FILE *in = fopen(path, "r");
	char *text = malloc(GCK_PTX_MAX + 2);

	if (!in || !text) {
		fprintf(stderr, "gckcc: cannot read %s: %s\n", path, strerror(errno));
		exit(1);
	}
	*size = fread(text, 1, GCK_PTX_MAX + 1, in);
	fclose(in);
	return text;
}

int main(int argc, char **argv)
{
	struct gck_error err = { 0 };
	struct gck_ptx *ptx;
	size_t size;
	char *text;
	FILE *out;
	bool is_auto = argc == 4 && !strcmp(argv[1], "--auto");

	if (argc != 3 + is_auto) {
		fprintf(stderr, "usage: gpuckpt-points [--auto] IN OUT\n");
		return 2;
	}
	text = read_file(argv[argc - 2], &size);
	ptx = gck_ptx_read(text, size, &err);
	out = fopen(argv[argc - 1], "w");
	if (!out) {
		fprintf(stderr, "gckcc: cannot write %s: %s\n", argv[argc - 1], strerror(errno));
		return 1;
	}
	if (!ptx || gck_points_write(ptx, is_auto ? GCK_POINTS_AUTO : NULL, out, stderr, &err) ||
	    fclose(out)) {
		fprintf(stderr, "gckcc: %s\n", err.text);
		return 1;
	}
	gck_ptx_free(ptx);
	free(text);
	return 0;
}
