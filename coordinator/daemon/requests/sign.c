/* SPDX-License-Identifier: Apache-2.0
 * "sign": who asks, for what of which step, and the URLs. No request is made here, so this takes
 * some ten microseconds a URL. */
#include "coordinator/daemon/requests/requests.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/log.h"
#include "coordinator/core/retention/url_permission.h"
#include "coordinator/daemon/requests/requests.h"
#include "coordinator/sign/request.h"

#define LIFETIME_S 600
#define MOST 128 /* in one message: their URLs fit into a frame */

struct question {
	struct gck_peer *peer;
	json_t *body;
	json_int_t id;
	struct gck_sign_scope of;
	const json_t *requests;
};

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

static json_t *sign_one(const struct question *q, const struct gck_permit *who, const json_t *one,
			struct gck_error *err)
{
	const struct gck_keys *k = &q->peer->daemon->keys;
	struct gck_sign_request r;
	json_t *text;
	char *url;

	if (gck_sign_unpack(one, &r, err) || gck_permit(who, r.verb, r.name, err) ||
	    gck_s3_presign(&k->server, &k->sigv4, &q->of, &r, time(NULL), LIFETIME_S, &url, err))
		return failure(err);
	text = json_string(url);
	free(url);
	return text;
}

/* One that is refused is not the others' fault: an agent asks for many processes at once. */
static void sign_all(const struct question *q)
{
	struct gck_daemon *d = q->peer->daemon;
	const struct gck_step *step = gck_state_step(&d->core.state, q->of.job, q->of.step);
	const struct gck_agent *agent = q->peer->agent;
	struct gck_permit who = { .step = step };
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

/* The owner's uid is in every key, so that a number which Slurm gives again leads nobody to what another
 * user's job has left. */
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

	if (json_unpack_ex(q->body, &bad, 0, "{s:I, s:s, s:s, s:I, s:I, s:o}", "id", &q->id, "store",
			   &q->of.url, "cluster", &q->of.cluster, "job", &job, "step", &step,
			   "requests", &q->requests))
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
