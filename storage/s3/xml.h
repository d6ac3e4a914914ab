/* SPDX-License-Identifier: Apache-2.0
 * Answers in XML, as data from outside: no document type, bounded depth and text. */
#ifndef GCK_XML_H
#define GCK_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

/* The end of an element: its path ("ListBucketResult/Contents/Key") and the text in it, without
 * that of elements in it. -1 ends the reading. */
typedef int gck_xml_fn(void *arg, const char *path, const char *text, struct gck_error *err);

/* fn may be NULL, to check only. -1 (EPROTO): it is not such a document, or its root is another
 * element: what is well-formed may be a proxy's page of its own. */
int gck_xml_read(const char *data, size_t size, const char *root, gck_xml_fn *fn, void *arg,
		 struct gck_error *err);

/* <Error><Code/><Message/></Error>, cut to fit. false: it is something else. */
struct gck_s3_error {
	char code[64], message[200];
};

bool gck_xml_error(const char *data, size_t size, struct gck_s3_error *e);

#endif
