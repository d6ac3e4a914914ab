/* SPDX-License-Identifier: Apache-2.0
 * What a commit holds of a rank. */
#include "coordinator/agent/worker/rank_image.h"

#include <stdio.h>
#include <stdlib.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/resources.h"
#include "storage/crypto/keyring.h"
#include "storage/document/document.h"
#include "storage/image/image.h"
#include "storage/stage/stage.h"
#include "storage/store/chunks.h"
#include "storage/store/commit.h"
#include "storage/store/manifest.h"
#include "storage/store/node_cache.h"
#include "storage/store/store.h"

/* Parts of the image that this node still has in its stage are not fetched. */
static void use_stage(struct gck_store *store, const struct worker_task *t)
{
	const struct step *s = t->step;
	struct gck_store *stage = gck_stage_open(s->options.stage, s->cluster, t->from_job,
						 t->from_step, false, NULL);

	if (stage)
		(void)!gck_store_stage(store, stage, NULL); /* without it the store is read */
}

struct gck_store *rank_image_open_store(const struct worker_task *t, struct gck_error *err)
{
	const struct step *s = t->step;
	struct gck_store *store = gck_store_open(s->options.store, s->cluster, t->from_job,
						 t->from_step,
						 false, err);

	if (!store)
		return NULL;
	if (*s->options.stage)
		use_stage(store, t);
	if (t->pool >= 0)
		gck_store_use_node_cache(store, t->pool);
	return store;
}

void rank_image_missing(const struct worker_task *t, struct gck_store *store, uint32_t seq,
			struct gck_error *err)
{
	uint32_t have[GCK_COMMITS_NAMED], *seqs = NULL;
	size_t n = 0;

	if (store && gck_store_list(store, &seqs, &n, err) < 0)
		return;
	for (size_t i = 0; i < n && i < GCK_COMMITS_NAMED; i++)
		have[i] = seqs[n - 1 - i];
	gck_commit_missing(t->step->options.store, t->from_job, t->from_step, seq, have, n, err);
	free(seqs);
}

/* The wait status of a rank that has no manifest in this commit. */
static json_int_t exit_status(const json_t *commit, uint32_t rank)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(commit, "ranks"), i, one)
		if (packet_int(one, "rank", -1) == (json_int_t)rank)
			return packet_int(one, "exit", -1);
	return -1;
}

/* With encrypt=yes a plain image is refused: whoever can write to the store could have put it
 * there without the key. */
static int refuse_open(const struct worker_task *t, const json_t *commit, uint32_t seq,
		       struct gck_error *err)
{
	if (!t->step->options.encrypt || gck_document_is_encrypted(commit))
		return 0;
	return gck_fail(err, EPERM,
			"commit %u is not encrypted, and with encrypt=yes only one that is "
			"may be restarted from: encrypt=no takes it", seq);
}

static int read_manifest(struct rank_image *f, struct gck_store *store, const struct worker_task *t,
			 uint32_t seq, const char *hash, struct gck_error *err)
{
	json_t *commit = gck_store_read_commit(store, seq, *hash ? hash : NULL, NULL, err);

	if (!commit && err->code == ENOENT)
		rank_image_missing(t, store, seq, err);
	if (!commit)
		return -1;
	if (refuse_open(t, commit, seq, err) < 0) {
		json_decref(commit);
		return -1;
	}
	f->asked = (uint32_t)packet_int(commit, "asked", 0);
	f->manifest = gck_store_read_manifest(store, commit, t->rank, err);
	if (!f->manifest && err->code == ENODATA)
		f->exit = exit_status(commit, t->rank);
	json_decref(commit);
	return f->manifest || f->exit >= 0 ? 0 : -1;
}

static void take_share(struct gck_store *store, const struct worker_task *t, const json_t *manifest)
{
	struct node_share share = node_share_of_restorers(t->step, gck_manifest_chunks(manifest));

	gck_store_limit(store, share.cpus, share.memory);
}

int rank_image_read(struct rank_image *f, struct gck_store *store, const struct worker_task *t,
		    uint32_t seq,
		const char *hash, struct gck_error *err)
{
	if (read_manifest(f, store, t, seq, hash, err) < 0)
		return -1;
	if (!f->manifest)
		return 0;
	take_share(store, t, f->manifest);
	f->reader = gck_reader_open(store, f->manifest, err);
	return f->reader ? 0 : -1;
}

void rank_image_drop_manifest(struct rank_image *f)
{
	json_decref(f->manifest);
	f->manifest = NULL;
}

void rank_image_drop(struct rank_image *f)
{
	if (f->reader)
		gck_reader_close(f->reader);
	rank_image_drop_manifest(f);
	*f = (struct rank_image){ .exit = -1 };
}

/* ---- base image ---------------------------------------------------------------------------- */

/* The commit that the coordinator named, or the newest in the store. */
static uint32_t base_of(const struct worker_task *t, struct gck_store *store)
{
	uint32_t *seqs = NULL, newest = 0;
	size_t n = 0;

	if (t->base_named)
		return t->base;
	if (gck_store_list(store, &seqs, &n, NULL) == 0 && n)
		newest = seqs[n - 1];
	free(seqs);
	return newest;
}

static void find_hash(const json_t *commit, uint32_t rank, char hash[GCK_HASH_TEXT])
{
	const json_t *entry;
	size_t i;

	*hash = '\0';
	json_array_foreach(json_object_get(commit, "ranks"), i, entry)
		if (packet_int(entry, "rank", -1) == rank)
			snprintf(hash, GCK_HASH_TEXT, "%s", packet_text(entry, "manifest", ""));
}

json_t *rank_image_base(const struct worker_task *t, struct gck_store *store,
			char hash[GCK_HASH_TEXT])
{
	uint32_t base = base_of(t, store);
	json_t *commit, *manifest;

	if (!base)
		return NULL;
	commit = gck_store_read_commit(store, base, *t->hash ? t->hash : NULL, NULL, NULL);
	if (!commit)
		return NULL;
	find_hash(commit, t->rank, hash);
	manifest = gck_store_read_manifest(store, commit, t->rank, NULL);
	json_decref(commit);
	return manifest;
}
