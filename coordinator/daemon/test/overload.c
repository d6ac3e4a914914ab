/* SPDX-License-Identifier: Apache-2.0
 * gpuckptd over real munge and TCP while Slurm is slow or away, and with users who want more than
 * their share. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coordinator/daemon/test/lab.h"
#include "test/support/clock.h"
#include "test/support/tap.h"

#define AGENTS 10
#define KNOCKS 20
#define WAIT_MS 60000
#define STILL_S 20 /* longer than a first message may take */
#define HASH "0123456789abcdef0123456789abcdef"

static char large[80000];

/* delay_ms below 0: it does not answer about jobs. */
static void slurm(int delay_ms)
{
	char text[512], job[256] = "";

	if (delay_ms >= 0)
		snprintf(job, sizeof job, ",\"job\":{\"job\":7,\"uid\":%u,\"user\":\"me\","
			 "\"restarts\":0,\"submit\":100,\"batch\":true,\"nodes\":2,\"runs\":true,"
			 "\"ends_itself\":true},\"delay\":%d", (unsigned)geteuid(), delay_ms);
	snprintf(text, sizeof text,
		 "{\"conf\":{\"cluster\":\"test\",\"slurm_user\":0,\"slurmd_timeout\":300},"
		 "\"nodes\":{\"leaving\":[],\"gone\":[]}%s}",
		 job);
	lab_slurm(text);
}

