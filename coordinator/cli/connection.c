/* SPDX-License-Identifier: Apache-2.0
 * What verbs share: a request to the coordinator and its answers, and the store of a step. */
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "common/wire/wire.h"
#include "coordinator/cli/cli.h"
#include "coordinator/cli/progress.h"
#include "coordinator/sign/signer.h"
#include "storage/store/store.h"

#define CONNECT_TIMEOUT_MS 10000
#define SIGNER_WAIT_MS 30000 /* while gpuckptd is restarted */

json_t *cli_request(const struct cli *c, const char *op)
{
	json_t *r = json_pack("{s:s}", "op", op);

	if (c->has_job)
		json_object_set_new(r, "job", json_integer(c->job));
	if (c->has_step)
		json_object_set_new(r, "step", json_integer(c->step));
	return r;
}

/* The only user whose answers are accepted. */
static const struct passwd *coordinator_user(const struct cli *c, struct gck_error *err)
{
	const struct passwd *pw;

	errno = 0;
	pw = getpwnam(c->conf.user);
	if (!pw)
		gck_fail(err, ENOENT, "%s: CoordinatorUser=%s: %s", c->conf_path, c->conf.user,
			 errno ? strerror(errno) : "there is no such user");
	return pw;
}

struct gck_wire *cli_connect(const struct cli *c, struct gck_error *err)
{
	const struct passwd *pw;

	if (!*c->conf.host) {
		gck_fail(err, EINVAL, "%s: CoordinatorHost is not set", c->conf_path);
		return NULL;
	}
	pw = coordinator_user(c, err);
	if (!pw)
		return NULL;
	return gck_wire_connect(c->conf.host, c->conf.port, c->conf.munge_socket, pw->pw_uid,
				CONNECT_TIMEOUT_MS, err);
}

/* The last answer's data, or NULL with its error. */
static json_t *take_end(const json_t *answer, struct gck_error *err)
{
	const char *why = json_string_value(json_object_get(answer, "error"));
	json_t *data = json_object_get(answer, "data");

	if (json_is_true(json_object_get(answer, "ok")))
		return data ? json_incref(data) : json_null();
	gck_fail(err, EIO, "%s", why ? why : "the coordinator gave no reason");
	return NULL;
}

static json_t *take_answers(struct gck_wire *w, int timeout_s, struct gck_error *err)
{
	json_t *answer, *data;

	while ((answer = gck_wire_get(w, timeout_s * 1000, err))) {
		const char *op = json_string_value(json_object_get(answer, "op"));
		bool event = op && !strcmp(op, "event");

		if (event) {
			progress_show(answer);
			json_decref(answer);
			continue;
		}
		data = take_end(answer, err);
		json_decref(answer);
		return data;
	}
	return NULL;
}

json_t *cli_await(struct gck_wire *w, int timeout_s, struct gck_error *err)
{
	json_t *data = take_answers(w, timeout_s, err);

	progress_end();
	return data;
}

json_t *cli_say(struct gck_wire *w, json_t *request, int timeout_s, struct gck_error *err)
{
	int rc = gck_wire_put(w, request, CONNECT_TIMEOUT_MS, err);

	json_decref(request);
	return rc < 0 ? NULL : cli_await(w, timeout_s, err);
}

struct gck_wire *cli_begin(const struct cli *c, json_t *request, struct gck_error *err)
{
	struct gck_wire *w = cli_connect(c, err);

	if (w && gck_wire_put(w, request, CONNECT_TIMEOUT_MS, err) < 0) {
		gck_wire_free(w);
		w = NULL;
	}
	json_decref(request);
	return w;
}

json_t *cli_ask(const struct cli *c, json_t *request, int timeout_s, struct gck_error *err)
{
	struct gck_wire *w = cli_begin(c, request, err);
	json_t *data = w ? cli_await(w, timeout_s, err) : NULL;

	gck_wire_free(w);
	return data;
}

/* An answer may hold only some of all jobs, and the id of the next. */
static json_t *ask_all(const struct cli *c, const char *op, struct gck_error *err)
{
	json_t *data = cli_ask(c, cli_request(c, op), CLI_QUERY_S, err);
	json_t *more = json_incref(json_object_get(data, "more"));

	while (more) {
		json_t *request = cli_request(c, op), *next;

		json_object_set_new(request, "from", more);
		next = cli_ask(c, request, CLI_QUERY_S, err);
		more = json_incref(json_object_get(next, "more"));
		json_array_extend(json_object_get(data, "steps"), json_object_get(next, "steps"));
		if (!next) {
			json_decref(data);
			return NULL;
		}
		json_decref(next);
	}
	json_object_del(data, "more");
	return data;
}

json_t *cli_ask_known(const struct cli *c, const char *op, struct gck_error *err)
{
	json_t *data = ask_all(c, op, err);

	if (!data || !c->has_step || json_array_size(json_object_get(data, "steps")))
		return data;
	json_decref(data);
	gck_fail(err, ENOENT, "step %u.%u never ran with --gpu-ckpt; `gpuckpt status %u` shows "
		 "those that did", c->job, c->step, c->job);
	return NULL;
}

json_t *cli_ask_steps(const struct cli *c, const char *op, struct gck_error *err)
{
	json_t *data = cli_ask_known(c, op, err);
	json_t *steps;

	if (!data)
		return NULL;
	steps = json_incref(json_object_get(data, "steps"));
	json_decref(data);
	if (json_is_array(steps) && json_array_size(steps) > 0)
		return steps;
	json_decref(steps);
	gck_fail(err, ENOENT, "the coordinator knows no step of job %u", c->job);
	return NULL;
}

int cli_no_commit(const struct cli *c, struct gck_error *err)
{
	if (c->nseqs)
		return gck_fail(err, ENOENT, "step %u.%u has no commit %u", c->job, c->step,
				c->seqs[0]);
	if (c->has_step)
		return gck_fail(err, ENOENT, "step %u.%u has no commit yet", c->job, c->step);
	return gck_fail(err, ENOENT, "job %u has no commit yet", c->job);
}

int cli_step_ids(const json_t *step, uint32_t *job, uint32_t *id, struct gck_error *err)
{
	json_int_t j = json_integer_value(json_object_get(step, "job"));
	json_int_t s = json_integer_value(json_object_get(step, "step"));

	if (j <= 0 || j > UINT32_MAX || s < 0 || s > UINT32_MAX)
		return gck_fail(err, EPROTO, "the coordinator's answer names no step");
	*job = (uint32_t)j;
	*id = (uint32_t)s;
	return 0;
}

/* ---- the store ------------------------------------------------------------------------------ */

const char *cli_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

void cli_use_signer(const struct cli *c)
{
	gck_signer_use_link(&c->conf, SIGNER_WAIT_MS);
}

struct gck_store *cli_open_store(const struct cli *c, const json_t *step, struct gck_error *err)
{
	const char *url = cli_text(step, "store"), *cluster = cli_text(step, "cluster");
	const json_t *owner = json_object_get(step, "uid");
	uint32_t job, id;

	if (cli_step_ids(step, &job, &id, err) < 0)
		return NULL;
	if (!*url) {
		gck_fail(err, EPROTO, "the coordinator does not say where step %u.%u has its store",
			 job, id);
		return NULL;
	}
	cli_use_signer(c);
	if (!*cluster)
		cluster = c->conf.cluster;
	if (!geteuid() && json_is_integer(owner))
		return gck_store_open_of(url, cluster, (uid_t)json_integer_value(owner), job, id,
					 err);
	return gck_store_open(url, cluster, job, id, false, err);
}
