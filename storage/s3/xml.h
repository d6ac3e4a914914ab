/* SPDX-License-Identifier: Apache-2.0
 * Answers in XML. They are data from outside: a document type is refused; depth and text are
 * bounded. */
#ifndef GCK_XML_H
#define GCK_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

/* Called at the end of each element with its path ("ListBucketResult/Contents/Key") and its text,
 * without the text of inner elements. -1 ends the reading. */
typedef int gck_xml_fn(void *arg, const char *path, const char *text, struct gck_error *err);

/* Parse a document; fn NULL: only check it. -1 (EPROTO): it is not well-formed, or its root is
 * another element, such as that of a proxy's page. */
GCK_MUST_CHECK int gck_xml_read(const char *data, size_t size, const char *root, gck_xml_fn *fn,
				void *arg, struct gck_error *err);

/* Parse <Error><Code/><Message/></Error>; texts are truncated to fit. false: another document. */
struct gck_s3_error {
	char code[64], message[200];
};

bool gck_xml_error(const char *data, size_t size, struct gck_s3_error *e);

#endif
