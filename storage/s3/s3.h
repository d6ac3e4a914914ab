/* SPDX-License-Identifier: Apache-2.0
 * The `s3:` backend. request.c makes one request, s3.c works on one object, list.c on a directory,
 * multipart.c writes large documents, http.c and engine.c transfer the bytes. */
#ifndef GCK_S3_H
#define GCK_S3_H

#include <stdbool.h>

#include "storage/base/backend.h"

/* Open the store of a step. url: s3://bucket[/prefix]. Call gck_store_signer before. */
GCK_MUST_CHECK struct gck_backend *gck_s3_open(const char *url, const char *cluster, uint32_t job,
					       uint32_t step, bool create, struct gck_error *err);

struct gck_s3_probe {
	long skew_s;   /* seconds by which the server's clock is ahead of this one */
	bool only_new; /* it refuses to overwrite an object under If-None-Match: * */
};

/* Check that an object store works: list, write and remove below url, through the process's
 * signer, in the place of job 0, which Slurm never has. Blocks while requests are retried. -1:
 * err says what does not work, and what to check. */
GCK_MUST_CHECK int gck_s3_probe(const char *url, const char *cluster, struct gck_s3_probe *found,
				struct gck_error *err);

/* Call fn for each step of the cluster below url. */
GCK_MUST_CHECK int gck_s3_walk(const char *url, const char *cluster, gck_walk_fn *fn, void *arg,
			       struct gck_error *err);

/* ---- within storage/s3 ---------------------------------------------------------------------- */

struct gck_http;
struct gck_s3_store;

/* s3.c: operations of the backend that other files use. */
GCK_MUST_CHECK int gck_s3_size(struct gck_backend *b, const char *name, uint64_t *size,
			       struct gck_error *err);

/* s3.c: the MD5 that the server verifies before it accepts an upload, in base64; free() it. NULL:
 * it cannot be computed (forbidden by FIPS mode, no memory), and the request has none. */
char *gck_checksum_md5(const void *data, size_t size);

/* list.c: list a directory, and abort the multipart uploads below one. */
GCK_MUST_CHECK int gck_s3_list(struct gck_backend *b, const char *dir, gck_list_fn *fn, void *arg,
			       struct gck_error *err);
GCK_MUST_CHECK int gck_s3_abort_below(struct gck_s3_store *s, const char *dir,
				      struct gck_error *err);

/* multipart.c: write a document that is larger than GCK_S3_PART. */
GCK_MUST_CHECK int gck_s3_put_parts(struct gck_s3_store *s, const char *name, const void *data,
				    size_t size, struct gck_error *err);

/* engine.c: the thread that transfers the bytes of all requests of this process. It is started
 * unless it runs. A process that was forked while no request was running starts its own. */
GCK_MUST_CHECK int gck_engine_start(struct gck_error *err);

/* engine.c: perform h->easy, whose private pointer is h, and wait; h->code gets the result. */
void gck_engine_run(struct gck_http *h);

#endif
