/* SPDX-License-Identifier: Apache-2.0
 * Commit documents. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/document/json.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"

#define COMMIT_FORMAT 1
#define COMMIT_SEALED 2 /* all but what its removal needs is encrypted */

/* {"check":"<hash of BODY>","commit":BODY}\n: every byte is fixed or hashed. */
static const char head[] = "{\"check\":\"", middle[] = "\",\"commit\":", tail[] = "}\n";

#define HEAD (sizeof head - 1)
#define MIDDLE (sizeof middle - 1)
#define TAIL (sizeof tail - 1)
#define HASH (GCK_HASH_TEXT - 1)
#define FRAME (HEAD + HASH + MIDDLE + TAIL)

static int check_commit(const json_t *commit, uint32_t seq, const char **nonce,
			struct gck_error *err)
{
	const json_t *ranks = json_object_get(commit, "ranks");
	const char *manifest;
	uint32_t format, found, rank;
	json_t *entry;
	size_t i;

	if (gck_json_u32(commit, "format", &format, err) < 0 ||
	    gck_commit_identity(commit, &found, nonce, err) < 0)
		return -1;
	if (format != (gck_document_is_encrypted(commit) ? COMMIT_SEALED : COMMIT_FORMAT))
		return gck_fail(err, ENOTSUP, "commit %u has format %u, this version reads %u and, "
				"encrypted, %u", seq, format, COMMIT_FORMAT, COMMIT_SEALED);
	if (found != seq)
		return gck_fail(err, EBADMSG, "commit %u says that it is %u", seq, found);
	if (!json_is_array(ranks))
		return gck_fail(err, EBADMSG, "commit %u has no \"ranks\"", seq);
	json_array_foreach(ranks, i, entry)
		if (gck_commit_rank(entry, &rank, &manifest, err) < 0)
			return -1;
	return 0;
}

/* ---- writing -------------------------------------------------------------------------------- */

static char *frame(const char *body, struct gck_error *err)
{
	char check[GCK_HASH_TEXT], *text;

	gck_hash_text(gck_hash_bytes(body, strlen(body)), check);
	if (asprintf(&text, "%s%s%s%s%s", head, check, middle, body, tail) >= 0)
		return text;
	gck_fail(err, ENOMEM, "no memory for a commit document");
	return NULL;
}

static int put_commit(struct gck_store *s, uint32_t seq, const char *nonce, const char *text,
		      char hash[GCK_HASH_TEXT], struct gck_error *err)
{
	char name[GCK_NAME_MAX], dir[GCK_NAME_MAX];

	gck_name_commit(name, seq);
	gck_name_dir(dir, seq, nonce);
	if (s->b->ops->put(s->b, name, dir, text, strlen(text), err) < 0)
		return -1;
	gck_hash_text(gck_hash_bytes(text, strlen(text)), hash);
	return 0;
}

/* The members that removal needs stay readable in an encrypted commit. */
static json_t *seal_commit(struct gck_store *s, uint32_t seq, const json_t *commit,
			   struct gck_error *err)
{
	static const char *const readable[] = { "seq", "nonce", "ranks" };
	json_t *plain = json_pack("{s:i}", "format", COMMIT_SEALED);
	json_t *secret = json_copy((json_t *)commit), *sealed = NULL;
	char name[GCK_NAME_MAX];

	json_object_del(secret, "key");
	json_object_del(secret, "format");
	for (size_t i = 0; i < sizeof readable / sizeof *readable; i++) {
		json_object_set(plain, readable[i], json_object_get(commit, readable[i]));
		json_object_del(secret, readable[i]);
	}
	gck_name_commit(name, seq);
	if (gck_store_encrypt(s, json_string_value(json_object_get(commit, "key")), err) == 0)
		sealed = gck_document_encrypt(s, name, plain, secret, err);
	json_decref(secret);
	json_decref(plain);
	return sealed;
}

static int write_commit(struct gck_store *s, uint32_t seq, const char *nonce, const json_t *commit,
			char hash[GCK_HASH_TEXT], struct gck_error *err)
{
	char *body = json_dumps(commit, JSON_COMPACT), *text = NULL;
	int rc = -1;

	if (!body)
		return gck_fail(err, ENOMEM, "no memory for a commit document");
	text = frame(body, err);
	if (text)
		rc = put_commit(s, seq, nonce, text, hash, err);
	free(text);
	free(body);
	return rc;
}

int gck_store_commit(struct gck_store *s, uint32_t seq, const json_t *commit,
		     char hash[GCK_HASH_TEXT], struct gck_error *err)
{
	const json_t *key = json_object_get(commit, "key");
	const char *nonce;
	json_t *written;
	int rc;

	if (key && json_string_length(key) == 0)
		return gck_fail(err, EINVAL, "commit %u: its \"key\" is none", seq);
	if (check_commit(commit, seq, &nonce, err) < 0 ||
	    gck_manifests_check(s, commit, err) < 0)
		return -1;
	written = key ? seal_commit(s, seq, commit, err) : json_incref((json_t *)commit);
	rc = written ? write_commit(s, seq, nonce, written, hash, err) : -1;
	json_decref(written);
	return rc;
}

/* ---- reading -------------------------------------------------------------------------------- */

