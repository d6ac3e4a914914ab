/* SPDX-License-Identifier: Apache-2.0
 * The `s3:` backend: opening, operations on one object, probing. A completed request is durable, so
 * flush does nothing; directories do not exist, so none are made. */
#include "config.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nmmintrin.h>
#include <openssl/evp.h>

#include "common/base/encoding.h"
#include "storage/s3/request.h"
#include "storage/s3/s3.h"
#include "storage/s3/signer.h"

/* One connection seldom fills a network; more than this many burden the server. */
#define PARALLEL 8

/* How many uploads with an MD5 run at once, since computing an MD5 takes as long as sending. If all
 * PARALLEL uploads ran together, a fair server would finish them at the same time and then be idle
 * while the next objects are read and hashed. */
#define SENT_WITH_MD5 4

/* ---- checksums ------------------------------------------------------------------------------ */

/* 8 bytes in 3 cycles: a few percent of the cost of compression or TLS. */
__attribute__((target("sse4.2"))) static uint32_t crc32c(const unsigned char *p, size_t size)
{
	uint64_t crc = 0xffffffff, word;

	for (; size >= sizeof word; p += sizeof word, size -= sizeof word) {
		memcpy(&word, p, sizeof word);
		crc = _mm_crc32_u64(crc, word);
	}
	for (; size > 0; size--)
		crc = _mm_crc32_u8((uint32_t)crc, *p++);
	return ~(uint32_t)crc;
}

/* NULL: this machine has no SSE 4.2. */
static char *checksum_crc32c(const void *data, size_t size)
{
	uint32_t crc;

	if (!__builtin_cpu_supports("sse4.2"))
		return NULL;
	crc = htobe32(crc32c(data, size));
	return gck_base64_text(&crc, sizeof crc);
}

char *gck_checksum_md5(const void *data, size_t size)
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned n;

	if (EVP_Digest(data, size, digest, &n, EVP_md5(), NULL) != 1)
		return NULL;
	return gck_base64_text(digest, n);
}

/* ---- reading -------------------------------------------------------------------------------- */

int gck_s3_size(struct gck_backend *b, const char *name, uint64_t *size, struct gck_error *err)
{
	struct gck_s3_store *s = (struct gck_s3_store *)b;
	struct gck_s3_call c = { .sign = { GCK_SIGN_HEAD, name } };

	if (gck_s3_call(s, &c, err) < 0)
		return -1;
	gck_s3_end(&c);
	if (c.http.length < 0) {
		gck_fail(err, EPROTO, "the answer does not say how long it is");
		return gck_s3_fail_in(s, &c.sign, err);
	}
	*size = (uint64_t)c.http.length;
	return 0;
}

static int s3_get(struct gck_backend *b, const char *name, uint64_t offset, void *data, size_t size,
		  struct gck_error *err)
{
	struct gck_s3_call c = { .sign = { GCK_SIGN_GET, name }, .into = data, .offset = offset,
				 .capacity = size };

	if (size == 0)
		return 0;
	if (gck_s3_call((struct gck_s3_store *)b, &c, err) < 0)
		return -1;
	gck_s3_end(&c);
	return 0;
}

/* ---- writing -------------------------------------------------------------------------------- */

/* Does the object exist with this length? An error here shows up again in the upload. */
static bool is_there(struct gck_backend *b, const char *name, size_t size)
{
	uint64_t length;

	return gck_s3_size(b, name, &length, NULL) == 0 && length == size;
}

/* An existing object may be this one: the answer to the first attempt may have been lost. */
static bool is_ours(struct gck_backend *b, const char *name, const void *data, size_t size)
{
	char *there = malloc(size + 1);
	bool same = there && is_there(b, name, size) &&
		    s3_get(b, name, 0, there, size, NULL) == 0 && !memcmp(there, data, size);

	free(there);
	return same;
}

/* Every server verifies an MD5, which costs more than the rest of a request here. */
static int put_md5(struct gck_s3_store *s, const char *name, const void *data, size_t size,
		   bool only_new, struct gck_error *err)
{
	struct gck_s3_call c = { .sign = { GCK_SIGN_PUT, name, .only_new = only_new },
				 .body = data, .size = size };
	struct gck_error why;
	char *md5 = gck_checksum_md5(data, size);
	int rc;

	c.sign.md5 = md5;
	while (sem_wait(&s->sent_with_md5) < 0)
		;
	rc = gck_s3_call(s, &c, &why);
	sem_post(&s->sent_with_md5);
	if (rc == 0)
		gck_s3_end(&c);
	free(md5);
	if (rc < 0 && why.code == EEXIST && is_ours(&s->head, name, data, size))
		return 0;
	if (rc < 0 && err)
		*err = why;
	return rc;
}

