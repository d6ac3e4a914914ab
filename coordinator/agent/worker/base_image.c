/* SPDX-License-Identifier: Apache-2.0
 * The image of the commit before that a rank's image builds on. */
#include "coordinator/agent/worker/base_image.h"

#include <stdio.h>
#include <stdlib.h>

#include "coordinator/agent/base/packet.h"

/* A coordinator that names no commit leaves it to the store. */
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

json_t *base_manifest(const struct worker_task *t, struct gck_store *store, char hash[GCK_HASH_TEXT])
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