static json_t *parse_commit(struct gck_store *s, const char *name, char *text, size_t size,
			    struct gck_error *err)
{
	char *body = text + HEAD + HASH + MIDDLE;
	char check[GCK_HASH_TEXT];
	json_t *commit;

	if (size < FRAME || memcmp(text, head, HEAD) ||
	    memcmp(text + HEAD + HASH, middle, MIDDLE) || memcmp(text + size - TAIL, tail, TAIL)) {
		gck_document_damaged(s, name, "it does not have the form of a commit", err);
		return NULL;
	}
	gck_hash_text(gck_hash_bytes(body, size - FRAME), check);
	if (memcmp(text + HEAD, check, HASH)) {
		gck_document_damaged(s, name, "its check is wrong", err);
		return NULL;
	}
	text[size - TAIL] = '\0';
	commit = gck_json_parse(body, size - FRAME, err);
	if (!commit)
		gck_fail_in(err, "%s/%s", s->b->where, name);
	return commit;
}

json_t *gck_commit_load(struct gck_store *s, uint32_t seq, const char *hash,
			char found[GCK_HASH_TEXT], struct gck_error *err)
{
	char name[GCK_NAME_MAX], have[GCK_HASH_TEXT];
	json_t *commit = NULL;
	const char *nonce;
	size_t size;
	char *text;

	gck_name_commit(name, seq);
	if (gck_document_load(s, name, &text, &size, have, err) < 0)
		return NULL;
	if (hash && strcmp(hash, have))
		gck_document_damaged(s, name, "its hash is not the one that was committed", err);
	else
		commit = parse_commit(s, name, text, size, err);
	free(text);
	if (commit && check_commit(commit, seq, &nonce, err) < 0) {
		json_decref(commit);
		return NULL;
	}
	if (commit && found)
		memcpy(found, have, sizeof have);
	return commit;
}

json_t *gck_store_read_commit(struct gck_store *s, uint32_t seq, const char *hash,
			      char found[GCK_HASH_TEXT], struct gck_error *err)
{
	char name[GCK_NAME_MAX];
	json_t *commit = gck_commit_load(s, seq, hash, found, err), *opened = NULL;

	gck_name_commit(name, seq);
	if (commit)
		opened = gck_document_decrypt(s, name, commit, err);
	json_decref(commit);
	return opened;
}

/* ---- listing -------------------------------------------------------------------------------- */

struct seqs {
	uint32_t *v;
	size_t n, capacity;
};

static int collect_commit(void *arg, const char *name, struct gck_error *err)
{
	struct seqs *s = arg;
	uint32_t seq;

	if (!gck_name_is_commit(name, &seq))
		return 0;
	if (s->n == s->capacity) {
		size_t capacity = s->capacity ? 2 * s->capacity : 16;
		uint32_t *v = reallocarray(s->v, capacity, sizeof *v);

		if (!v)
			return gck_fail(err, ENOMEM, "no memory for a list of commits");
		s->v = v;
		s->capacity = capacity;
	}
	s->v[s->n++] = seq;
	return 0;
}

static int compare_seq(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int gck_store_list(struct gck_store *s, uint32_t **seqs, size_t *n, struct gck_error *err)
{
	struct seqs found = { NULL, 0, 0 };

	if (s->b->ops->list(s->b, "", collect_commit, &found, err) < 0) {
		free(found.v);
		return -1;
	}
	if (found.n)
		qsort(found.v, found.n, sizeof *found.v, compare_seq);
	*seqs = found.v;
	*n = found.n;
	return 0;
}

/* ---- a commit that is not there ------------------------------------------------------------ */

json_t *gck_commit_entry(const json_t *commit, uint32_t seq, const char *hash, const char *cluster)
{
	static const char *const numbers[] = {"restarts", "time", "from"};
	const char *origin = json_string_value(json_object_get(commit, "cluster"));
	char program[GCK_HASH_TEXT];
	json_t *e;

	gck_hash_json(json_object_get(commit, "fingerprint"), program);
	e = json_pack("{s:I, s:s, s:s}", "seq", (json_int_t)seq, "hash", hash, "fingerprint",
		      program);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (json_is_integer(json_object_get(commit, numbers[i])))
			json_object_set(e, numbers[i], json_object_get(commit, numbers[i]));
	if (origin && strcmp(origin, cluster) != 0)
		json_object_set_new(e, "info", json_pack("{s:b}", "imported", 1));
	return e;
}

int gck_commit_missing(const char *url, uint32_t job, uint32_t step, uint32_t seq,
		       const uint32_t *have, size_t n, struct gck_error *err)
{
	char text[GCK_COMMITS_NAMED * 12 + 32] = "none";
	size_t used = 0;

	for (size_t i = 0; i < n && i < GCK_COMMITS_NAMED; i++)
		used += (size_t)snprintf(text + used, sizeof text - used, "%s%u", i ? ", " : "",
					 have[i]);
	if (n > GCK_COMMITS_NAMED)
		snprintf(text + used, sizeof text - used, " and older ones");
	return gck_fail(err, ENOENT, "step %u.%u has no commit %u: it has %s in %s; see "
			"`gpuckpt list %u`, and correct restart= or store=", job, step, seq, text,
			url, job);
}
