/* SPDX-License-Identifier: Apache-2.0
 * Reading all that a commit needs. */
#include <stdlib.h>

#include "storage/internal.h"

struct all_chunks {
	const struct gck_chunk *v;
	size_t n, at;
};

static bool next_chunk(void *arg, struct gck_chunk *c)
{
	struct all_chunks *all = arg;

	if (all->at == all->n)
		return false;
	*c = all->v[all->at++];
	return true;
}

static int verify_chunks(struct gck_store *s, const json_t *manifest, const struct gck_chunk *v,
			 size_t n, uint64_t *bytes, struct gck_error *err)
{
	struct all_chunks all = { v, n, 0 };
	struct gck_reader *r = gck_reader_open(s, manifest, err);
	int rc = r ? gck_reader_plan(r, next_chunk, &all, err) : -1;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = gck_reader_view(r, &v[i], err) ? 0 : -1;
		*bytes += v[i].stored;
	}
	gck_reader_close(r);
	return rc;
}

static int verify_rank(struct gck_store *s, const json_t *commit, uint32_t rank, uint64_t *bytes,
		       struct gck_error *err)
{
	json_t *manifest = gck_store_read_manifest(s, commit, rank, err);
	struct gck_chunk *v;
	size_t n;
	int rc;

	if (!manifest)
		return -1;
	rc = gck_chunks_load(manifest, &v, &n, err);
	if (rc == 0) {
		rc = verify_chunks(s, manifest, v, n, bytes, err);
		free(v);
	}
	json_decref(manifest);
	return rc;
}

int gck_store_verify(struct gck_store *s, uint32_t seq, const char *hash, uint64_t *bytes,
		     struct gck_error *err)
{
	json_t *commit = gck_store_read_commit(s, seq, hash, NULL, err);
	uint64_t read = 0;
	uint32_t rank;
	json_t *entry;
	size_t i;
	int rc = commit ? 0 : -1;

	json_array_foreach(json_object_get(commit, "ranks"), i, entry) {
		if (rc == 0 && json_object_get(entry, "manifest") &&
		    (rc = gck_json_u32(entry, "rank", &rank, err)) == 0 &&
		    (rc = verify_rank(s, commit, rank, &read, err)) < 0)
			gck_fail_in(err, "commit %u, rank %u", seq, rank);
	}
	json_decref(commit);
	if (rc == 0 && bytes)
		*bytes = read;
	return rc;
}
