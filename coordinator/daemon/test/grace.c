/* SPDX-License-Identifier: Apache-2.0
 * gpuckptd just started, with a step of its journal whose agents are still to come: who asks about
 * it waits for them, and nobody else does. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/daemon/test/lab.h"
#include "test/support/clock.h"
#include "test/support/tap.h"

#define CLIENTS 25      /* more than MaxUserConnections */
#define SILENCE_MS 100  /* what is not answered for so long waits for something */
#define AT_ONCE_MS 8000 /* the grace period is not over by then */
#define WAIT_MS 60000   /* only a failure takes so long */
#define STILL_S 12      /* longer than the period */
#define HURRY 20        /* times as fast as the machine's: gpuckptd's clock */
#define CALL_S 4.5      /* longer than a checkpoint waits for an agent that is missing */

static struct gck_wire *agent[2];

static void slurm(void)
{
	char text[512];

	snprintf(text, sizeof text, "{\"conf\":{\"cluster\":\"test\",\"slurm_user\":0},"
		 "\"job\":{\"job\":7,\"uid\":%u,\"user\":\"me\",\"restarts\":0,\"submit\":100,"
		 "\"batch\":true,\"nodes\":2,\"runs\":true,\"ends_itself\":true},"
		 "\"nodes\":{\"leaving\":[],\"gone\":[]}}", (unsigned)geteuid());
	lab_slurm(text);
}

/* ---- agents -------------------------------------------------------------------------------- */

static bool joins(int node)
{
	agent[node] = lab_agent(node, "running", 0, 0, node ? "null" : "[]");
	return agent[node] && lab_hear(agent[node], "welcome", 0);
}

/* The step has ended there, and the journal has it. */
static bool leaves(int node)
{
	char record[64];
	bool good = lab_say(agent[node], "{'op':'bye'}");

	snprintf(record, sizeof record, "\"bye\",\"job\":7,\"step\":0,\"node\":%d", node);
	for (int i = 0; i < WAIT_MS / 100 && !lab_in_file("state/journal", record); i++)
		usleep(100000);
	return good && lab_in_file("state/journal", record);
}

/* gpuckptd dies, and is there again. */
static bool starts_anew(void)
{
	lab_kill();
	for (int i = 0; i < 2; i++) {
		gck_wire_free(agent[i]);
		agent[i] = NULL;
	}
	return lab_up();
}

/* ---- clients ------------------------------------------------------------------------------- */

static struct gck_wire *asks(const char *text)
{
	struct gck_wire *w = lab_connect();

	if (w && lab_say(w, "%s", text))
		return w;
	gck_wire_free(w);
	return NULL;
}

static bool waits(struct gck_wire *w)
{
	struct pollfd p = {.fd = w ? gck_wire_fd(w) : -1, .events = POLLIN};

	return w && poll(&p, 1, SILENCE_MS) == 0;
}

/* The end of the request, within ms; w is freed. */
static json_t *end_of(struct gck_wire *w, int ms)
{
	json_t *body = w ? gck_wire_get(w, ms, NULL) : NULL;

	while (body && !strcmp(json_string_value(json_object_get(body, "op")) ?: "", "event")) {
		json_decref(body);
		body = gck_wire_get(w, ms, NULL);
	}
	gck_wire_free(w);
	return body;
}

/* It was answered so. error NULL: well. */
static bool is_told(struct gck_wire *w, int ms, const char *error)
{
	json_t *body = end_of(w, ms);
	const char *why = json_string_value(json_object_get(body, "error"));
	bool good = body && (error ? why && strstr(why, error) :
			     json_is_true(json_object_get(body, "ok")));

	if (!good)
		printf("# told: %s\n", body ? why ?: "no error" : "nothing");
	json_decref(body);
	return good;
}

