/* SPDX-License-Identifier: Apache-2.0
 * "sign": URLs of the object store, after a check who may do what with which object; "unwrap": data
 * keys for their owners, in a credential that munge encrypts for that user. Signing sends no
 * request to the store and takes about ten microseconds for each URL. */
#include "coordinator/daemon/requests/requests.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/encoding.h"
#include "common/base/log.h"
#include "coordinator/sign/request.h"
#include "storage/base/backend.h"
#include "storage/s3/presign.h"

#define LIFETIME_S 600
#define MOST 128 /* in one message: their URLs fit into a frame */

struct question {
	struct gck_peer *peer;
	json_t *body;
	json_int_t id;
	struct gck_sign_scope of;
	const json_t *requests;
};

/* ---- who may what ------------------------------------------------------------------------- */

struct requester {
	const struct gck_step *step; /* NULL: unknown here */
	const struct gck_node *node; /* whose agent, of that step, it is; else NULL */
	bool owner;                  /* it is the job's owner */
};

enum access { READ, WRITE, REMOVE };

static enum access access_of(enum gck_sign_verb verb)
{
	switch (verb) {
	case GCK_SIGN_GET:
	case GCK_SIGN_HEAD:
	case GCK_SIGN_LIST:
	case GCK_SIGN_LIST_MULTIPARTS:
		return READ;
	case GCK_SIGN_DELETE:
		return REMOVE;
	default:
		return WRITE;
	}
}

static int forbid(enum gck_sign_verb verb, const char *name, const char *why, struct gck_error *err)
{
	return gck_fail(err, EACCES, "%s of %.100s is refused: %s", gck_sign_verb_name(verb), name,
			why);
}

/* From prepare until the commit or the abort. */
static bool is_under_way(const struct gck_live *live)
{
	switch (live->phase) {
	case GCK_PREPARING:
	case GCK_PREPARED:
	case GCK_QUIESCING:
	case GCK_QUIESCED:
	case GCK_FREEZING:
	case GCK_FROZEN:
	case GCK_RESUMING:
	case GCK_RESUMED:
	case GCK_WRITING:
	case GCK_COMMITTING:
	case GCK_HELD_WRITING:
	case GCK_HELD_COMMITTING:
		return true;
	default:
		return false;
	}
}

static bool is_in(const char *name, const struct gck_intent *intent)
{
	char dir[GCK_NAME_MAX];

	snprintf(dir, sizeof dir, "%u-%s/", intent->seq, intent->nonce);
	return strncmp(name, dir, strlen(dir)) == 0;
}

/* Commit objects are not in the checkpoints' directories. */
static bool is_commit(const char *name)
{
	return strncmp(name, "commit-", strlen("commit-")) == 0;
}

/* Only the node that was ordered to write the commit has not answered. */
static bool writes_commit(const struct requester *who, uint32_t seq)
{
	enum gck_phase phase = who->step->live->phase;

	return (phase == GCK_COMMITTING || phase == GCK_HELD_COMMITTING) &&
	       seq == who->step->intent.seq && !who->node->answered;
}

/* An import puts objects where the image has them: also in directories of earlier checkpoints. */
static bool is_imported(const char *name, uint32_t seq, const struct gck_intent *intent)
{
	const json_t *dir;
	size_t i;

	if (is_commit(name))
		return seq == intent->seq;
	json_array_foreach(intent->import, i, dir)
		if (!strncmp(name, json_string_value(dir), json_string_length(dir)))
			return true;
	return false;
}

static int may_import(const struct requester *who, enum gck_sign_verb verb, const char *name,
		      uint32_t seq, struct gck_error *err)
{
	if (!who->owner)
		return forbid(verb, name, "only the owner of the job imports its images", err);
	if (!is_imported(name, seq, &who->step->intent))
		return forbid(verb, name, "it is no part of the image that is imported", err);
	return 0;
}

static int may_write(const struct requester *who, enum gck_sign_verb verb, const char *name,
		     uint32_t seq, struct gck_error *err)
{
	if (who->step && who->step->intent.import)
		return may_import(who, verb, name, seq, err);
	if (!who->node || !who->step || !who->step->live)
		return forbid(verb, name, "only the agents of a step write its images", err);
	if (!who->step->intent.seq || !is_under_way(who->step->live))
		return forbid(verb, name, "no checkpoint is under way", err);
	if (is_commit(name) ? writes_commit(who, seq) : is_in(name, &who->step->intent))
		return 0;
	return forbid(verb, name, is_commit(name) ? "this agent was not told to commit it" :
		      "it is not in the directory of the checkpoint that is under way", err);
}

