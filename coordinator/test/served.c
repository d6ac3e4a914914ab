/* SPDX-License-Identifier: Apache-2.0
 * gpuckptd over real munge and TCP while Slurm is slow or away, and with users who want more than
 * their share. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/test/tap.h"
#include "coordinator/test/lab.h"

#define AGENTS 10

/* delay_ms below 0: it does not answer about jobs. */
static void slurm(int delay_ms)
{
	char text[512], job[256] = "";

	if (delay_ms >= 0)
		snprintf(job, sizeof job, ",\"job\":{\"job\":7,\"uid\":%u,\"user\":\"me\","
			 "\"restarts\":0,\"submit\":100,\"batch\":true,\"nodes\":2,\"runs\":true,"
			 "\"ends_itself\":true},\"delay\":%d", (unsigned)geteuid(), delay_ms);
	snprintf(text, sizeof text, "{\"conf\":{\"cluster\":\"test\",\"slurm_user\":0},"
		 "\"nodes\":{\"leaving\":[],\"gone\":[]}%s}", job);
	lab_slurm(text);
}

/* What `list` says of step 7.0. */
static bool is_listed_as(const char *state)
{
	struct gck_wire *w = lab_connect();
	json_t *body, *step;
	bool good = false;

	if (w && lab_say(w, "{'op':'list','job':7}") && (body = lab_next(w))) {
		step = json_array_get(json_object_get(json_object_get(body, "data"), "steps"), 0);
		good = !strcmp(json_string_value(json_object_get(step, "state")) ?: "", state);
		json_decref(body);
	}
	gck_wire_free(w);
	return good;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void test_away(void)
{
	struct gck_wire *w;

	slurm(-1);
	ok(lab_up(), "it starts without Slurm");
	w = lab_agent(0, "new", 0, 0, "[]");
	ok(lab_closed(w), "an agent whose job Slurm does not tell is sent away");
	gck_wire_free(w);
	slurm(0);
	w = lab_agent(0, "new", 0, 0, "[]");
	ok(lab_hear(w, "welcome", 0), "and welcome when Slurm is back");
	gck_wire_free(w);
}

/* The same node again and again: each takes the place of the one before. */
static void test_slow(void)
{
	struct gck_wire *w[AGENTS];

	slurm(500);
	for (int i = 0; i < AGENTS; i++)
		w[i] = lab_agent(0, "new", 0, 0, "[]");
	ok(lab_hear(w[AGENTS - 1], "welcome", 0), "of many agents that ask at once the last one is welcome");
	ok(lab_was_asked("job") <= 3, "by few questions to Slurm");
	for (int i = 0; i < AGENTS; i++)
		gck_wire_free(w[i]);
}

static bool ends(int node)
{
	struct gck_wire *w = lab_agent(node, "running", 0, 0, node ? "null" : "[]");
	bool good = w && lab_hear(w, "welcome", 0) &&
		    lab_say(w, "{'op':'exit','rank':%d,'status':0}", node) &&
		    lab_say(w, "{'op':'bye'}");

	usleep(100000);
	gck_wire_free(w);
	return good;
}

static void test_finished_late(void)
{
	slurm(-1);
	ok(ends(0) && ends(1), "a step ends while Slurm is away");
	ok(!is_listed_as("finished"), "it is not known whether it has finished");
	lab_kill();
	slurm(0);
	ok(lab_up(), "a new coordinator");
	for (int i = 0; i < 30 && !is_listed_as("finished"); i++)
		usleep(100000);
	ok(is_listed_as("finished"), "asks when Slurm is back");
}

int main(void)
{
	if (!lab_begin())
		return 0;
	test_away();
	test_slow();
	test_finished_late();
	lab_end();
	return tap_done();
}