/* What `list` says of step 7.0. */
static bool is_listed_as(const char *state)
{
	struct gck_wire *w = lab_connect();
	json_t *body, *step;
	bool good = false;

	if (w && lab_say(w, "{'op':'list','job':7,'step':0}") && (body = lab_next(w))) {
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

/* Whether it does depends on who is faster, Slurm or an agent; one that runs asks nothing of
 * Slurm. */
static void test_term(void)
{
	json_int_t told = 0;

	for (int i = 0; i < 600 && !told; i++, usleep(100000)) {
		struct gck_wire *w = lab_agent(0, "running", 0, 0, "[]");
		json_t *m = lab_next(w);

		told = json_integer_value(json_object_get(m, "slurmd_timeout"));
		json_decref(m);
		gck_wire_free(w);
	}
	is_int(told, 300, "an agent is told SlurmdTimeout");
}

/* The same node again and again: each takes the place of the one before. */
static void test_slow(void)
{
	struct gck_wire *w[AGENTS];

	slurm(1000);
	for (int i = 0; i < AGENTS; i++)
		w[i] = lab_agent(0, "new", 0, 0, "[]");
	ok(lab_hear(w[AGENTS - 1], "welcome", 0),
	   "of many agents that ask at once the last one is welcome");
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
	for (int i = 0; i < 600 && !is_listed_as("finished"); i++)
		usleep(100000);
	ok(is_listed_as("finished"), "asks when Slurm is back");
}

/* ---- more than one's share ----------------------------------------------------------------- */

struct claim {
	unsigned step, nodes, ntasks, commits;
	size_t argument;
	const char *state;
	size_t store; /* its length; 0: as others have it */
};

/* What the coordinator says to an agent that claims so: the welcome's action. */
static bool is_told(const struct claim *c, const char *action, const char *words)
{
	struct gck_wire *w = lab_connect();
	json_t *body = json_pack(
		"{s:s, s:i, s:i, s:s, s:i, s:i, s:i, s:i, s:s, s:s, s:{s:s, s:s%}, s:[], s:s}",
		"op", "register", "job", 7, "step", (int)c->step, "node", "n0", "node_id", 0,
		"nodes", (int)c->nodes, "ntasks", (int)c->ntasks, "restarts", 0, "options",
		"interval=off", "store", "file:/s", "fingerprint", "program", "p", "argument",
		large, c->argument, "commits", "state", c->state);
	json_t *answer = NULL;
	const char *got, *why;
	bool good;

	if (c->store)
		json_object_set_new(body, "store",
				    json_sprintf("file:/%.*s", (int)c->store, large));
	for (unsigned i = 1; i <= c->commits; i++)
		json_array_append_new(json_object_get(body, "commits"),
				      json_pack("{s:i, s:s}", "seq", (int)i, "hash", HASH));
	if (w && !gck_wire_put(w, body, 60000, NULL))
		answer = lab_next(w);
	got = json_string_value(json_object_get(answer, "action"));
	why = json_string_value(json_object_get(answer, "why"));
	good = got && !strcmp(got, action) && (!words || (why && strstr(why, words)));
	if (!good)
		printf("# told: %s (%s)\n", got ? got : "nothing", why ? why : "no reason");
	json_decref(body);
	json_decref(answer);
	gck_wire_free(w);
	return good;
}

static void test_shares(void)
{
	memset(large, 'x', sizeof large);
	ok(is_told(&(struct claim){1, 2, 8, 0, 10, "new"}, "cold", NULL), "a step like others");
	ok(is_told(&(struct claim){1, 2, 8, 0, 10, "running"}, "run", NULL), "which runs");
	ok(is_told(&(struct claim){1, 2, 1 << 20, 0, 10, "running"}, "refuse", "cannot be"),
	   "and then has a million tasks");
	ok(is_told(&(struct claim){2, 3, 8, 0, 10, "new"}, "refuse", "has 2 nodes"),
	   "a step of more nodes than its job has");
	ok(is_told(&(struct claim){2, 2, 1 << 20, 0, 10, "new"}, "refuse", "cannot be"),
	   "a step of a million tasks");
	ok(is_told(&(struct claim){2, 2, 8, 0, 70000, "new"}, "refuse", "too long"),
	   "a long fingerprint");
	ok(is_told(&(struct claim){2, 2, 8, 5000, 10, "new"}, "refuse", "too long"),
	   "many commits");
	ok(is_told(&(struct claim){2, 2, 8, 500, 10, "running"}, "run", NULL), "fewer");
}

#define STEPS 60  /* more than a queue for one peer holds, as often as it asks */
#define LISTS 150
#define HURRY 20 /* times as fast as the machine's: gpuckptd's clock */

static void test_unread(void)
{
	unsigned told = 0, answers = 0;
	struct gck_wire *w;
	json_t *answer;

	test_clock_rate(HURRY); /* MaxUserRate slows each of them down */
	for (unsigned i = 0; i < STEPS; i++)
		told += is_told(&(struct claim){100 + i, 2, 2, 0, 10, "new", 8000}, "cold", NULL);
	w = lab_connect(); /* it would be closed while it says nothing */
	is_int(told, STEPS, "steps of which much is to be told");
	/* Just after its start gpuckptd waits for agents before it answers. */
	if (w && lab_say(w, "{'op':'list','job':7}"))
		json_decref(lab_next(w));
	for (unsigned i = 0; w && i < LISTS; i++)
		lab_say(w, "{'op':'list','job':7}");
	while (answers < LISTS && w && (answer = lab_next(w))) {
		answers += json_is_true(json_object_get(answer, "ok"));
		json_decref(answer);
	}
	is_int(answers, LISTS, "who asks and does not read is heard when he does");
	test_clock_rate(1);
	gck_wire_free(w);
}

static void test_files(void)
{
	int fds[KNOCKS];
	double before;

	lab_kill();
	lab_files = 18;
	lab_up();
	lab_files = 0;
	slurm(0);
	for (int i = 0; i < KNOCKS; i++)
		fds[i] = lab_knock("127.0.0.1");
	before = lab_cpu_seconds();
	usleep(1500000);
	ok(lab_cpu_seconds() - before < 0.5, "without a file for a connection it does not spin");
	for (int i = 0; i < KNOCKS; i++)
		close(fds[i]);
	ok(is_listed_as("finished"), "and goes on when there are some");
}

static bool is_closed(int fd)
{
	char byte;

	return recv(fd, &byte, 1, 0) <= 0;
}

/* One address must not use up the connections of all. */
static void test_unknown_users(void)
{
	int fds[LAB_NEW_CONNECTIONS + 1];

	lab_kill();
	lab_up();
	for (unsigned i = 0; i <= LAB_NEW_CONNECTIONS; i++)
		fds[i] = lab_knock("127.0.0.2");
	ok(is_closed(fds[LAB_NEW_CONNECTIONS]), "an address with MaxNewConnections gets no more");
	ok(is_listed_as("finished"), "users at another address do");
	ok(lab_in_file("log", "127.0.0.2 has MaxNewConnections"), "the log names the address");
	for (unsigned i = 0; i <= LAB_NEW_CONNECTIONS; i++)
		close(fds[i]);
}

/* A client that has said nothing yet keeps its time. */
static void test_still(void)
{
	struct gck_wire *w = lab_connect();
	struct pollfd greeting = {.fd = w ? gck_wire_fd(w) : -1, .events = POLLIN};

	ok(poll(&greeting, 1, WAIT_MS) == 1, "a client has connected");
	lab_stand_still(STILL_S);
	ok(w && lab_say(w, "{'op':'list','job':7}") && lab_hear(w, "end", 0),
	   "the machine stands still: the client may speak after it");
	gck_wire_free(w);
}

int main(void)
{
	if (!lab_begin())
		return 0;
	test_away();
	test_term();
	test_slow();
	test_finished_late();
	test_shares();
	test_unread();
	test_files();
	test_unknown_users();
	test_still();
	lab_end();
	return tap_done();
}