static int may_remove(const struct requester *who, enum gck_sign_verb verb, const char *name,
		      uint32_t seq, struct gck_error *err)
{
	const struct gck_step *step = who->step;

	if (!step)
		return forbid(verb, name, "its step is not known, nor what of it is needed", err);
	if (step->intent.import && is_imported(name, seq, &step->intent))
		return forbid(verb, name, "an import of it is under way", err);
	if (gck_step_commit(step, seq))
		return forbid(verb, name, "its checkpoint is a commit that counts; see `gpuckpt "
			      "remove`", err);
	if (seq == step->intent.seq || seq > step->last_seq)
		return forbid(verb, name, "its checkpoint is not over", err);
	return 0;
}

/* Reading and listing are always allowed. The step's agents may write into the directory of the
 * checkpoint under way; the agent that was ordered to may write its commit; the owner may write an
 * import's directories and commit while it is under way. Objects may be removed if the journal
 * knows that their checkpoint is not a commit and not under way. -1 with EACCES. */
static int permit(const struct requester *who, enum gck_sign_verb verb, const char *name,
	       struct gck_error *err)
{
	uint32_t seq = 0;

	if (gck_s3_name_check(verb, name, &seq, err) < 0) {
		if (err)
			err->code = EACCES;
		return -1;
	}
	switch (access_of(verb)) {
	case READ:
		return 0;
	case WRITE:
		if (verb == GCK_SIGN_ABORT_MULTIPART && !may_remove(who, verb, name, seq, NULL))
			return 0;
		return may_write(who, verb, name, seq, err);
	default:
		return may_remove(who, verb, name, seq, err);
	}
}

/* ---- the answer ---------------------------------------------------------------------------- */

static void answer(const struct question *q, json_t *rest)
{
	json_t *body = json_pack("{s:s, s:I}", "op", "signed", "id", q->id);

	json_object_update(body, rest);
	json_decref(rest);
	gck_peer_send(q->peer, body);
	json_decref(body);
}

static json_t *failure(const struct gck_error *err)
{
	return json_pack("{s:s, s:i}", "error", err->text, "code", err->code);
}

static void refuse(const struct question *q, const struct gck_error *err)
{
	gck_info("sign by user %u for step %u.%u is refused: %s", (unsigned)q->peer->uid, q->of.job,
		 q->of.step, err->text);
	answer(q, failure(err));
}

static json_t *sign_one(const struct question *q, const struct requester *who, const json_t *one,
			struct gck_error *err)
{
	const struct gck_keys *k = &q->peer->daemon->keys;
	struct gck_sign_request r;
	json_t *text;
	char *url;

	if (gck_sign_unpack(one, &r, err) || permit(who, r.verb, r.name, err) ||
	    gck_s3_presign(&k->server, &k->sigv4, &q->of, &r, time(NULL), LIFETIME_S, &url, err))
		return failure(err);
	text = json_string(url);
	free(url);
	return text;
}

/* A refused request does not affect the others: an agent asks for many processes at once. */
static void sign_all(const struct question *q)
{
	struct gck_daemon *d = q->peer->daemon;
	const struct gck_step *step = gck_state_step(&d->core.state, q->of.job, q->of.step);
	const struct gck_agent *agent = q->peer->agent;
	struct requester who = { .step = step };
	struct gck_error first = {0};
	json_t *urls = json_array(), *one;
	size_t i;

	if (step && agent && agent->step == step && step->live)
		who.node = gck_live_node(agent->step, agent);
	who.owner = step && step->job->uid == q->peer->uid;
	if (step && step->intent.import)
		gck_importer_heard(d, step);
	json_array_foreach(q->requests, i, one) {
		struct gck_error err = {0};

		json_array_append_new(urls, sign_one(q, &who, one, &err));
		if (err.code && !first.code)
			first = err;
	}
	if (first.code)
		gck_info("sign by user %u for step %u.%u: %s", (unsigned)q->peer->uid, q->of.job,
			 q->of.step, first.text);
	answer(q, json_pack("{s:o, s:i}", "urls", urls, "seconds", LIFETIME_S));
}

