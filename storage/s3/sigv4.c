/* SPDX-License-Identifier: Apache-2.0
 * AWS Signature Version 4. */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "common/base/encoding.h"
#include "storage/s3/sigv4.h"

#define SIGNATURE_PAIRS 6 /* X-Amz-... in the query */
#define DATE 9 /* "20130524" and the NUL */
#define STAMP 17

struct pairs {
	struct gck_sigv4_pair v[GCK_SIGV4_PAIRS + SIGNATURE_PAIRS];
	size_t n;
};

struct signing {
	const struct gck_sigv4_keys *k;
	const struct gck_sigv4_request *r;
	char date[DATE], stamp[STAMP];
	char *scope;   /* date/region/service/aws4_request */
	char *names;   /* of the signed headers: host;... */
	char *query;   /* encoded and in order, without the signature */
};

/* Encode bytes for a URL: all but A-Z a-z 0-9 - . _ ~ (and '/' if slash) become %XX. */
static void encode(FILE *out, const char *text, bool slash)
{
	for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
		if ((*c < 0x80 && isalnum(*c)) || strchr("-._~", *c) || (slash && *c == '/'))
			putc(*c, out);
		else
			fprintf(out, "%%%02X", *c);
	}
}

/* Close a memory stream, in which all texts here are made. -1: out of memory. */
static int stream_end(FILE *out, char **text, struct gck_error *err)
{
	bool bad = !out || ferror(out);

	if (out && fclose(out) == 0 && !bad)
		return 0;
	if (out)
		free(*text);
	*text = NULL;
	return gck_fail(err, ENOMEM, "no memory to sign a request");
}

static int by_name(const void *a, const void *b)
{
	const struct gck_sigv4_pair *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void pairs_add(struct pairs *p, const char *name, const char *value)
{
	p->v[p->n++] = (struct gck_sigv4_pair){ name, value };
}

/* Add the request's pairs. Signature Version 4 sorts by encoded names; the names of S3 need no
 * encoding, so sorting the plain names is the same. */
static void pairs_add_all(struct pairs *p, const struct gck_sigv4_pair *list)
{
	while (list->name && p->n < GCK_SIGV4_PAIRS)
		p->v[p->n++] = *list++;
}

static void pairs_sort(struct pairs *p)
{
	qsort(p->v, p->n, sizeof p->v[0], by_name);
}

static int make_query(struct signing *s, struct gck_error *err)
{
	char credential[512], seconds[16];
	struct pairs p = { .n = 0 };
	size_t size;
	FILE *out;

	if (snprintf(credential, sizeof credential, "%s/%s", s->k->access, s->scope) >=
	    (int)sizeof credential)
		return gck_fail(err, EINVAL, "the access key is too long");
	snprintf(seconds, sizeof seconds, "%u", s->r->seconds);
	pairs_add_all(&p, s->r->query);
	pairs_add(&p, "X-Amz-Algorithm", "AWS4-HMAC-SHA256");
	pairs_add(&p, "X-Amz-Credential", credential);
	pairs_add(&p, "X-Amz-Date", s->stamp);
	pairs_add(&p, "X-Amz-Expires", seconds);
	pairs_add(&p, "X-Amz-SignedHeaders", s->names);
	if (s->k->token)
		pairs_add(&p, "X-Amz-Security-Token", s->k->token);
	pairs_sort(&p);
	out = open_memstream(&s->query, &size);
	for (size_t i = 0; out && i < p.n; i++) {
		if (i)
			putc('&', out);
		encode(out, p.v[i].name, false);
		putc('=', out);
		encode(out, p.v[i].value, false);
	}
	return stream_end(out, &s->query, err);
}

static void headers_of(const struct signing *s, struct pairs *p)
{
	p->n = 0;
	pairs_add_all(p, s->r->headers);
	pairs_add(p, "host", s->r->host);
	pairs_sort(p);
}

static int make_header_names(struct signing *s, struct gck_error *err)
{
	struct pairs p;
	size_t size;
	FILE *out = open_memstream(&s->names, &size);

	headers_of(s, &p);
	for (size_t i = 0; out && i < p.n; i++)
		fprintf(out, "%s%s", i ? ";" : "", p.v[i].name);
	return stream_end(out, &s->names, err);
}

/* Write "name:value" without blanks at the ends, and with runs of blanks made one. */
static void put_header(FILE *out, const struct gck_sigv4_pair *h)
{
	const char *c = h->value + strspn(h->value, " ");

	fprintf(out, "%s:", h->name);
	for (; *c; c++) {
		if (*c == ' ' && (c[1] == ' ' || !c[1]))
			continue;
		putc(*c, out);
	}
	putc('\n', out);
}

static int canonical(const struct signing *s, char **text, struct gck_error *err)
{
	struct pairs p;
	size_t size;
	FILE *out = open_memstream(text, &size);

	headers_of(s, &p);
	if (out) {
		fprintf(out, "%s\n", s->r->method);
		encode(out, s->r->path, true);
		fprintf(out, "\n%s\n", s->query);
		for (size_t i = 0; i < p.n; i++)
			put_header(out, &p.v[i]);
		fprintf(out, "\n%s\n%s", s->names,
			s->r->payload ? s->r->payload : "UNSIGNED-PAYLOAD");
	}
	return stream_end(out, text, err);
}

/* ---- keys and hashes ------------------------------------------------------------------------ */

/* key = HMAC(key, text) */
static bool chain(unsigned char key[SHA256_DIGEST_LENGTH], const char *text)
{
	unsigned char out[SHA256_DIGEST_LENGTH];
	unsigned size = sizeof out;

	if (!HMAC(EVP_sha256(), key, SHA256_DIGEST_LENGTH, (const unsigned char *)text,
		  strlen(text), out, &size))
		return false;
	memcpy(key, out, sizeof out);
	OPENSSL_cleanse(out, sizeof out);
	return true;
}

static bool first_key(const char *secret, const char *date, unsigned char key[SHA256_DIGEST_LENGTH])
{
	unsigned size = SHA256_DIGEST_LENGTH;
	char *text;
	bool good;

	if (asprintf(&text, "AWS4%s", secret) < 0)
		return false;
	good = HMAC(EVP_sha256(), text, (int)strlen(text), (const unsigned char *)date,
		    strlen(date), key, &size);
	OPENSSL_cleanse(text, strlen(text));
	free(text);
	return good;
}

static int sign(const struct signing *s, const char *to_sign,
		char signature[2 * SHA256_DIGEST_LENGTH + 1], struct gck_error *err)
{
	unsigned char key[SHA256_DIGEST_LENGTH] = { 0 };
	bool good = first_key(s->k->secret, s->date, key) && chain(key, s->r->region) &&
		    chain(key, s->r->service) && chain(key, "aws4_request") && chain(key, to_sign);

	gck_hex(key, sizeof key, signature);
	OPENSSL_cleanse(key, sizeof key);
	return good ? 0 : gck_fail(err, EIO, "OpenSSL cannot make an HMAC-SHA256");
}

static int signature_of(const struct signing *s, char signature[2 * SHA256_DIGEST_LENGTH + 1],
			struct gck_error *err)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	char text[2 * SHA256_DIGEST_LENGTH + 1];
	char *request, *to_sign;
	int rc;

	if (canonical(s, &request, err) < 0)
		return -1;
	SHA256((const unsigned char *)request, strlen(request), digest);
	free(request);
	gck_hex(digest, sizeof digest, text);
	if (asprintf(&to_sign, "AWS4-HMAC-SHA256\n%s\n%s\n%s", s->stamp, s->scope, text) < 0)
		return gck_fail(err, ENOMEM, "no memory to sign a request");
	rc = sign(s, to_sign, signature, err);
	free(to_sign);
	return rc;
}

