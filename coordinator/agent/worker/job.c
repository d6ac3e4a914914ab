/* SPDX-License-Identifier: Apache-2.0
 * One function that blocks, in a process of its own. */
#include "coordinator/agent/worker/job.h"

#include <stdlib.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/worker/child.h"

#define GRACE_S 1. /* for a killed process to end */

struct job {
	struct ev_loop *loop;
	const char *what;
	job_run *run;
	const void *arg;
	job_done *done;
	void *data;
	struct child *child;
	json_t *answer;       /* {"result":...} or {"code":..,"error":..} */
	bool late;
	double limit_s;
	ev_timer limit;
};

static int child_run(int fd, void *arg)
{
	const struct job *j = arg;
	struct gck_error err = { 0 };
	json_t *result = j->run(j->arg, &err);
	json_t *answer = result ? json_pack("{s:o}", "result", result)
		: json_pack("{s:i, s:s}", "code", err.code, "error", err.text);

	return packet_send(fd, answer, &err) < 0;
}

static void on_message(void *data, const json_t *body)
{
	struct job *j = data;

	json_decref(j->answer);
	j->answer = json_incref((json_t *)body);
}

static void why_failed(const struct job *j, int status, struct gck_error *err)
{
	char text[64];

	if (j->late)
		gck_fail(err, ETIMEDOUT, "%s: no answer within %.0f s", j->what, j->limit_s);
	else if (j->answer)
		gck_fail(err, (int)packet_int(j->answer, "code", EIO), "%s",
			 packet_text(j->answer, "error", "failed without a reason"));
	else
		gck_fail(err, EIO, "%s: its process ended without an answer (%s)", j->what,
			 child_status_text(status, text, sizeof text));
}

static void job_free(struct job *j)
{
	ev_timer_stop(j->loop, &j->limit);
	json_decref(j->answer);
	free(j);
}

static void on_end(void *data, int status)
{
	struct job *j = data;
	const json_t *result = json_object_get(j->answer, "result");
	struct gck_error err = { 0 };

	if (!result)
		why_failed(j, status, &err);
	j->done(j->data, result, &err);
	job_free(j);
}

/* A process that hangs in a file system may survive SIGKILL, so the job does not wait for its
 * end. */
static void on_limit(struct ev_loop *loop, ev_timer *w, int events)
{
	struct job *j = w->data;
	struct gck_error err = { 0 };

	(void)events;
	if (!j->late) {
		j->late = true;
		child_kill(j->child);
		ev_timer_set(w, GRACE_S, 0.);
		ev_timer_start(loop, w);
		return;
	}
	child_forget(j->child);
	why_failed(j, 0, &err);
	j->done(j->data, NULL, &err);
	job_free(j);
}

static const struct child_ops ops = { child_run, on_message, on_end };

struct job *job_start(struct ev_loop *loop, const char *what, job_run *run, const void *arg,
		      double limit_s, job_done *done, void *data, struct gck_error *err)
{
	struct job *j = calloc(1, sizeof *j);

	if (!j) {
		gck_fail(err, ENOMEM, "%s: out of memory", what);
		return NULL;
	}
	*j = (struct job){ .loop = loop, .what = what, .run = run, .arg = arg, .done = done,
			   .data = data, .limit_s = limit_s };
	j->child = child_start(loop, &ops, j, 0, NULL, 0, j, err);
	if (!j->child) {
		gck_fail_in(err, "%s", what);
		free(j);
		return NULL;
	}
	ev_timer_init(&j->limit, on_limit, limit_s, 0.);
	j->limit.data = j;
	ev_timer_start(loop, &j->limit);
	return j;
}

void job_cancel(struct job *j)
{
	child_forget(j->child);
	job_free(j);
}
