/* SPDX-License-Identifier: Apache-2.0
 * The commit document and the key of images. */
#include "coordinator/core/actions/commit_document.h"

#include <string.h>

#include "storage/image/image.h"

/* A frame holds 1 MiB, of which munge's armour takes a quarter. */
#define MOST (760u << 10)
#define RANK_BYTES 60 /* {"rank":10000,"manifest":"<32 hex digits>"}, */

int gck_document_fits(const struct gck_step *step, struct gck_error *err)
{
	size_t bytes = (size_t)step->ntasks * RANK_BYTES + 1024 +
		       json_dumpb(step->fingerprint, NULL, 0, JSON_COMPACT);

	for (uint32_t i = 0; i < step->live->nnodes; i++)
		bytes += strlen(step->live->nodes[i].name) + 3;
	if (bytes <= MOST)
		return 0;
	return gck_fail(err, E2BIG,
			"step %u.%u has %u ranks on %u nodes, and the list of them does not fit "
			"into a commit; about 12000 do. Use several steps",
			step->job->id, step->id, step->ntasks, step->live->nnodes);
}

/* A user's steps share the memory for `common`. On a single node the agent has counted already. */
static size_t common_most(const struct gck_core *core, const struct gck_step *step)
{
	size_t taken = 0;

	if (step->nodes == 1)
		return 0;
	for (const struct gck_job *job = core->state.jobs; job; job = job->next)
		for (const struct gck_step *s = job->steps; s; s = s->next)
			if (s != step && s->live && s->uid == step->uid)
				taken += s->live->checkpoint.common_most;
	if (taken >= GCK_SHARED_OBJECTS_USER)
		return 0;
	return GCK_SHARED_OBJECTS_USER - taken < GCK_SHARED_OBJECTS_STEP
		       ? GCK_SHARED_OBJECTS_USER - taken
		       : GCK_SHARED_OBJECTS_STEP;
}

int gck_document_begin(const struct gck_core *core, struct gck_step *step)
{
	struct gck_checkpoint *c = &step->live->checkpoint;
	json_t *ranks = json_array(), *common = json_object();

	for (uint32_t i = 0; ranks && i < step->ntasks; i++)
		json_array_append_new(ranks, step->exits[i] == GCK_NO_EXIT ?
				      json_null() : json_integer(step->exits[i]));
	if (!common || !ranks || json_array_size(ranks) != step->ntasks) {
		json_decref(ranks);
		json_decref(common);
		return -1;
	}
	json_decref(c->manifests);
	json_decref(c->common);
	c->manifests = ranks;
	c->common = common;
	c->common_most = common_most(core, step);
	return 0;
}

void gck_document_exited(struct gck_step *step, const json_t *exited)
{
	json_t *one;
	size_t i;

	json_array_foreach(exited, i, one) {
		json_int_t rank = json_integer_value(json_object_get(one, "rank"));

		if (rank >= 0 && rank < step->ntasks && step->exits[rank] != GCK_NO_EXIT)
			json_array_set_new(step->live->checkpoint.manifests, (size_t)rank,
					   json_integer(step->exits[rank]));
	}
}

int gck_document_add(struct gck_step *step, const json_t *ranks, struct gck_error *err)
{
	json_t *manifests = step->live->checkpoint.manifests;
	struct gck_hash hash;
	json_t *one;
	size_t i;

	json_array_foreach(ranks, i, one) {
		json_int_t rank = -1;
		const char *text = "";

		if (json_unpack(one, "{s:I, s:s}", "rank", &rank, "manifest", &text) || rank < 0 ||
		    rank >= step->ntasks)
			return gck_fail(err, EINVAL,
					"an agent's list of images names no rank of the step");
		if (gck_hash_parse(text, &hash, err))
			return gck_fail_in(err, "rank %d", (int)rank);
		json_array_set_new(manifests, (size_t)rank, json_string(text));
	}
	return 0;
}

int gck_document_check(const struct gck_step *step, struct gck_error *err)
{
	const json_t *manifests = step->live->checkpoint.manifests;

	for (uint32_t i = 0; i < step->ntasks; i++)
		if (json_is_null(json_array_get(manifests, i)))
			return gck_fail(err, ENODATA,
					"no agent has written an image of rank %u; see the "
					"agents' logs",
					i);
	return 0;
}

static json_t *rank_entries(const struct gck_step *step)
{
	json_t *out = json_array();

	for (uint32_t i = 0; i < step->ntasks; i++) {
		json_t *what = json_array_get(step->live->checkpoint.manifests, i);

		json_array_append_new(out,
				      json_pack("{s:I, s:O}", "rank", (json_int_t)i,
						json_is_string(what) ? "manifest" : "exit", what));
	}
	return out;
}

