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
		  &(struct gck_link_ask){ .asked = { [GCK_ASKER_ONE] = one,
						     [GCK_ASKER_ALL] = all } });
}

/* What a rank was told about a function since the last call; NULL: nothing. */
static const struct gck_link_told *told(unsigned rank, int asker)
{
	static struct gck_link_told last;
	struct gck_link_msg m;
	bool any = false;

	while (recv(fake_link_peer[rank], &m, sizeof m, MSG_DONTWAIT) > 0)
		if (m.type == GCK_LINK_TOLD && m.told.asker == (uint32_t)asker) {
			last = m.told;
			any = true;
		}
	return any ? &last : NULL;
}

static bool committed(unsigned rank, int asker, unsigned call)
{
	const struct gck_link_told *t = told(rank, asker);

	return t && t->committed == call && t->failed < call;
}

static bool failed(unsigned rank, int asker, unsigned call, int code, const char *why)
{
	const struct gck_link_told *t = told(rank, asker);

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
	   packet_int(m, "all", -1) == 0, "the coordinator is asked");
	ask(1, 1, 0);
	is_int(packet_int(fake_await("ask", NULL), "id", 0), 1, "again under the same number");
	ask(0, 1, 0);
	is_int(packet_int(fake_await("ask", NULL), "id", 0), 2, "another rank is another");
	fake_command("prepare", NULL);
	fake_await("done", "prepare");
	fake_command("freeze", NULL);
	m = json_object_get(fake_await("done", "freeze"), "data");
	is_int(packet_int(m, "asked", 0), 4, "the highest call of all ranks is told at the freeze");
	checkpoint();
	ok(!told(1, GCK_ASKER_ONE), "what is not committed is not done");
	fake_command("committed", json_pack("{s:i}", "asked", 4));
	ok(committed(1, GCK_ASKER_ONE, 1), "a call that is in a commit's image is done");
	ok(!told(0, GCK_ASKER_ONE), "one that is not waits on");
	ok(committed(2, GCK_ASKER_ALL, 4), "a call that all make is done for all");
	ask(1, 1, 0);
	ok(committed(1, GCK_ASKER_ONE, 1) && !fake_await_within("ask", NULL, 0.1),
	   "whoever has not heard it is told again, and nobody is asked");
	ask(0, 1, 3);
	m = fake_await("ask", NULL);
	ok(packet_bool(m, "one") && packet_int(m, "all", -1) == 0, "late for a call that is done");
	fake_end();
}

static void none_comes(void)
{
	fake_begin();
	ask(0, 1, 0);
	ask(1, 2, 0);
	ask(2, 0, 1);
	answer(json_pack("{s:i, s:i, s:s}", "id", 2, "code", EPERM, "error", "disabled"));
	ok(failed(0, GCK_ASKER_ONE, 1, EPERM, "disabled") &&
	   failed(1, GCK_ASKER_ONE, 2, EPERM, "disabled"),
	   "an error ends what was asked before it");
	ok(!told(2, GCK_ASKER_ALL), "and nothing later");
	ask(0, 2, 0);
	answer(json_pack("{s:i, s:i, s:s, s:i}", "id", 4, "code", EPERM, "error", "no", "rank", 2));
	ok(failed(2, GCK_ASKER_ALL, 1, EPERM, "no"), "an error for one rank");
	ok(!told(0, GCK_ASKER_ONE) || task(0)->requests.failed[GCK_ASKER_ONE] == 1,
	   "is no other's");
	answer(json_pack("{s:i}", "all", 2));
	ok(committed(1, GCK_ASKER_ALL, 2),
	   "the coordinator knows of a commit that was missed here");
	fake_end();
}

static void nobody_to_ask(void)
{
	fake_begin();
	fake_world->away = true;
	ask(0, 1, 0);
	ok(!told(0, GCK_ASKER_ONE) && !fake_await_within("ask", NULL, 0.1),
	   "a coordinator that is away is waited for");
	task(0)->requests.away -= 100;
	ask(0, 1, 0);
	ok(failed(0, GCK_ASKER_ONE, 1, ENOTCONN, "cannot be reached"), "but not for ever");
	ask(0, 2, 0);
	fake_world->away = false;
	ask(0, 2, 0);
	ok(fake_await("ask", NULL) != NULL, "one that is back is asked");
	task(0)->requests.since -= 100;
	ask(0, 2, 0);
	ok(failed(0, GCK_ASKER_ONE, 2, ETIMEDOUT, "timeout="), "one that does nothing is given up");
	fake_agent->refused = true;
	ask(0, 3, 0);
	ok(failed(0, GCK_ASKER_ONE, 3, EPERM, "refuses this step"),
	   "one that refused is not asked");
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
	is_int(task(0)->requests.asked[GCK_ASKER_ALL], 3, "the number goes to the next program");
	fake_run(0.01);
	fake_await("ask", NULL);
	ask(0, 1, 3);
	m = fake_await("ask", NULL);
	is_int(packet_int(m, "all", -1), 0, "what the one before asked is not asked again");
	ok(packet_bool(m, "one"), "its first call is a new one");
	fake_end();
}

int main(void)
{
	in_the_image();
	none_comes();
	nobody_to_ask();
	exec();
	return tap_done();
}