/* *verified: the server compared the checksum with the bytes that it received. */
static int put_crc32c(struct gck_s3_store *s, const char *name, const void *data, size_t size,
		      bool *verified, struct gck_error *err)
{
	struct gck_s3_call c = { .sign = { GCK_SIGN_PUT, name }, .body = data, .size = size };
	char *crc32c = checksum_crc32c(data, size);
	int rc;

	c.sign.crc32c = crc32c;
	rc = gck_s3_call(s, &c, err);
	free(crc32c);
	if (rc < 0)
		return -1;
	*verified = c.http.verified;
	gck_s3_end(&c);
	return 0;
}

static int s3_put_object(struct gck_backend *b, const char *name, const void *data, size_t size,
			 bool shared, struct gck_error *err)
{
	struct gck_s3_store *s = (struct gck_s3_store *)b;
	enum gck_s3_checksum unknown = GCK_S3_UNKNOWN, asked = GCK_S3_ASKED;
	bool verified;

	if (shared && is_there(b, name, size))
		return 0;
	if (s->checksum == GCK_S3_HAS_CRC32C ||
	    atomic_compare_exchange_strong(&s->checksum, &unknown, GCK_S3_ASKED)) {
		if (put_crc32c(s, name, data, size, &verified, err) < 0) {
			atomic_compare_exchange_strong(&s->checksum, &asked, GCK_S3_UNKNOWN);
			return -1;
		}
		if (verified) {
			atomic_compare_exchange_strong(&s->checksum, &asked, GCK_S3_HAS_CRC32C);
			return 0;
		}
		s->checksum = GCK_S3_NO_CRC32C; /* the stored bytes are not verified */
	}
	return put_md5(s, name, data, size, false, err);
}

static int s3_put(struct gck_backend *b, const char *name, const char *dir, const void *data,
		  size_t size, struct gck_error *err)
{
	struct gck_s3_store *s = (struct gck_s3_store *)b;

	uint32_t seq;

	(void)dir;
	if (size > GCK_S3_PART)
		return gck_s3_put_parts(s, name, data, size, err);
	return put_md5(s, name, data, size, gck_name_is_commit(name, &seq), err);
}

static int s3_flush(struct gck_backend *b, struct gck_error *err)
{
	(void)b;
	(void)err;
	return 0;
}

/* ---- removing ------------------------------------------------------------------------------- */

static int s3_remove(struct gck_backend *b, const char *name, struct gck_error *err)
{
	struct gck_s3_store *s = (struct gck_s3_store *)b;
	const struct gck_sign_request delete = { GCK_SIGN_DELETE, name };

	/* A directory disappears with its last object; unfinished uploads must be aborted. */
	if (name[strlen(name) - 1] == '/')
		return gck_s3_abort_below(s, name, err);
	return gck_s3_remove(s, &delete, err);
}

static int s3_space(struct gck_backend *b, uint64_t *bytes, struct gck_error *err)
{
	(void)b;
	(void)err;
	*bytes = UINT64_MAX;
	return 0;
}

static void s3_remove_empty(struct gck_backend *b)
{
	(void)b;
}

/* ---- opening -------------------------------------------------------------------------------- */

static void s3_close(struct gck_backend *b)
{
	struct gck_s3_store *s = (struct gck_s3_store *)b;

	free((char *)s->of.url);
	free((char *)s->of.cluster);
	free(s->above);
	free(s->head.where);
	sem_destroy(&s->sent_with_md5);
	free(s);
}

static const struct gck_backend_ops s3_ops = {
	.close = s3_close,
	.put_object = s3_put_object,
	.flush = s3_flush,
	.put = s3_put,
	.size = gck_s3_size,
	.get = s3_get,
	.list = gck_s3_list,
	.remove = s3_remove,
	.space = s3_space,
	.remove_empty = s3_remove_empty,
};

static int found_one(void *arg, const char *name, struct gck_error *err)
{
	(void)name;
	(void)err;
	*(bool *)arg = true;
	return 0;
}

