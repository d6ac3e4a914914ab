/* SPDX-License-Identifier: Apache-2.0
 * Reading all that a commit needs. */
#include <stdlib.h>

#include "storage/need.h"

struct verify {
	struct gck_store *s;
	uint64_t read, all; /* bytes of chunks, as they are stored */
};

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

static int verify_chunks(struct verify *f, const json_t *manifest, const struct gck_chunk *v,
			 size_t n, struct gck_error *err)
{
	struct all_chunks all = { v, n, 0 };
	struct gck_reader *r = gck_reader_open(f->s, manifest, err);
	int rc = r ? gck_reader_plan(r, next_chunk, &all, err) : -1;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = gck_reader_view(r, &v[i], err) ? 0 : -1;
		f->read += v[i].stored;
		if (rc == 0)
			rc = gck_store_progress(f->s, f->read, f->all, err);
	}
	gck_reader_close(r);
	return rc;
}

static int verify_rank(struct verify *f, const json_t *commit, uint32_t rank, struct gck_error *err)
{
	json_t *manifest = gck_store_read_manifest(f->s, commit, rank, err);
	struct gck_chunk *v;
	size_t n;
	int rc;

	if (!manifest)
		return -1;
	rc = gck_chunks_load(manifest, &v, &n, err);
	if (rc == 0) {
		rc = verify_chunks(f, manifest, v, n, err);
		free(v);
	}
	json_decref(manifest);
	return rc;
}

static int verify_ranks(struct verify *f, const json_t *commit, uint32_t seq, struct gck_error *err)
{
	uint32_t rank;
	json_t *entry;
	size_t i;

	json_array_foreach(json_object_get(commit, "ranks"), i, entry) {
		if (!json_object_get(entry, "manifest"))
			continue;
		if (gck_json_u32(entry, "rank", &rank, err) < 0)
			return -1;
		if (verify_rank(f, commit, rank, err) < 0)
			return gck_fail_in(err, "commit %u, rank %u", seq, rank);
	}
	return 0;
}

int gck_store_verify(struct gck_store *s, uint32_t seq, const char *hash, uint64_t *bytes,
		     struct gck_error *err)
{
	struct verify f = { .s = s };
	struct gck_need need = { NULL, 0, 0, 0 };
	json_t *commit = gck_store_read_commit(s, seq, hash, NULL, err);
	int rc = commit ? gck_need_load(&need, s, commit, err) : -1;

	f.all = need.bytes;
	gck_need_free(&need);
	if (rc == 0)
		rc = verify_ranks(&f, commit, seq, err);
	json_decref(commit);
	if (rc == 0 && bytes)
		*bytes = f.read;
	return rc;
}
