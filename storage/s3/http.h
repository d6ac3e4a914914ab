/* SPDX-License-Identifier: Apache-2.0
 * HTTP requests of any number of threads. One thread of the process transfers them all (engine.c),
 * so that later requests reuse connections. HTTP/1.1; TLS is always verified; redirects are not
 * followed. request.c makes retries. */
#ifndef GCK_HTTP_H
#define GCK_HTTP_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "common/base/error.h"

#define GCK_HTTP_TEXT_MAX (16u << 20) /* bytes of an answer that is not an object */
#define GCK_HTTP_HEADERS 4

/* A request. Zero it, then fill it; gck_http borrows what it points to. */
struct gck_http {
	const char *method, *url;
	const char *ca;                            /* a file; NULL: the system's */
	const char *headers[GCK_HTTP_HEADERS + 1]; /* "Name: value"; NULL ends them */
	const char *range;                         /* "0-99"; NULL: all */
	const void *body;                          /* of PUT and POST */
	size_t body_size;
	void *into; /* a buffer of capacity bytes for the body of a 2xx answer; NULL: text */
	size_t capacity;
	unsigned patience; /* seconds without progress */

	/* The answer. */
	long status;
	size_t got;   /* bytes in `into` */
	char *text;   /* the body if it is not in `into`; gck_http_end frees it */
	size_t size;  /* bytes in text; a NUL follows them */
	int64_t length; /* Content-Length; -1: unknown */
	uint64_t first; /* of Content-Range */
	char etag[128];
	bool verified; /* the server has verified the x-amz-checksum-crc32c of the request */
	time_t date; /* the server's clock; -1: unknown */
	time_t retry_after; /* seconds; 0: unknown */

	/* Private to http.c and engine.c. */
	CURL *easy;
	struct curl_slist *list;
	size_t sent;
	bool overflow, done;
	CURLcode code;
	char why[CURL_ERROR_SIZE];
	struct gck_http *next;
};

/* Make the request. 0: a complete answer arrived, with any status; gck_http_end frees it. -1: none.
 * EPIPE: the connection failed or was lost; ETIMEDOUT: no progress; EPROTO: the answer is too
 * large; EACCES: the server's certificate is not valid; other codes: nothing was sent. */
GCK_MUST_CHECK int gck_http(struct gck_http *h, struct gck_error *err);
void gck_http_end(struct gck_http *h);

#endif
