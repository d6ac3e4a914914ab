/* SPDX-License-Identifier: Apache-2.0
 * A job's key, and the keys derived from it for chunks, names and documents. */
#include "storage/crypto/job_key.h"

#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "common/base/encoding.h"

/* Each derived key has one use. */
struct gck_job_key {
	unsigned char job[GCK_CRYPTO_KEY];
	unsigned char chunks[GCK_CRYPTO_KEY], names[GCK_CRYPTO_KEY], documents[GCK_CRYPTO_KEY];
};

static int derive(struct gck_job_key *s, struct gck_error *err)
{
	static const char chunks[] = "gpuckpt chunks", names[] = "gpuckpt names",
			  documents[] = "gpuckpt documents";

	if (gck_crypto_mac(s->job, chunks, strlen(chunks), s->chunks, err) < 0 ||
	    gck_crypto_mac(s->job, names, strlen(names), s->names, err) < 0)
		return -1;
	return gck_crypto_mac(s->job, documents, strlen(documents), s->documents, err);
}

struct gck_job_key *gck_job_key_new(const unsigned char key[GCK_CRYPTO_KEY], struct gck_error *err)
{
	struct gck_job_key *s = calloc(1, sizeof *s);

	if (!s) {
		gck_fail(err, ENOMEM, "no memory for a key");
		return NULL;
	}
	memcpy(s->job, key, sizeof s->job);
	if (derive(s, err) == 0)
		return s;
	gck_job_key_free(s);
	return NULL;
}

void gck_job_key_free(struct gck_job_key *s)
{
	if (!s)
		return;
	explicit_bzero(s, sizeof *s);
	free(s);
}

bool gck_job_key_same(const struct gck_job_key *a, const struct gck_job_key *b)
{
	return a && b ? !memcmp(a->job, b->job, sizeof a->job) : a == b;
}

/* ---- chunks --------------------------------------------------------------------------------- */

/* The associated data of a chunk: numbers little-endian, hash canonical. */
struct row {
	XXH128_canonical_t hash;
	uint32_t size, method;
};

static struct gck_associated_data bound(const struct gck_chunk *c, struct row *row)
{
	_Static_assert(sizeof *row == 24, "no padding");
	*row = (struct row){ .size = c->size, .method = c->method };
	XXH128_canonicalFromHash(&row->hash, (XXH128_hash_t){ c->hash.lo, c->hash.hi });
	return (struct gck_associated_data){ row, sizeof *row };
}

int gck_chunk_encrypt(const struct gck_job_key *s, const struct gck_chunk *c, void *at, size_t size,
		   struct gck_error *err)
{
	char *data = (char *)at + GCK_ENCRYPT_BEFORE;
	struct row row;

	if (gck_crypto_random(at, GCK_CRYPTO_NONCE, err) < 0)
		return -1;
	return gck_crypto_encrypt(s->chunks, at, bound(c, &row), data, size, data, err);
}

int gck_chunk_decrypt(const struct gck_job_key *s, const struct gck_chunk *c, const void *at,
		      void *to,
			struct gck_error *err)
{
	struct row row;

	return gck_crypto_decrypt(s->chunks, at, bound(c, &row),
				  (const char *)at + GCK_ENCRYPT_BEFORE,
			       c->stored - GCK_ENCRYPT_EXTRA, to, err);
}

/* ---- names ---------------------------------------------------------------------------------- */

int gck_keyed_name(const struct gck_job_key *s, const void *data, size_t size,
		   struct gck_hash *name,
		  struct gck_error *err)
{
	unsigned char mac[32];

	if (gck_crypto_mac(s->names, data, size, mac, err) < 0)
		return -1;
	memcpy(name, mac, sizeof *name);
	return 0;
}

/* ---- documents ------------------------------------------------------------------------------ */

char *gck_text_encrypt(const struct gck_job_key *s, const char *about, char *text,
		       struct gck_error *err)
{
	size_t size = strlen(text);
	unsigned char *bytes = realloc(text, size + GCK_ENCRYPT_EXTRA);
	char *box = NULL;

	if (!bytes) {
		free(text);
		gck_fail(err, ENOMEM, "no memory to encrypt %zu bytes", size);
		return NULL;
	}
	memmove(bytes + GCK_ENCRYPT_BEFORE, bytes, size);
	if (gck_crypto_random(bytes, GCK_CRYPTO_NONCE, err) == 0 &&
	    gck_crypto_encrypt(s->documents, bytes,
			       (struct gck_associated_data){about, strlen(about)},
			       bytes + GCK_ENCRYPT_BEFORE, size, bytes + GCK_ENCRYPT_BEFORE,
			       err) == 0 &&
	    !(box = gck_base64_text(bytes, size + GCK_ENCRYPT_EXTRA)))
		gck_fail(err, ENOMEM, "no memory to encrypt %zu bytes", size);
	free(bytes);
	return box;
}

/* The text takes the place of the encrypted bytes, which begin before it. */
static char *open_bytes(const struct gck_job_key *s, const char *about, unsigned char *bytes,
			size_t size,
			struct gck_error *err)
{
	size_t length = size - GCK_ENCRYPT_EXTRA;

	if (gck_crypto_decrypt(s->documents, bytes,
			       (struct gck_associated_data){about, strlen(about)},
			       bytes + GCK_ENCRYPT_BEFORE, length, bytes + GCK_ENCRYPT_BEFORE,
			       err) < 0)
		return NULL;
	memmove(bytes, bytes + GCK_ENCRYPT_BEFORE, length);
	bytes[length] = '\0';
	return (char *)bytes;
}

char *gck_text_decrypt(const struct gck_job_key *s, const char *about, const char *box,
			 struct gck_error *err)
{
	size_t length = strlen(box);
	unsigned char *bytes = malloc(GCK_BASE64_BYTES_MAX(length) + 1);
	long size = bytes ? gck_base64_bytes(box, length, bytes) : 0;
	char *text = NULL;

	if (!bytes)
		gck_fail(err, ENOMEM, "no memory to decrypt %zu bytes", length);
	else if (size < GCK_ENCRYPT_EXTRA)
		gck_fail(err, EBADMSG, "it does not decrypt: it is not base64, or cut off");
	else
		text = open_bytes(s, about, bytes, (size_t)size, err);
	if (!text)
		free(bytes);
	return text;
}
