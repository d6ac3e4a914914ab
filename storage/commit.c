/* SPDX-License-Identifier: Apache-2.0
 * Commit documents, and manifests as a commit vouches for them. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/internal.h"

#define COMMIT_FORMAT 1

/* {"check":"<hash of BODY>","commit":BODY}\n: every byte is fixed or hashed. */
static const char head[] = "{\"check\":\"", middle[] = "\",\"commit\":", tail[] = "}\n";

#define HEAD (sizeof head - 1)
#define MIDDLE (sizeof middle - 1)
#define TAIL (sizeof tail - 1)
#define HASH (GCK_HASH_TEXT - 1)
#define FRAME (HEAD + HASH + MIDDLE + TAIL)

static int damaged(struct gck_store *s, const char *name, const char *why, struct gck_error *err)
{
	return gck_fail(err, EBADMSG, "%s/%s is damaged: %s", s->b->where, name, why);
}

/* The manifest hash of a rank's entry; NULL: it had finished. */
static int rank_entry(const json_t *entry, uint32_t *rank, const char **manifest,
		      struct gck_error *err)
{
	const json_t *m = json_object_get(entry, "manifest");
	struct gck_hash h;

	if (gck_json_u32(entry, "rank", rank, err) < 0)
		return gck_fail_in(err, "commit's ranks");
	*manifest = json_string_value(m);
	if (!m && json_is_integer(json_object_get(entry, "exit")))
		return 0;
	if (!*manifest)
		return gck_fail(err, EBADMSG, "rank %u has neither \"manifest\" nor \"exit\"",
				*rank);
	return gck_hash_parse(*manifest, &h, err);
}

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
	if (format != COMMIT_FORMAT)
		return gck_fail(err, ENOTSUP, "commit %u has format %u, this version reads %u", seq,
				format, COMMIT_FORMAT);
	if (found != seq)
		return gck_fail(err, EBADMSG, "commit %u says that it is %u", seq, found);
	if (!json_is_array(ranks))
		return gck_fail(err, EBADMSG, "commit %u has no \"ranks\"", seq);
	json_array_foreach(ranks, i, entry)
		if (rank_entry(entry, &rank, &manifest, err) < 0)
			return -1;
	return 0;
}

/* ---- manifests ----------------------------------------------------------------------------- */

/* Load a manifest's text and compare its hash; free() *text. */
static int load_manifest(struct gck_store *s, uint32_t seq, const char *nonce, uint32_t rank,
			 const char *want, char **text, size_t *size, struct gck_error *err)
{
	char name[GCK_NAME_MAX], hash[GCK_HASH_TEXT];

	gck_name_manifest(name, seq, nonce, rank);
	if (gck_document_load(s, name, text, size, hash, err) < 0)
		return -1;
	if (!strcmp(hash, want))
		return 0;
	free(*text);
	return damaged(s, name, "its hash is not the one in the commit", err);
}

static json_t *parse_manifest(struct gck_store *s, uint32_t seq, const char *nonce, uint32_t rank,
			      const char *want, struct gck_error *err)
{
	json_error_t je;
	json_t *manifest;
	size_t size;
	char *text;

	if (load_manifest(s, seq, nonce, rank, want, &text, &size, err) < 0)
		return NULL;
	manifest = json_loadb(text, size, 0, &je);
	free(text);
	if (json_is_object(manifest))
		return manifest;
	gck_fail(err, EBADMSG, "%s: manifest %u of commit %u is not a JSON object", s->b->where,
		 rank, seq);
	json_decref(manifest);
	return NULL;
}

json_t *gck_store_read_manifest(struct gck_store *s, const json_t *commit, uint32_t rank,
				struct gck_error *err)
{
	const char *nonce, *manifest;
	uint32_t seq, r;
	json_t *entry;
	size_t i;

	if (gck_commit_identity(commit, &seq, &nonce, err) < 0)
		return NULL;
	json_array_foreach(json_object_get(commit, "ranks"), i, entry) {
		if (rank_entry(entry, &r, &manifest, err) < 0)
			return NULL;
		if (r != rank)
			continue;
		if (manifest)
			return parse_manifest(s, seq, nonce, rank, manifest, err);
		gck_fail(err, ENODATA, "rank %u had finished when commit %u was made", rank, seq);
		return NULL;
	}
	gck_fail(err, ENOENT, "commit %u has no rank %u", seq, rank);
	return NULL;
}

static int check_manifests(struct gck_store *s, const json_t *commit, uint32_t seq,
			   const char *nonce, struct gck_error *err)
{
	json_t *ranks = json_object_get(commit, "ranks");

	for (size_t i = 0; i < json_array_size(ranks); i++) {
		const char *manifest;
		uint32_t rank;
		size_t size;
		char *text;

		if (rank_entry(json_array_get(ranks, i), &rank, &manifest, err) < 0)
			return -1;
		if (!manifest)
			continue;
		if (load_manifest(s, seq, nonce, rank, manifest, &text, &size, err) < 0)
			return -1;
		free(text);
	}
	return 0;
}

/* ---- writing ------------------------------------------------------------------------------- */

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

int gck_store_commit(struct gck_store *s, uint32_t seq, const json_t *commit,
		     char hash[GCK_HASH_TEXT], struct gck_error *err)
{
	const char *nonce;
	char *body, *text;
	int rc = -1;

	if (check_commit(commit, seq, &nonce, err) < 0 ||
	    check_manifests(s, commit, seq, nonce, err) < 0)
		return -1;
	body = json_dumps(commit, JSON_COMPACT);
	if (!body)
		return gck_fail(err, ENOMEM, "no memory for a commit document");
	text = frame(body, err);
	if (text)
		rc = put_commit(s, seq, nonce, text, hash, err);
	free(text);
	free(body);
	return rc;
}

/* ---- reading ------------------------------------------------------------------------------- */

static json_t *parse_commit(struct gck_store *s, const char *name, const char *text, size_t size,
			    struct gck_error *err)
{
	const char *body = text + HEAD + HASH + MIDDLE;
	char check[GCK_HASH_TEXT];
	json_error_t je;
	json_t *commit;

	if (size < FRAME || memcmp(text, head, HEAD) ||
	    memcmp(text + HEAD + HASH, middle, MIDDLE) || memcmp(text + size - TAIL, tail, TAIL)) {
		damaged(s, name, "it does not have the form of a commit", err);
		return NULL;
	}
	gck_hash_text(gck_hash_bytes(body, size - FRAME), check);
	if (memcmp(text + HEAD, check, HASH)) {
		damaged(s, name, "its check is wrong", err);
		return NULL;
	}
	commit = json_loadb(body, size - FRAME, 0, &je);
	if (!commit)
		damaged(s, name, je.text, err);
	return commit;
}

json_t *gck_store_read_commit(struct gck_store *s, uint32_t seq, const char *hash,
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
		damaged(s, name, "its hash is not the one that was committed", err);
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

/* ---- listing ------------------------------------------------------------------------------- */

struct seqs {
	uint32_t *v;
	size_t n, room;
};

static int collect_commit(void *arg, const char *name, struct gck_error *err)
{
	struct seqs *s = arg;
	uint32_t seq;

	if (!gck_name_is_commit(name, &seq))
		return 0;
	if (s->n == s->room) {
		size_t room = s->room ? 2 * s->room : 16;
		uint32_t *v = reallocarray(s->v, room, sizeof *v);

		if (!v)
			return gck_fail(err, ENOMEM, "no memory for a list of commits");
		s->v = v;
		s->room = room;
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
