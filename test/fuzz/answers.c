/* SPDX-License-Identifier: Apache-2.0
 * An object store's answers: a text is passed on with its path below the root, which is the one
 * that was asked for, or the answer is refused with a reason. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "storage/s3/xml.h"

#define ROOT "ListBucketResult"

static int on_text(void *arg, const char *path, const char *text, struct gck_error *err)
{
	(void)err;
	if (strncmp(path, ROOT, strlen(ROOT)) || strlen(path) + strlen(text) > 8192)
		abort();
	++*(unsigned *)arg;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gck_error err = { 0 };
	struct gck_s3_error said;
	unsigned texts = 0;
	int rc = gck_xml_read((const char *)data, size, ROOT, on_text, &texts, &err);

	if (rc < 0 && (!err.code || !*err.text))
		abort();
	/* A list is no error. */
	if (gck_xml_error((const char *)data, size, &said) && rc == 0)
		abort();
	return 0;
}
