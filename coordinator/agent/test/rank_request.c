/* SPDX-License-Identifier: Apache-2.0
 * Ranks that ask for a checkpoint: what the coordinator is asked, and what the ranks are told. */
#include "config.h"

#include "coordinator/agent/checkpoint/rank_request.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/checkpoint/transaction.h"
#include "coordinator/agent/test/fakes.h"
#include "shim/link.h"
#include "test/support/tap.h"

static struct task *task(unsigned rank)
{
	return fake_agent->tasks.v[rank];
}

static void ask(unsigned rank, unsigned one, unsigned all)
{
	ev_now_update(fake_agent->loop);
	rank_request_take(fake_agent, task(rank),
		  &(struct gck_link_ask){ .asked = { [GCK_REQUEST_ONE] = one,
						     [GCK_REQUEST_ALL] = all } });
}

/* What a rank was told about a function since the last call; NULL: nothing. */
static const struct gck_link_outcome *told(unsigned rank, int kind)
{
	static struct gck_link_outcome last;
	struct gck_link_msg m;
	bool any = false;

	while (recv(fake_link_peer[rank], &m, sizeof m, MSG_DONTWAIT) > 0)
		if (m.type == GCK_LINK_OUTCOME && m.outcome.kind == (uint32_t)kind) {
			last = m.outcome;
			any = true;
		}
	return any ? &last : NULL;
}

static bool committed(unsigned rank, int kind, unsigned call)
{
	const struct gck_link_outcome *t = told(rank, kind);

	return t && t->committed == call && t->failed < call;
}

static bool failed(unsigned rank, int kind, unsigned call, int code, const char *why)
{
	const struct gck_link_outcome *t = told(rank, kind);

	return t && t->failed == call && t->committed < call && t->code == (uint32_t)code &&
	       strstr(t->why, why);
}

static void answer(json_t *body)
{
	rank_request_answered(fake_agent, body);
	json_decref(body);
}

static void checkpoint(void)
{
	static const char *const phases[] = { "prepare", "freeze", "resume", "write" };

	for (size_t i = 0; i < 4; i++) {
		fake_command(phases[i], NULL);
		fake_await("done", phases[i]);
	}
}

static void in_the_image(void)
{
	const json_t *m;

	fake_begin();
	ask(1, 1, 0);
	m = fake_await("ask", NULL);
	ok(packet_int(m, "id", 0) == 1 && packet_int(m, "rank", 0) == 1 && packet_bool(m, "one") &&
	   packet_int(m, "all", -1) == 0, "the coordinator is asked for a checkpoint");
	ask(1, 1, 0);
	is_int(packet_int(fake_await("ask", NULL), "id", 0), 1,
	       "a repeated request keeps its number");
	ask(0, 1, 0);
	is_int(packet_int(fake_await("ask", NULL), "id", 0), 2,
	       "another rank's request has its own number");
	fake_command("prepare", NULL);
	fake_await("done", "prepare");
	fake_command("freeze", NULL);
	m = json_object_get(fake_await("done", "freeze"), "data");
	is_int(packet_int(m, "asked", 0), 4, "the freeze reports the highest call of all ranks");
	checkpoint();
	ok(!told(1, GCK_REQUEST_ONE), "a call is not done before the commit");
	fake_command("committed", json_pack("{s:i}", "asked", 4));
	ok(committed(1, GCK_REQUEST_ONE, 1), "a call that is in a commit's image is done");
	ok(!told(0, GCK_REQUEST_ONE), "a call that is not in the image waits on");
	ok(committed(2, GCK_REQUEST_ALL, 4), "a call that all ranks make is done for all");
	ask(1, 1, 0);
	ok(committed(1, GCK_REQUEST_ONE, 1) && !fake_await_within("ask", NULL, 0.1),
	   "a rank that did not hear is told again, and the coordinator is not asked");
	ask(0, 1, 3);
	m = fake_await("ask", NULL);
	ok(packet_bool(m, "one") && packet_int(m, "all", -1) == 0,
	   "a rank that is late for a call that is done does not ask for it");
	fake_end();
}

static void none_comes(void)
{
	fake_begin();
	ask(0, 1, 0);
	ask(1, 2, 0);
	ask(2, 0, 1);
	answer(json_pack("{s:i, s:i, s:s}", "id", 2, "code", EPERM, "error", "disabled"));
	ok(failed(0, GCK_REQUEST_ONE, 1, EPERM, "disabled") &&
	   failed(1, GCK_REQUEST_ONE, 2, EPERM, "disabled"),
	   "an error ends the requests made before it");
	ok(!told(2, GCK_REQUEST_ALL), "and no later request");
	ask(0, 2, 0);
	answer(json_pack("{s:i, s:i, s:s, s:i}", "id", 4, "code", EPERM, "error", "no", "rank", 2));
	ok(failed(2, GCK_REQUEST_ALL, 1, EPERM, "no"), "an error for one rank");
	ok(!told(0, GCK_REQUEST_ONE) || task(0)->requests.failed[GCK_REQUEST_ONE] == 1,
	   "does not concern another rank");
	answer(json_pack("{s:i}", "all", 2));
	ok(committed(1, GCK_REQUEST_ALL, 2),
	   "the coordinator reports a commit that this agent missed");
	fake_end();
}

static void no_coordinator(void)
{
	fake_begin();
	fake_world->away = true;
	ask(0, 1, 0);
	ok(!told(0, GCK_REQUEST_ONE) && !fake_await_within("ask", NULL, 0.1),
	   "a request waits for a coordinator that is away");
	task(0)->requests.away -= 100;
	ask(0, 1, 0);
	ok(failed(0, GCK_REQUEST_ONE, 1, ENOTCONN, "cannot be reached"), "but not for ever");
	ask(0, 2, 0);
	fake_world->away = false;
	ask(0, 2, 0);
	ok(fake_await("ask", NULL) != NULL, "a coordinator that is back is asked");
	task(0)->requests.since -= 100;
	ask(0, 2, 0);
	ok(failed(0, GCK_REQUEST_ONE, 2, ETIMEDOUT, "timeout="),
	   "a coordinator that takes no checkpoint within timeout= is given up");
	fake_agent->refused = true;
	ask(0, 3, 0);
	ok(failed(0, GCK_REQUEST_ONE, 3, EPERM, "refuses this step"),
	   "a coordinator that refused the step is not asked");
	fake_end();
}

/* When a task executes a program, its own calls are counted from 0 again, those of all ranks are
 * not. */
static void exec(void)
{
	const json_t *m;

	fake_begin();
	ask(0, 5, 3);
	tasks_begin_requests(&task(0)->requests);
	is_int(task(0)->requests.asked[GCK_REQUEST_ALL], 3,
	       "a new program inherits the number of calls of all ranks");
	fake_run(0.01);
	fake_await("ask", NULL);
	ask(0, 1, 3);
	m = fake_await("ask", NULL);
	is_int(packet_int(m, "all", -1), 0, "and does not ask for its predecessor's call");
	ok(packet_bool(m, "one"), "its first call is a new one");
	fake_end();
}

int main(void)
{
	in_the_image();
	none_comes();
	no_coordinator();
	exec();
	return tap_done();
}
