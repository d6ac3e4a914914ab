/* SPDX-License-Identifier: Apache-2.0
 * --gpu-ckpt's text: all or nothing; what was taken is written as a text that means the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/options.h"

static void check_format(const struct gck_options *o)
{
	static char text[3 * PATH_MAX], again[3 * PATH_MAX];
	struct gck_options back;

	gck_options_init(&back);
	if (gck_options_format(o, text, sizeof text, NULL))
		abort();
	if (gck_options_parse(&back, text, NULL) ||
	    gck_options_format(&back, again, sizeof again, NULL) || strcmp(text, again) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gck_error err = { 0 };
	struct gck_options o, before;
	char *text = strndup((const char *)data, size);

	gck_options_init(&o);
	before = o;
	if (gck_options_parse(&o, text, &err) == 0)
		check_format(&o);
	else if (memcmp(&o, &before, sizeof o) != 0 || !err.code || !*err.text ||
		 strchr(err.text, '\n'))
		abort();
	free(text);
	return 0;
}