/* It was a `status`, and has step 7.0 in this state with both nodes connected. */
static bool is_shown(struct gck_wire *w, const char *state)
{
	json_t *body = end_of(w, WAIT_MS);
	json_t *step = json_array_get(json_object_get(json_object_get(body, "data"), "steps"), 0);
	json_t *nodes = json_object_get(step, "nodes"), *node;
	const char *got = json_string_value(json_object_get(step, "state")) ?: "nothing";
	bool good = !strcmp(got, state) && json_array_size(nodes) == 2;
	size_t i;

	json_array_foreach(nodes, i, node)
		good = good && json_is_true(json_object_get(node, "connected"));
	if (!good)
		printf("# shown: %s, %zu nodes\n", got, json_array_size(nodes));
	json_decref(body);
	return good;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void test_agents_come(void)
{
	struct gck_wire *create, *status, *all;

	ok(starts_anew(), "gpuckptd is started anew");
	create = asks("{'op':'create','job':7,'wait':false}");
	status = asks("{'op':'status','job':7}");
	all = asks("{'op':'status'}");
	ok(is_told(asks("{'op':'create','job':8}"), AT_ONCE_MS, "no step runs or ran"),
	   "a job that it never knew is refused at once");
	ok(is_told(asks("{'op':'list','job':7,'step':3}"), AT_ONCE_MS, NULL),
	   "who asks about another step is answered at once");
	ok(joins(0), "the first agent is back");
	ok(waits(create) && waits(status) && waits(all),
	   "who asks about the step waits for the other");
	ok(joins(1), "which comes");
	ok(lab_hear(agent[0], "prepare", 1) && lab_hear(agent[1], "prepare", 1),
	   "then the checkpoint begins that was asked for first");
	ok(is_shown(status, "preparing"), "and it is shown, with all its nodes, as what it does");
	ok(is_shown(all, "preparing"), "so it is to who asks about all");
	ok(is_told(create, WAIT_MS, NULL), "and create is answered");
}

static void test_clients_go(void)
{
	bool good = true;

	ok(starts_anew(), "gpuckptd is started anew");
	for (int i = 0; i < CLIENTS && good; i++) {
		struct gck_wire *w = asks("{'op':'requeue','job':7}");

		good = waits(w);
		gck_wire_free(w);
	}
	ok(good, "many clients ask about a step, and die while they wait");
	ok(joins(0) && joins(1), "its agents come");
	ok(is_shown(asks("{'op':'status','job':7}"), "running"),
	   "of what they wanted nothing is left");
	is_int(lab_term(), 0, "gpuckptd ends well");
}

static void test_stands_still(void)
{
	struct gck_wire *create;

	ok(starts_anew(), "gpuckptd is started anew");
	create = asks("{'op':'create','job':7}");
	ok(waits(create), "a client waits for the agents");
	lab_stand_still(STILL_S);
	ok(waits(create), "and still does when the machine stood still for longer than the period");
	ok(joins(0) && joins(1) && lab_hear(agent[0], "prepare", 0),
	   "they come, and the checkpoint begins");
	gck_wire_free(create);
}

static void test_ranks_ask(void)
{
	static const char ask[] = "{'op':'ask','id':1,'rank':0,'one':true,'all':0}";

	ok(starts_anew() && joins(0), "gpuckptd is started anew, and one agent is back");
	ok(lab_say(agent[0], ask) && waits(agent[0]), "a rank of its asks for a checkpoint");
	test_clock_advance(CALL_S);
	ok(waits(agent[0]), "which is not refused");
	ok(joins(1) && lab_say(agent[0], ask) && lab_hear(agent[1], "prepare", 0),
	   "the other agent comes, the rank asks again, and the checkpoint begins");
}

static void test_nobody_comes(void)
{
	struct gck_wire *w;

	ok(starts_anew(), "gpuckptd is started anew");
	w = asks("{'op':'create','job':7}");
	ok(waits(w), "a client waits for agents that do not come");
	test_clock_rate(HURRY);
	ok(is_told(w, WAIT_MS, "no step of job 7 runs"), "and is told so in the end");
	test_clock_rate(1);
	ok(is_told(asks("{'op':'create','job':7}"), AT_ONCE_MS, "no step of job 7 runs"),
	   "the next one at once");
}

static void test_ended(void)
{
	ok(joins(0) && joins(1) && leaves(0) && leaves(1), "the step ends");
	ok(starts_anew(), "gpuckptd is started anew");
	ok(is_told(asks("{'op':'create','job':7}"), AT_ONCE_MS, "no step of job 7 runs"),
	   "who asks about a step that has ended is answered at once");
}

int main(void)
{
	if (!lab_begin())
		return 0;
	slurm();
	ok(lab_up() && joins(0) && joins(1), "a step runs");
	test_agents_come();
	test_clients_go();
	test_stands_still();
	test_ranks_ask();
	test_nobody_comes();
	test_ended();
	lab_end();
	return tap_done();
}
