/* SPDX-License-Identifier: Apache-2.0
 * Manifests: the documents of the ranks that a commit names. */
#ifndef GCK_MANIFEST_H
#define GCK_MANIFEST_H

#include "storage/document/document.h"

/* Read a rank's manifest, checked against the commit. ENODATA: the rank had finished. */
GCK_MUST_CHECK json_t *gck_store_read_manifest(struct gck_store *s, const json_t *commit,
					       uint32_t rank, struct gck_error *err);

/* "seq" and "nonce" of a commit, checked. The nonce is borrowed from the commit. */
GCK_MUST_CHECK int gck_commit_identity(const json_t *commit, uint32_t *seq, const char **nonce,
				       struct gck_error *err);

/* The manifest hash of an entry of a commit's "ranks"; NULL: the rank had finished. */
GCK_MUST_CHECK int gck_commit_rank(const json_t *entry, uint32_t *rank, const char **manifest,
				   struct gck_error *err);

/* A cursor over the ranks of a commit that have a manifest. */
struct gck_ranks {
	const json_t *commit; /* borrowed, as everything in it */
	size_t next;
	uint32_t seq, rank;
	const char *nonce, *manifest; /* the manifest's hash */
};

GCK_MUST_CHECK int gck_ranks_begin(struct gck_ranks *r, const json_t *commit,
				   struct gck_error *err);

/* Move to the next rank. 1: there is one; 0: the end; -1: the commit is malformed. */
GCK_MUST_CHECK int gck_ranks_next(struct gck_ranks *r, struct gck_error *err);

/* Read the manifest of the current rank, decrypted or as it is stored. A new reference. */
GCK_MUST_CHECK json_t *gck_ranks_read(const struct gck_ranks *r, struct gck_store *s,
				      struct gck_error *err);
GCK_MUST_CHECK json_t *gck_ranks_read_raw(const struct gck_ranks *r, struct gck_store *s,
					  struct gck_error *err);

/* Check that all manifests that a commit names exist and are whole. */
GCK_MUST_CHECK int gck_manifests_check(struct gck_store *s, const json_t *commit,
				       struct gck_error *err);

#endif