static json_t *node_names(const struct gck_live *live)
{
	json_t *out = json_array();

	for (uint32_t i = 0; i < live->nnodes; i++)
		json_array_append_new(out, json_string(live->nodes[i].name));
	return out;
}

/* What list and show tell of the commit, for a coordinator whose journal lacks it (take_over.h). */
static json_t *info_of(const struct gck_step *step)
{
	json_t *info = json_copy(step->intent.info);

	json_object_del(info, "nodes"); /* the document has them */
	return info;
}

json_t *gck_document(struct gck_core *core, const struct gck_step *step)
{
	json_t *d = json_pack("{s:i, s:I, s:s, s:I, s:s, s:I, s:I}", "format", 1, "seq",
			      (json_int_t)step->intent.seq, "nonce", step->intent.nonce, "time",
			      (json_int_t)(step->live->checkpoint.began_ms / 1000), "cluster",
			      core->conf->cluster, "job", (json_int_t)step->job->id, "step",
			      (json_int_t)step->id);

	json_object_set_new(d, "restarts", json_integer(step->restarts));
	json_object_set_new(d, "from", json_integer(step->run_seq));
	json_object_set_new(d, "info", info_of(step));
	if (step->live->checkpoint.asked)
		json_object_set_new(d, "asked", json_integer(step->live->checkpoint.asked));
	gck_encrypt_tell(step, d);
	json_object_set(d, "fingerprint", step->fingerprint);
	json_object_set_new(d, "nodes", node_names(step->live));
	json_object_set_new(d, "ranks", rank_entries(step));
	return d;
}

/* A GPU stops before its rank and is released after it. */
static double stall_ms(const struct gck_checkpoint *c)
{
	int64_t first = c->gpu_first_ns && c->gpu_first_ns < c->first_ns ? c->gpu_first_ns
									 : c->first_ns;
	int64_t last = c->gpu_last_ns > c->last_ns ? c->gpu_last_ns : c->last_ns;

	return last > first && first ? (double)(last - first) / 1e6 : 0;
}

json_t *gck_document_info(struct gck_core *core, const struct gck_step *step)
{
	const struct gck_checkpoint *c = &step->live->checkpoint;
	json_t *info = json_pack("{s:s, s:I, s:I, s:f, s:f}", "reason", c->reason, "put",
				 (json_int_t)c->put, "stored", (json_int_t)c->stored, "write_s",
				 c->write_s, "seconds",
				 (double)(core->world->now_ms() - c->began_ms) / 1e3);

	if (!c->held)
		json_object_set_new(info, "stall_ms", json_real(stall_ms(c)));
	if (!c->held && c->first_ns && c->free_ns > c->first_ns)
		json_object_set_new(info, "copy_s",
				    json_real((double)(c->free_ns - c->first_ns) / 1e9));
	if (*step->live->options.stage)
		json_object_set_new(info, "staged", json_integer((json_int_t)c->staged));
	if (*c->unstaged)
		json_object_set_new(info, "unstaged", json_string(c->unstaged));
	if (c->quiescing_ms) {
		json_object_set_new(info, "quiesce_ms",
				    json_integer(c->quiesced_ms - c->quiescing_ms));
		json_object_set_new(info, "quiesce_via", json_string(c->via));
	}
	if (step->live->options.encrypt)
		json_object_set_new(info, "encrypted", json_true());
	json_object_set_new(info, "held", json_boolean(c->held));
	json_object_set_new(info, "ranks", json_integer(step->ntasks));
	json_object_set_new(info, "ended", json_integer(gck_step_ended(step)));
	json_object_set_new(info, "nodes", node_names(step->live));
	return info;
}

/* ---- the images' key ------------------------------------------------------------------------ */

int gck_encrypt_able(struct gck_core *core, const struct gck_step *step, struct gck_error *err)
{
	return step->live->options.encrypt ? core->world->can_wrap(core, err) : 0;
}

int gck_encrypt_ready(struct gck_core *core, struct gck_step *step, struct gck_error *err)
{
	char wrapped[GCK_WRAPPED_MAX];
	struct gck_job *job = step->job;

	if (!step->live->options.encrypt)
		return 0;
	if (core->world->wrap(core, job, wrapped, err))
		return -1;
	if (job->key && !strcmp(job->key, wrapped))
		return 0;
	return gck_core_record(core, json_pack("{s:s, s:I, s:s}", "t", "key", "job",
					       (json_int_t)job->id, "key", wrapped), true, err);
}

void gck_encrypt_tell(const struct gck_step *step, json_t *body)
{
	if (step->live->options.encrypt && step->job->key)
		json_object_set_new(body, "key", json_string(step->job->key));
}
