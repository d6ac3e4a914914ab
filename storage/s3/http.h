/* SPDX-License-Identifier: Apache-2.0
 * HTTP requests of any number of threads, made by one thread of the process with libcurl's multi
 * interface: connections are kept and used by whoever comes next. HTTP/1.1, TLS always verified,
 * redirects not followed. No retries here: request.c makes those. */
#ifndef GCK_HTTP_H
#define GCK_HTTP_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/base/error.h"

#define GCK_HTTP_TEXT_MAX (16u << 20) /* of an answer that is not an object */
#define GCK_HTTP_HEADERS 4

/* One request, zeroed, then filled; all that it points to is borrowed until gck_http returns. */
struct gck_http {
	const char *method, *url;
	const char *ca;                            /* a file; NULL: the system's */
	const char *headers[GCK_HTTP_HEADERS + 1]; /* "Name: value"; NULL ends them */
	const char *range;                         /* "0-99"; NULL: all */
	const void *body;                          /* of PUT and POST */
	size_t body_size;
	void *into; /* where a 2xx answer's body goes, of at most capacity bytes; NULL: into text */
	size_t capacity;
	unsigned patience; /* seconds without progress */

	/* The answer. */
	long status;
	size_t got;   /* bytes in into */
	char *text;   /* the body, where it did not go into into; gck_http_end frees it */
	size_t size;  /* bytes in text; a NUL follows them */
	int64_t length; /* Content-Length; -1: not said */
	uint64_t first; /* of Content-Range */
	char etag[128];
	bool verified; /* it has looked at the x-amz-checksum-crc32c that it was sent */
	time_t date; /* the server's clock; -1: not said */
	time_t retry_after; /* seconds; 0: not said */

	/* http.c's own. */
	CURL *easy;
	struct curl_slist *list;
	size_t sent;
	bool overflow, done;
	CURLcode code;
	char why[CURL_ERROR_SIZE];
	struct gck_http *next;
};

/* Make the request; 0: there is an answer, of whatever status. -1: there is none, whole: EPIPE: the
 * connection failed or was lost; ETIMEDOUT: no progress; EPROTO: it is larger than it may be;
 * EACCES: the server's certificate does not hold; others: nothing was sent. err says why. */
int gck_http(struct gck_http *h, struct gck_error *err);
void gck_http_end(struct gck_http *h);

#endif