/* ---- whose job it is ----------------------------------------------------------------------- */

/* Every object key contains the owner's uid: a reused job id does not lead to objects of another
 * user. */
static int sign_for_owner(struct question *q, struct gck_error *err)
{
	const struct gck_daemon *d = q->peer->daemon;
	const struct gck_job *job = gck_state_job(&d->core.state, q->of.job);

	if (job && !gck_may_see(d, q->peer->uid, job->uid))
		return gck_fail(err, EACCES, "there is no job %u of yours", q->of.job);
	q->of.uid = (uint32_t)(job ? job->uid : q->peer->uid);
	sign_all(q);
	return 0;
}

/* ---- the question -------------------------------------------------------------------------- */

static int check_place(const struct question *q, struct gck_error *err)
{
	const struct gck_conf *c = &q->peer->daemon->conf;

	if (gck_s3_url_check(q->of.url, err))
		return gck_fail_in(err, "store=%.100s", q->of.url);
	if (gck_conf_allows(c, q->of.url, err))
		return -1;
	if (!*c->cluster)
		return gck_fail(err, EAGAIN, "Slurm has not told the cluster's name yet");
	if (strcmp(q->of.cluster, c->cluster))
		return gck_fail(err, EACCES, "this is cluster %.100s, not %.100s", c->cluster,
				q->of.cluster);
	return 0;
}

static int parse(struct question *q, struct gck_error *err)
{
	json_int_t job, step;
	json_error_t bad;

	if (json_unpack_ex(q->body, &bad, 0, "{s:I, s:s, s:s, s:I, s:I, s:o}", "id", &q->id,
			   "store", &q->of.url, "cluster", &q->of.cluster, "job", &job, "step",
			   &step, "requests", &q->requests))
		return gck_fail(err, EINVAL, "sign is malformed: %s", bad.text);
	if (job < 1 || job > UINT32_MAX || step < 0 || step > UINT32_MAX ||
	    !json_is_array(q->requests) || json_array_size(q->requests) > MOST)
		return gck_fail(err, EINVAL, "sign has a number out of range, or more than %d "
				"requests", MOST);
	q->of.job = (uint32_t)job;
	q->of.step = (uint32_t)step;
	return check_place(q, err);
}

void gck_sign_message(struct gck_peer *peer, const json_t *body)
{
	struct question q = {.peer = peer, .body = (json_t *)body};
	struct gck_error err = {0};

	if (gck_keys_renew(&peer->daemon->keys, &err))
		gck_warn("%s; the keys before it are used on", err.text);
	if (parse(&q, &err) || sign_for_owner(&q, &err))
		refuse(&q, &err);
}

/* ---- unwrap -------------------------------------------------------------------------------- */

static void answer_unwrap(struct gck_peer *peer, json_int_t id, json_t *rest)
{
	json_t *body = json_pack("{s:s, s:I}", "op", "unwrapped", "id", id);

	json_object_update(body, rest);
	json_decref(rest);
	gck_peer_send(peer, body);
	json_decref(body);
}

static json_t *unwrap(const struct gck_peer *peer, const char *wrapped, struct gck_error *err)
{
	unsigned char key[GCK_CRYPTO_KEY];
	char text[2 * sizeof key + 1];
	json_t *out;

	if (gck_wrapping_unwrap(&peer->daemon->wrapping, wrapped, peer->uid, key, err) < 0)
		return json_pack("{s:s, s:i}", "error", err->text, "code", err->code);
	gck_hex(key, sizeof key, text);
	out = json_pack("{s:s}", "data", text);
	explicit_bzero(text, sizeof text);
	explicit_bzero(key, sizeof key);
	return out;
}

void gck_unwrap_message(struct gck_peer *peer, const json_t *body)
{
	struct gck_error err = {0};
	const char *wrapped = "";
	json_int_t id = 0;

	gck_wrapping_renew(&peer->daemon->wrapping);
	if (json_unpack((json_t *)body, "{s:I, s:s}", "id", &id, "key", &wrapped))
		gck_fail(&err, EINVAL, "unwrap is malformed");
	answer_unwrap(peer, id,
		      err.code ? json_pack("{s:s, s:i}", "error", err.text, "code", err.code)
			       : unwrap(peer, wrapped, &err));
	if (err.code)
		gck_info("unwrap by user %u is refused: %s", (unsigned)peer->uid, err.text);
}
