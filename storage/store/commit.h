/* SPDX-License-Identifier: Apache-2.0
 * Commits: the documents that name the manifests of all ranks of a checkpoint. */
#ifndef GCK_COMMIT_H
#define GCK_COMMIT_H

#include "storage/store/manifest.h"

/* Write a commit document: {"format":1,"seq":S,"nonce":"..","time":..,"cluster":..,"job":..,
 * "step":..,"ranks":[{"rank":0,"manifest":"<hash>"}|{"rank":1,"exit":STATUS},...], ...}. Every
 * manifest must exist and be whole. Durable on return. hash gets the hash of the file's bytes. */
GCK_MUST_CHECK int gck_store_commit(struct gck_store *s, uint32_t seq, const json_t *commit,
				    char hash[GCK_HASH_TEXT], struct gck_error *err);

/* List the sequence numbers of the commit documents that exist, ascending; free *seqs. */
GCK_MUST_CHECK int gck_store_list(struct gck_store *s, uint32_t **seqs, size_t *n,
				  struct gck_error *err);

/* Read and check a commit: hash of the file (NULL: unknown; damage is still found), format, seq.
 * found (may be NULL) gets the hash. A new reference. */
GCK_MUST_CHECK json_t *gck_store_read_commit(struct gck_store *s, uint32_t seq, const char *hash,
					     char found[GCK_HASH_TEXT], struct gck_error *err);

/* The same without decryption. */
GCK_MUST_CHECK json_t *gck_commit_load(struct gck_store *s, uint32_t seq, const char *hash,
				       char found[GCK_HASH_TEXT], struct gck_error *err);

/* What a list of a step's commits tells of one: {"seq","hash","fingerprint" (its hash)}, and as far
 * as the document has them "restarts", "time", "from". One of another cluster was imported here:
 * {"info":{"imported":true}}. A new reference. */
json_t *gck_commit_entry(const json_t *commit, uint32_t seq, const char *hash,
			 const char *cluster);

/* Fail with ENOENT: step job.step has no commit seq in the store of this URL, and the n commits in
 * have, the newest first, instead. Returns -1. */
#define GCK_COMMITS_NAMED 8 /* of them */
int gck_commit_missing(const char *url, uint32_t job, uint32_t step, uint32_t seq,
		       const uint32_t *have, size_t n, struct gck_error *err);

#endif
