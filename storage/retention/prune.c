/* SPDX-License-Identifier: Apache-2.0
 * Removal. An object is in use by the checkpoint in whose directory it lies while that runs, and
 * by the commits whose manifests name it. A running checkpoint refers to no other objects than
 * those of the previous commit, which is kept. The rest is decided by names alone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/retention/retention.h"
#include "storage/retention/sweep.h"
#include "storage/store/commit.h"

/* ---- objects of kept commits ---------------------------------------------------------------- */

static int add_rank(struct gck_store *s, const struct gck_ranks *r, struct gck_name_list *kept,
		     struct gck_error *err)
{
	json_t *manifest = gck_ranks_read_raw(r, s, err);
	int rc = manifest ? gck_name_list_add_objects(kept, manifest, err) : -1;

	json_decref(manifest);
	return rc;
}

static int add_commit(struct gck_store *s, const json_t *commit, struct gck_name_list *kept,
		       struct gck_error *err)
{
	char name[GCK_NAME_MAX];
	struct gck_ranks r;
	int rc;

	if (gck_ranks_begin(&r, commit, err) < 0)
		return -1;
	while ((rc = gck_ranks_next(&r, err)) > 0) {
		gck_name_manifest(name, r.seq, r.nonce, r.rank);
		if (gck_name_list_add(kept, name, err) < 0 || add_rank(s, &r, kept, err) < 0)
			return -1;
	}
	return rc;
}

static int add_commits(struct gck_store *s, const uint32_t *seqs, size_t n,
		       struct gck_name_list *kept,
		    struct gck_error *err)
{
	for (size_t i = 0; i < n; i++) {
		json_t *commit = gck_commit_load(s, seqs[i], NULL, NULL, err);
		int rc = commit ? add_commit(s, commit, kept, err) : -1;

		json_decref(commit);
		if (rc < 0)
			return gck_fail_in(err, "what commit %u needs is unknown, no object was "
					   "removed", seqs[i]);
	}
	gck_name_list_sort(kept);
	return 0;
}

/* ---- removing ------------------------------------------------------------------------------- */

struct dirs {
	uint32_t busy;
	const uint32_t *kept; /* commits */
	size_t nkept;
	struct gck_name_list found;
};

static bool has(const uint32_t *seqs, size_t n, uint32_t seq)
{
	for (size_t i = 0; i < n; i++)
		if (seqs[i] == seq)
			return true;
	return false;
}

static int collect_dir(void *arg, const char *name, struct gck_error *err)
{
	struct dirs *d = arg;
	uint32_t seq;

	if (!gck_name_is_dir(name, &seq) || seq >= d->busy || has(d->kept, d->nkept, seq))
		return 0;
	return gck_name_list_add(&d->found, name, err);
}

/* The directory of a kept commit is not swept: an object store's signer permits no removal
 * there. */
static int sweep_all(struct gck_store *s, uint32_t busy, const uint32_t *seqs, size_t nseqs,
		     const struct gck_name_list *kept, struct gck_error *err)
{
	struct dirs d = { .busy = busy, .kept = seqs, .nkept = nseqs };
	int rc = s->b->ops->list(s->b, "", collect_dir, &d, err);

	for (size_t i = 0; rc == 0 && i < d.found.n; i++)
		rc = gck_sweep_directory(s, d.found.v[i], kept, err);
	gck_name_list_free(&d.found);
	return rc;
}

static bool is_kept(uint32_t seq, const uint32_t *keep, size_t nkeep, uint32_t busy)
{
	return seq >= busy || has(keep, nkeep, seq);
}

/* Remove the commits that are not kept, also from the list. */
static int remove_commits(struct gck_store *s, uint32_t *seqs, size_t *n, const uint32_t *keep,
			  size_t nkeep, uint32_t busy, struct gck_error *err)
{
	char name[GCK_NAME_MAX];
	size_t left = 0;

	for (size_t i = 0; i < *n; i++) {
		if (is_kept(seqs[i], keep, nkeep, busy)) {
			seqs[left++] = seqs[i];
			continue;
		}
		gck_name_commit(name, seqs[i]);
		if (s->b->ops->remove(s->b, name, err) < 0)
			return -1;
	}
	*n = left;
	return 0;
}

int gck_store_prune(struct gck_store *s, const uint32_t *keep, size_t nkeep, uint32_t busy,
		    struct gck_error *err)
{
	struct gck_name_list kept = { NULL, 0, 0 };
	uint32_t *seqs;
	size_t n;
	int rc;

	if (gck_store_list(s, &seqs, &n, err) < 0)
		return -1;
	rc = remove_commits(s, seqs, &n, keep, nkeep, busy, err);
	if (rc == 0)
		rc = add_commits(s, seqs, n, &kept, err);
	if (rc == 0)
		rc = sweep_all(s, busy, seqs, n, &kept, err);
	gck_name_list_free(&kept);
	free(seqs);
	return rc;
}

int gck_store_prune_listed(struct gck_store *s, const json_t *keep, uint32_t busy,
			   struct gck_error *err)
{
	size_t n = json_array_size(keep);
	uint32_t *seqs = calloc(n + 1, sizeof *seqs);
	int rc;

	if (!seqs)
		return gck_fail(err, ENOMEM, "cannot remove old commits: out of memory");
	for (size_t i = 0; i < n; i++)
		seqs[i] = (uint32_t)json_integer_value(json_array_get(keep, i));
	rc = gck_store_prune(s, seqs, n, busy, err);
	free(seqs);
	return rc;
}

/* A committed checkpoint is never discarded, whatever the caller believes. */
static int refuse_committed(struct gck_store *s, uint32_t seq, struct gck_error *err)
{
	struct gck_error why;
	json_t *commit = gck_commit_load(s, seq, NULL, NULL, &why);

	if (!commit && why.code == ENOENT)
		return 0;
	json_decref(commit);
	return gck_fail(err, EEXIST, "%s: checkpoint %u is committed and is not discarded",
			s->b->where, seq);
}

/* The checkpoint may have been committed and pruned since the caller learned that it was aborted:
 * then later commits may refer to its objects. */
static int add_later_commits(struct gck_store *s, uint32_t seq, struct gck_name_list *kept,
			     struct gck_error *err)
{
	uint32_t *seqs;
	size_t n, first = 0;
	int rc;

	if (gck_store_list(s, &seqs, &n, err) < 0)
		return -1;
	while (first < n && seqs[first] <= seq)
		first++;
	rc = first < n ? add_commits(s, seqs + first, n - first, kept, err) : 0;
	free(seqs);
	return rc;
}

int gck_store_discard(struct gck_store *s, uint32_t seq, const char *nonce, struct gck_error *err)
{
	char name[GCK_NAME_MAX], dir[GCK_NAME_MAX + 1];
	struct gck_name_list kept = { NULL, 0, 0 };
	int rc;

	if (gck_nonce_check(nonce, err) < 0 || refuse_committed(s, seq, err) < 0)
		return -1;
	gck_name_dir(name, seq, nonce);
	snprintf(dir, sizeof dir, "%s/", name);
	rc = add_later_commits(s, seq, &kept, err);
	if (rc == 0)
		rc = gck_sweep_directory(s, dir, &kept, err);
	gck_name_list_free(&kept);
	return rc;
}