/* ---- the URL -------------------------------------------------------------------------------- */

static int prepare(struct signing *s, struct gck_error *err)
{
	const struct gck_sigv4_request *r = s->r;
	struct tm tm;

	if (r->seconds == 0 || r->seconds > GCK_SIGV4_SECONDS_MAX || r->path[0] != '/' ||
	    !gmtime_r(&r->now, &tm))
		return gck_fail(err, EINVAL, "%s %s cannot be signed for %u seconds", r->method,
				r->path, r->seconds);
	strftime(s->date, sizeof s->date, "%Y%m%d", &tm);
	strftime(s->stamp, sizeof s->stamp, "%Y%m%dT%H%M%SZ", &tm);
	if (asprintf(&s->scope, "%s/%s/%s/aws4_request", s->date, r->region, r->service) < 0) {
		s->scope = NULL;
		return gck_fail(err, ENOMEM, "no memory to sign a request");
	}
	if (make_header_names(s, err) < 0)
		return -1;
	return make_query(s, err);
}

static int make_url(const struct signing *s, char **url, struct gck_error *err)
{
	char signature[2 * SHA256_DIGEST_LENGTH + 1], *text;
	size_t size;
	FILE *out;

	if (signature_of(s, signature, err) < 0)
		return -1;
	out = open_memstream(&text, &size);
	if (out) {
		fprintf(out, "%s://%s", s->r->scheme, s->r->host);
		encode(out, s->r->path, true);
		fprintf(out, "?%s&X-Amz-Signature=%s", s->query, signature);
	}
	if (stream_end(out, &text, err) < 0)
		return -1;
	*url = text;
	return 0;
}

int gck_sigv4_presign(const struct gck_sigv4_keys *k, const struct gck_sigv4_request *r, char **url,
		      struct gck_error *err)
{
	struct signing s = { .k = k, .r = r };
	int rc = prepare(&s, err);

	if (rc == 0)
		rc = make_url(&s, url, err);
	free(s.scope);
	free(s.names);
	free(s.query);
	return rc;
}