/* A step without objects is ENOENT, like a directory that does not exist. */
static int check_step(struct gck_s3_store *s, struct gck_error *err)
{
	bool found = false;

	if (gck_s3_list(&s->head, "", found_one, &found, err) < 0)
		return -1;
	return found ? 0 : gck_fail(err, ENOENT, "store %.300s: nothing is there", s->head.where);
}

static int s3_fill(struct gck_s3_store *s, const char *url, const char *cluster, uint32_t job,
		   uint32_t step, struct gck_error *err)
{
	s->head.ops = &s3_ops;
	s->head.parallel = PARALLEL;
	sem_init(&s->sent_with_md5, 0, SENT_WITH_MD5);
	s->head.remote = true;
	s->of = (struct gck_sign_scope){ strdup(url), strdup(cluster), job, step, .uid = 0 };
	if (asprintf(&s->head.where, "%s/%s/%" PRIu32 "/%" PRIu32, url, cluster, job, step) < 0)
		s->head.where = NULL;
	if (!s->of.url || !s->of.cluster || !s->head.where)
		return gck_fail(err, ENOMEM, "no memory to open the store %.200s", url);
	if (gck_s3_key(&s->of, "", &s->above, err) < 0)
		return -1;
	snprintf(s->below, sizeof s->below, "/%" PRIu32 "/%" PRIu32 "/", job, step);
	s->above[strlen(s->above) - strlen(s->below) - strlen("0")] = '\0';
	return 0;
}

struct gck_backend *gck_s3_open(const char *url, const char *cluster, uint32_t job, uint32_t step,
				bool create, struct gck_error *err)
{
	struct gck_s3_store *s;

	if (!gck_sign_ready()) {
		gck_fail(err, ENOTSUP, "store %.200s: nobody signs requests here: S3Store and its "
			 "keys are gpuckptd's, see gpuckpt.conf(5)", url);
		return NULL;
	}
	s = calloc(1, sizeof *s);
	if (!s) {
		gck_fail(err, ENOMEM, "no memory to open the store %.200s", url);
		return NULL;
	}
	if (s3_fill(s, url, cluster, job, step, err) == 0 && (create || check_step(s, err) == 0))
		return &s->head;
	s3_close(&s->head);
	return NULL;
}

/* ---- probing -------------------------------------------------------------------------------- */

#define PROBE_NAME "commit-0.json" /* no checkpoint has the number 0 */

static int probe_call(struct gck_s3_store *s, enum gck_sign_verb verb, bool only_new,
		struct gck_s3_probe *found, struct gck_error *err)
{
	struct gck_s3_call c = { .sign = { .verb = verb,
					   .name = verb == GCK_SIGN_LIST ? "" : PROBE_NAME,
					   .only_new = only_new },
				 .body = "{}", .size = verb == GCK_SIGN_PUT ? 2 : 0 };

	if (gck_s3_call(s, &c, err) < 0)
		return -1;
	if (c.http.date >= 0)
		found->skew_s = c.http.date - time(NULL);
	gck_s3_end(&c);
	return 0;
}

/* The object exists: a server that knows the condition refuses to overwrite it. */
static int try_condition(struct gck_s3_store *s, struct gck_s3_probe *found, struct gck_error *err)
{
	struct gck_error why = { 0 };

	if (probe_call(s, GCK_SIGN_PUT, true, found, &why) == 0) {
		found->only_new = false;
		return 0;
	}
	found->only_new = why.code == EEXIST;
	if (!found->only_new && err)
		*err = why;
	return found->only_new ? 0 : -1;
}

int gck_s3_probe(const char *url, const char *cluster, struct gck_s3_probe *found,
		 struct gck_error *err)
{
	struct gck_backend *b = gck_s3_open(url, cluster, 0, 0, true, err);
	struct gck_s3_store *s = (struct gck_s3_store *)b;
	int rc;

	if (!b)
		return -1;
	rc = probe_call(s, GCK_SIGN_LIST, false, found, err) < 0 ||
		     probe_call(s, GCK_SIGN_PUT, false, found, err) < 0 ||
		     try_condition(s, found, err) < 0 ||
		     probe_call(s, GCK_SIGN_DELETE, false, found, err) < 0 ? -1 : 0;
	b->ops->close(b);
	return rc;
}
