/* SPDX-License-Identifier: Apache-2.0
 * What the agent asks of the store. */
#include "coordinator/agent/worker/store_job.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/base/resources.h"
#include "coordinator/agent/base/shared_objects.h"
#include "coordinator/sign/signer.h"
#include "storage/retention/retention.h"
#include "storage/stage/stage.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"

#define LEFT_ALONE_S 86400u /* a stage that is unused for so long is a leftover */
#define UNCONNECTED_WAIT_MS 3000 /* for gpuckptd: less than the limit of these jobs */

static struct gck_store *open_store(const struct store_request *r, bool create,
				    struct gck_error *err)
{
	const struct step *s = r->step;

	return gck_store_open(s->options.store, s->cluster, s->job, s->step, create, err);
}

/* The agent is not connected yet: URLs and keys come over a connection of this process's own,
 * made when the first is needed. */
static struct gck_store *open_unconnected(const struct store_request *r, struct gck_error *err)
{
	gck_signer_use_link(&r->step->conf, UNCONNECTED_WAIT_MS);
	return open_store(r, false, err);
}

/* A damaged commit is left out. One that cannot be read now may be the one to restart from: an
 * error. */
static int add_commit(json_t *all, struct gck_store *store, uint32_t seq, const char *cluster,
		      struct gck_error *err)
{
	char hash[GCK_HASH_TEXT];
	json_t *commit = gck_store_read_commit(store, seq, NULL, hash, err);

	if (!commit)
		return err->code == EBADMSG ? 0 : -1;
	json_array_append_new(all, gck_commit_entry(commit, seq, hash, cluster));
	json_decref(commit);
	return 0;
}

static json_t *list_commits(struct gck_store *store, const char *cluster, struct gck_error *err)
{
	json_t *all = json_array();
	uint32_t *seqs = NULL;
	size_t n = 0;
	int rc = gck_store_list(store, &seqs, &n, err);

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = add_commit(all, store, seqs[i], cluster, err);
	free(seqs);
	if (rc == 0)
		return all;
	json_decref(all);
	return NULL;
}

/* A step without checkpoints has no directory (ENOENT). A store that is missing, or lacks this
 * cluster's directory, is an error (ENODEV). */
json_t *store_list(const void *request, struct gck_error *err)
{
	const struct store_request *r = request;
	struct gck_store *store = open_unconnected(r, err);
	json_t *all;

	if (!store)
		return err->code == ENOENT ? json_array() : NULL;
	all = list_commits(store, r->step->cluster, err);
	gck_store_close(store);
	return all;
}

json_t *store_used(const void *request, struct gck_error *err)
{
	struct gck_store *store = open_unconnected(request, err);
	uint32_t *seqs = NULL;
	size_t n = 0;
	int rc;

	if (!store)
		return err->code == ENOENT ? json_false() : NULL;
	rc = gck_store_list(store, &seqs, &n, err);
	free(seqs);
	gck_store_close(store);
	return rc < 0 ? NULL : json_boolean(n > 0);
}

static json_t *check_store(struct gck_store *store, struct gck_error *err)
{
	uint64_t space, memory = memory_available();
	uint32_t *seqs = NULL;
	size_t n = 0;

	if (gck_store_space(store, &space, err) < 0 || gck_store_list(store, &seqs, &n, err) < 0)
		return NULL;
	free(seqs);
	if (space > INT64_MAX)
		space = INT64_MAX;
	if (memory > INT64_MAX)
		memory = INT64_MAX;
	return json_pack("{s:I, s:I, s:b, s:s?}", "space", (json_int_t)space, "memory",
			 (json_int_t)memory, "first", n == 0, "squatter",
			 gck_store_squatter(store));
}

json_t *store_check(const void *request, struct gck_error *err)
{
	const struct store_request *r = request;
	struct gck_store *store;
	json_t *found;

	if (shared_objects_refuse(r->tasks, err) < 0)
		return NULL;
	store = open_store(r, true, err);
	if (!store)
		return NULL;
	found = !r->key || gck_store_encrypt(store, r->key, err) == 0 ? check_store(store, err) :
		NULL;
	gck_store_close(store);
	return found;
}

