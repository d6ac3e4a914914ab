/* SPDX-License-Identifier: Apache-2.0
 * Manifests, checked against the hashes in their commit. */
#include <stdlib.h>
#include <string.h>

#include "storage/document/json.h"
#include "storage/store/manifest.h"

int gck_commit_identity(const json_t *commit, uint32_t *seq, const char **nonce,
			struct gck_error *err)
{
	const char *text = json_string_value(json_object_get(commit, "nonce"));
	uint32_t n;

	if (gck_json_u32(commit, "seq", &n, err) < 0)
		return gck_fail_in(err, "commit");
	if (!text)
		return gck_fail(err, EBADMSG, "commit %u: \"nonce\" is missing", n);
	if (gck_nonce_check(text, err) < 0)
		return gck_fail_in(err, "commit %u", n);
	*seq = n;
	*nonce = text;
	return 0;
}

int gck_commit_rank(const json_t *entry, uint32_t *rank, const char **manifest,
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

int gck_ranks_begin(struct gck_ranks *r, const json_t *commit, struct gck_error *err)
{
	*r = (struct gck_ranks){ .commit = commit };
	return gck_commit_identity(commit, &r->seq, &r->nonce, err);
}

static int next_rank(struct gck_ranks *r, struct gck_error *err)
{
	const json_t *all = json_object_get(r->commit, "ranks");

	if (r->next == json_array_size(all))
		return 0;
	return gck_commit_rank(json_array_get(all, r->next++), &r->rank, &r->manifest,
			       err) < 0 ? -1 : 1;
}

int gck_ranks_next(struct gck_ranks *r, struct gck_error *err)
{
	int rc;

	do
		rc = next_rank(r, err);
	while (rc > 0 && !r->manifest);
	return rc;
}

/* Load a manifest's text and compare its hash; free() *text. */
static int load_manifest(struct gck_store *s, const struct gck_ranks *r, char **text, size_t *size,
			 struct gck_error *err)
{
	char name[GCK_NAME_MAX], hash[GCK_HASH_TEXT];

	gck_name_manifest(name, r->seq, r->nonce, r->rank);
	if (gck_document_load(s, name, text, size, hash, err) < 0)
		return -1;
	if (!strcmp(hash, r->manifest))
		return 0;
	free(*text);
	return gck_document_damaged(s, name, "its hash is not the one in the commit", err);
}

json_t *gck_ranks_read_raw(const struct gck_ranks *r, struct gck_store *s, struct gck_error *err)
{
	json_t *manifest;
	size_t size;
	char *text;

	if (load_manifest(s, r, &text, &size, err) < 0)
		return NULL;
	manifest = gck_json_parse(text, size, err);
	free(text);
	if (json_is_object(manifest))
		return manifest;
	if (manifest)
		gck_fail(err, EBADMSG, "not a JSON object");
	gck_fail_in(err, "%s: manifest %u of commit %u", s->b->where, r->rank, r->seq);
	json_decref(manifest);
	return NULL;
}

json_t *gck_ranks_read(const struct gck_ranks *r, struct gck_store *s, struct gck_error *err)
{
	json_t *manifest = gck_ranks_read_raw(r, s, err), *opened = NULL;
	char name[GCK_NAME_MAX];

	if (!manifest)
		return NULL;
	gck_name_manifest(name, r->seq, r->nonce, r->rank);
	/* The hash in the commit is not cryptographic: check the encryption too. */
	if (gck_document_is_encrypted(manifest) == gck_document_is_encrypted(r->commit))
		opened = gck_document_decrypt(s, name, manifest, err);
	else
		gck_document_damaged(s, name, "it is not encrypted as its commit is", err);
	json_decref(manifest);
	return opened;
}

json_t *gck_store_read_manifest(struct gck_store *s, const json_t *commit, uint32_t rank,
				struct gck_error *err)
{
	struct gck_ranks r;
	int rc;

	if (gck_ranks_begin(&r, commit, err) < 0)
		return NULL;
	while ((rc = next_rank(&r, err)) > 0 && r.rank != rank)
		;
	if (rc > 0 && r.manifest)
		return gck_ranks_read(&r, s, err);
	if (rc > 0)
		gck_fail(err, ENODATA, "rank %u had finished when commit %u was made", rank, r.seq);
	else if (rc == 0)
		gck_fail(err, ENOENT, "commit %u has no rank %u", r.seq, rank);
	return NULL;
}

int gck_manifests_check(struct gck_store *s, const json_t *commit, struct gck_error *err)
{
	struct gck_ranks r;
	size_t size;
	char *text;
	int rc;

	if (gck_ranks_begin(&r, commit, err) < 0)
		return -1;
	while ((rc = gck_ranks_next(&r, err)) > 0) {
		if (load_manifest(s, &r, &text, &size, err) < 0)
			return -1;
		free(text);
	}
	return rc;
}