json_t *store_commit(const void *request, struct gck_error *err)
{
	const struct store_request *r = request;
	struct gck_store *store = open_store(r, false, err);
	char hash[GCK_HASH_TEXT];
	int rc;

	if (!store)
		return NULL;
	rc = gck_store_commit(store, r->seq, r->document, hash, err);
	gck_store_close(store);
	return rc < 0 ? NULL : json_pack("{s:s}", "hash", hash);
}

json_t *store_prune(const void *request, struct gck_error *err)
{
	const struct store_request *r = request;
	struct gck_store *store = open_store(r, false, err);
	int rc;

	if (!store)
		return NULL;
	/* Leaves alone what later checkpoints have begun. */
	rc = gck_store_prune_listed(store, r->document, r->seq + 1, err);
	gck_store_close(store);
	return rc < 0 ? NULL : json_true();
}

/* A step whose directory is gone has nothing to remove. */
static int sweep_step(const char *cluster, const json_t *order, struct gck_error *err)
{
	struct gck_store *store = gck_store_open(packet_text(order, "store", ""), cluster,
						 (uint32_t)packet_int(order, "job", 0),
						 (uint32_t)packet_int(order, "step", 0), false,
						 err);
	int rc;

	if (!store)
		return err->code == ENOENT ? 0 : -1;
	rc = gck_store_prune_listed(store, json_object_get(order, "keep"),
				    (uint32_t)packet_int(order, "busy", 0), err);
	if (rc == 0)
		gck_store_remove_empty(store);
	gck_store_close(store);
	return rc;
}

json_t *store_sweep(const void *request, struct gck_error *err)
{
	const struct store_request *r = request;
	json_t *done = json_array(), *result = json_pack("{s:o}", "steps", done), *order;
	size_t i;

	json_array_foreach(r->document, i, order)
		if (sweep_step(r->step->cluster, order, err) == 0)
			json_array_append_new(done, json_pack("{s:O, s:O, s:O}", "job",
				json_object_get(order, "job"), "step",
				json_object_get(order, "step"),
				"removals", json_object_get(order, "removals")));
		else
			json_object_set_new(result, "left", packet_string(err->text));
	return result;
}

static struct gck_store *open_stage(const struct step *s, struct gck_error *err)
{
	return gck_stage_open(s->options.stage, s->cluster, s->job, s->step, false, err);
}

json_t *store_keep_staged(const void *request, struct gck_error *err)
{
	const struct store_request *r = request;
	const struct step *s = r->step;
	struct gck_store *stage = open_stage(s, err);
	int rc = stage ? gck_stage_prune(stage, r->seq, err) : err->code == ENOENT ? 0 : -1;

	gck_store_close(stage);
	gck_stage_sweep(s->options.stage, s->cluster, s->job, s->step, LEFT_ALONE_S);
	return rc < 0 ? NULL : json_true();
}

void store_clear_staged(const struct step *s)
{
	struct gck_store *stage = *s->options.stage ? open_stage(s, NULL) : NULL;

	if (!stage)
		return;
	(void)!gck_stage_clear(stage, NULL); /* a later step sweeps it */
	gck_store_close(stage);
}

/* What cannot be removed here goes with the next commit. */
static void discard_staged(const struct store_request *r)
{
	struct gck_store *stage = *r->step->options.stage ? open_stage(r->step, NULL) : NULL;

	if (!stage)
		return;
	(void)!gck_store_discard(stage, r->seq, r->nonce, NULL);
	gck_store_close(stage);
}

json_t *store_discard(const void *request, struct gck_error *err)
{
	const struct store_request *r = request;
	struct gck_store *store;
	int rc;

	discard_staged(r);
	store = open_store(r, false, err);
	if (!store)
		return NULL;
	rc = gck_store_discard(store, r->seq, r->nonce, err);
	gck_store_close(store);
	return rc < 0 ? NULL : json_true();
}
