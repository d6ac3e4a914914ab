/* SPDX-License-Identifier: Apache-2.0
 * gpuckptd over real munge and TCP, with agents played word by word: what is said in a checkpoint,
 * in a restart and after crashes, and what becomes of connections that misbehave. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "coordinator/daemon/test/lab.h"
#include "test/support/clock.h"
#include "test/support/tap.h"

#define HASH "0123456789abcdef0123456789abcdef"
#define NONE "{}"
#define HURRY 20 /* times as fast as the machine's: gpuckptd's clock while its limits run out */

static struct gck_wire *agent[2], *client;

/* ---- pieces -------------------------------------------------------------------------------- */

static void slurm_runs(unsigned restarts, const char *requeue)
{
	char text[1024];

	snprintf(text, sizeof text, "{\"conf\":{\"cluster\":\"test\",\"slurm_user\":0},"
		 "\"job\":{\"job\":7,\"uid\":%u,\"user\":\"me\",\"restarts\":%u,\"submit\":%u,"
		 "\"batch\":true,\"nodes\":2,\"runs\":true,\"ends_itself\":true},"
		 "\"nodes\":{\"leaving\":[],\"gone\":[]}%s%s}", (unsigned)geteuid(), restarts,
		 100 + restarts, requeue ? ",\"requeue\":" : "", requeue ? requeue : "");
	lab_slurm(text);
}

static void drop_all(void)
{
	for (int i = 0; i < 2; i++) {
		gck_wire_free(agent[i]);
		agent[i] = NULL;
	}
	gck_wire_free(client);
	client = NULL;
}

/* The step ends on both nodes: the job's next start need not wait for that. */
static void end_all(void)
{
	for (int i = 0; i < 2; i++)
		lab_say(agent[i], "{'op':'bye'}");
	drop_all();
}

/* Both agents in the same state; true if both hear `welcome`. */
static bool join(const char *state, unsigned seq, unsigned restarts, const char *commits)
{
	for (int i = 0; i < 2; i++)
		agent[i] = lab_agent(i, state, seq, restarts, i ? "null" : commits);
	return agent[0] && agent[1] && lab_hear(agent[0], "welcome", 0) &&
	       lab_hear(agent[1], "welcome", 0);
}

static bool both_hear(const char *op, unsigned seq)
{
	bool good = lab_hear(agent[0], op, seq);

	return lab_hear(agent[1], op, seq) && good;
}

static bool both_do(const char *phase, unsigned seq)
{
	return both_hear(phase, seq) && lab_done(agent[0], phase, seq, NONE) &&
	       lab_done(agent[1], phase, seq, NONE);
}

static bool wrote(int i, unsigned seq)
{
	char data[160];

	snprintf(data, sizeof data, "{'ranks':[{'rank':%d,'manifest':'" HASH "'}],'put':10,"
		 "'stored':5,'seconds':0.5}", i);
	return lab_done(agent[i], "write", seq, data);
}

static bool ask(const char *text)
{
	client = client ? client : lab_connect();
	return client && lab_say(client, "%s", text);
}

/* The client's "end", events before it skipped. */
static json_t *answer(void)
{
	json_t *body;

	while ((body = lab_next(client))) {
		const char *op = json_string_value(json_object_get(body, "op"));

		if (op && !strcmp(op, "end"))
			break;
		json_decref(body);
	}
	return body;
}

static bool answered(bool well, const char *words)
{
	json_t *body = answer();
	const char *error = json_string_value(json_object_get(body, "error"));
	bool good = body && json_is_true(json_object_get(body, "ok")) == well &&
		    (!words || (error && strstr(error, words)));

	if (!good)
		printf("# the client was told: %s\n", error ? error : "no error");
	json_decref(body);
	return good;
}

#define CREATE "{'op':'create','job':7,'wait':true}"

/* ---- tests --------------------------------------------------------------------------------- */

static void test_start(void)
{
	const char *const second[] = {"-D", "-f", lab_conf, NULL};
	const char *const wrong[] = {"-x", NULL};
	char out[4096];

	ok(lab_up(), "it starts");
	is_int(lab_run(out, sizeof out, second), 1, "a second one is refused");
	ok(strstr(out, "another gpuckptd, pid") != NULL, "and told who is there");
	is_int(lab_run(out, sizeof out, wrong), 2, "wrong arguments are exit status 2");
}

/* What `list` says of step 7.0. */
static bool is_listed_as(const char *state)
{
	struct gck_wire *w = lab_connect();
	json_t *body = w && lab_say(w, "{'op':'list','job':7,'step':0}") ? lab_next(w) : NULL;
	json_t *step = json_array_get(json_object_get(json_object_get(body, "data"), "steps"), 0);
	const char *is = json_string_value(json_object_get(step, "state"));
	bool good = is && !strcmp(is, state);

	json_decref(body);
	gck_wire_free(w);
	return good;
}

/* The agent that a checkpoint waits for is sent away by what it says when it comes. */
static void test_unreadable(void)
{
	slurm_runs(0, NULL);
	ok(join("running", 0, 0, "null"), "agents join, whose store cannot be read");
	ask(CREATE);
	ok(answered(false, "could not read"), "without numbers there is no checkpoint");
	ok(lab_closed(agent[0]), "node 0's agent is to look again");
	test_clock_rate(HURRY);
	ok(is_listed_as("running"), "gpuckptd, just started, has waited for it");
	test_clock_rate(1);
	ask(CREATE);
	for (int i = 0; i < 1000 && !is_listed_as("calling agents"); i++)
		usleep(10000);
	gck_wire_free(agent[0]);
	agent[0] = lab_agent(0, "running", 0, 0, "null");
	ok(answered(false, "could not read"), "the next checkpoint waits for it, in vain");
	ok(lab_closed(agent[0]), "and it is sent away while it joins");
	gck_wire_free(agent[0]);
	agent[0] = lab_agent(0, "running", 0, 0, "[]");
	ok(lab_hear(agent[0], "welcome", 0), "until it can read the store");
	drop_all();
}

static int as_other(void)
{
	json_t *body;
	int rc;

	body = lab_next(lab_agent(0, "running", 0, 0, "[]"));
	rc = strcmp(json_string_value(json_object_get(body, "action")) ?: "", "refuse") ||
	     !strstr(json_string_value(json_object_get(body, "why")) ?: "", "no job 7 of yours");
	json_decref(body);
	return rc;
}

static void test_create(void)
{
	slurm_runs(0, NULL);
	ok(join("running", 0, 0, "[]"), "agents join");
	ask(CREATE);
	ok(both_do("prepare", 1), "prepare");
	ok(both_do("freeze", 1), "freeze");
	ok(both_do("resume", 1), "resume");
	ok(both_hear("write", 1) && wrote(0, 1) && wrote(1, 1), "write");
	ok(lab_hear(agent[0], "commit", 1), "one agent writes the commit");
	lab_done(agent[0], "commit", 1, "{'hash':'" HASH "'}");
	ok(both_hear("committed", 1), "all are told that it counts");
	ok(answered(true, NULL), "so is the client");
}

static void test_lost_frozen(void)
{
	ask(CREATE);
	both_do("prepare", 2);
	both_hear("freeze", 2);
	lab_done(agent[0], "freeze", 2, NONE);
	gck_wire_free(agent[1]);
	ok(lab_hear(agent[0], "abort", 2), "an agent lost while ranks are held: the others let go");
	ok(answered(false, "n1"), "the client is told the node");
	lab_done(agent[0], "abort", 2, NONE);
	agent[1] = lab_agent(1, "held", 2, 0, "null");
	ok(lab_hear(agent[1], "welcome", 0) && lab_hear(agent[1], "abort", 2),
	   "and the lost one when it is back");
}

static void test_back_writing(void)
{
	ask(CREATE);
	both_do("prepare", 3);
	both_do("freeze", 3);
	both_do("resume", 3);
	both_hear("write", 3);
	wrote(0, 3);
	gck_wire_free(agent[1]);
	agent[1] = lab_agent(1, "running", 3, 0, "null");
	ok(lab_hear(agent[1], "welcome", 0) && lab_hear(agent[1], "write", 3),
	   "an agent lost while it writes is asked again");
	wrote(1, 3);
	ok(lab_hear(agent[0], "commit", 3), "and the checkpoint goes on");
	lab_done(agent[0], "commit", 3, "{'hash':'" HASH "'}");
	ok(both_hear("committed", 3) && answered(true, NULL), "to its commit");
}

static void test_timeout(void)
{
	ask(CREATE);
	both_do("prepare", 4);
	both_hear("freeze", 4);
	lab_done(agent[0], "freeze", 4, NONE);
	test_clock_rate(HURRY);
	ok(both_hear("abort", 4), "a rank that cannot be stopped in time: abort");
	test_clock_rate(1);
	ok(answered(false, "n1, freeze"), "the node and what it did not do are named");
	lab_done(agent[0], "abort", 4, NONE);
	lab_done(agent[1], "abort", 4, NONE);
}

static void test_refused(void)
{
	ask(CREATE);
	both_hear("prepare", 5);
	lab_done(agent[0], "prepare", 5, NONE);
	lab_say(agent[1], "{'op':'done','phase':'prepare','seq':5,'ok':false,'rank':1,"
		"'error':'no space left'}");
	ok(both_hear("abort", 5) && answered(false, "rank 1, prepare: no space left"),
	   "a no in prepare: its reason reaches the client");
	lab_done(agent[0], "abort", 5, NONE);
	lab_done(agent[1], "abort", 5, NONE);
}

/* Node 1 answers with these items; both: node 0 answers as well. */
static json_t *verdict(const char *items, bool both)
{
	json_t *body, *step;

	ask("{'op':'able','job':7}");
	for (int i = 0; i < 2; i++) {
		body = lab_next(agent[i]);
		if (i || both)
			lab_say(agent[i], "{'op':'able','id':%lld,'items':%s}",
				(long long)json_integer_value(json_object_get(body, "id")),
				i ? items : "[]");
		json_decref(body);
	}
	body = answer();
	step = json_incref(json_array_get(
		json_object_get(json_object_get(body, "data"), "steps"), 0));
	json_decref(body);
	return step;
}

#define ITEM(refuse) \
	"[{'rank':1,'object':'pipe','reason':'r','remedy':'close it','refuse':" refuse "}]"

static void test_able(void)
{
	json_t *step = verdict("[]", true);

	ok(json_is_true(json_object_get(step, "able")), "no obstacle: the step is able");
	json_decref(step);
	step = verdict(ITEM("true"), true);
	ok(json_is_false(json_object_get(step, "able")), "an obstacle: it is not");
	is_int((long long)json_array_size(json_object_get(step, "items")), 1, "it is listed");
	json_decref(step);
	step = verdict(ITEM("false"), true);
	ok(json_is_true(json_object_get(step, "able")), "a warning is no obstacle");
	json_decref(step);
	test_clock_rate(HURRY);
	step = verdict("[]", false);
	test_clock_rate(1);
	ok(json_is_false(json_object_get(step, "able")), "an agent that does not answer is one");
	json_decref(step);
}

static void test_crash_writing(void)
{
	ask(CREATE);
	both_do("prepare", 6);
	both_do("freeze", 6);
	both_do("resume", 6);
	both_hear("write", 6);
	lab_kill();
	drop_all();
	ok(lab_up(), "killed while images are written, it starts again");
	ok(join("running", 6, 0, "[]"), "the agents are back");
	ok(both_hear("abort", 6), "the checkpoint is aborted");
}

static void test_crash_committing(void)
{
	ask(CREATE);
	both_do("prepare", 7);
	both_do("freeze", 7);
	both_do("resume", 7);
	both_hear("write", 7);
	wrote(0, 7);
	wrote(1, 7);
	lab_hear(agent[0], "commit", 7);
	lab_kill();
	drop_all();
	lab_up();
	ok(join("running", 7, 0, "[{'seq':7,'hash':'" HASH "'}]"),
	   "killed while the commit is written, it starts again");
	ok(both_hear("committed", 7), "the commit in the store counts");
	ok(both_hear("resume", 7), "and whoever is held goes on");
	lab_done(agent[0], "resume", 7, NONE);
	lab_done(agent[1], "resume", 7, NONE);
	ask("{'op':'list','job':7}");
	ok(answered(true, NULL), "list");
}

static void hold_all(unsigned seq)
{
	both_do("prepare", seq);
	both_do("freeze", seq);
	both_hear("write", seq);
	wrote(0, seq);
	wrote(1, seq);
	lab_hear(agent[0], "commit", seq);
	lab_done(agent[0], "commit", seq, "{'hash':'" HASH "'}");
	both_hear("committed", seq);
}

static void test_requeue(void)
{
	slurm_runs(0, "\"no, not now\"");
	ask("{'op':'requeue','job':7,'wait':true}");
	hold_all(8);
	ok(both_hear("hold", 8), "the agents know that Slurm is about to be asked");
	ok(both_hear("resume", 8), "Slurm refuses a requeue: the ranks go on");
	ok(answered(false, "no, not now"), "its words reach the client");
	lab_done(agent[0], "resume", 8, NONE);
	lab_done(agent[1], "resume", 8, NONE);
	slurm_runs(0, "{}");
	ask("{'op':'requeue','job':7,'wait':true}");
	hold_all(9);
	ok(answered(true, NULL) && lab_was_requeued(),
	   "Slurm takes the job while the ranks are held");
	end_all();
}

static void test_restart(void)
{
	slurm_runs(1, "{}");
	agent[0] = lab_agent(0, "new", 0, 1, "[]");
	ok(lab_hear(agent[0], "welcome", 0), "a restart: the first node waits");
	agent[1] = lab_agent(1, "new", 0, 1, "null");
	ok(both_hear("welcome", 9), "all are told the commit");
	ok(both_hear("build", 9), "and to build it");
	lab_done(agent[0], "build", 9, NONE);
	lab_say(agent[1], "{'op':'done','phase':'build','seq':9,'ok':false,'code':%d,'error':"
		"'damaged'}", EBADMSG);
	ok(both_hear("fallback", 8), "it is damaged on one: all fall back");
	lab_done(agent[0], "build", 8, NONE);
	lab_done(agent[1], "build", 8, NONE);
	ok(both_hear("files", 8), "all have built it: files are cut back");
	lab_done(agent[0], "files", 8, NONE);
	lab_done(agent[1], "files", 8, NONE);
	ok(both_hear("run", 8), "all have cut them back: run");
	lab_done(agent[0], "run", 8, NONE);
	lab_kill();
	drop_all();
	lab_up();
	agent[0] = lab_agent(0, "running", 0, 1, "[]");
	agent[1] = lab_agent(1, "restoring", 8, 1, "null");
	ok(lab_hear(agent[1], "welcome", 0), "killed between two nodes' run, it starts again");
	ok(lab_hear(agent[1], "build", 8) && lab_done(agent[1], "build", 8, NONE) &&
	   lab_hear(agent[1], "files", 8) && lab_done(agent[1], "files", 8, NONE) &&
	   lab_hear(agent[1], "run", 8), "and the other node runs from the same commit");
	lab_done(agent[1], "run", 8, NONE);
	end_all();
}

static void test_taken_back(void)
{
	slurm_runs(2, "{}");
	agent[0] = lab_agent(0, "new", 0, 2, "[]");
	lab_hear(agent[0], "welcome", 0);
	agent[1] = lab_agent(1, "new", 0, 2, "null");
	both_hear("welcome", 8);
	both_do("build", 8);
	both_hear("files", 8);
	lab_done(agent[1], "files", 8, NONE);
	lab_say(agent[1], "{'op':'done','phase':'files','seq':8,'ok':false,'rank':1,"
		"'error':'the rank is gone'}");
	ok(both_hear("fallback", 0), "what a node had built is lost before it runs: all ranks end");
	end_all();
	ok(lab_was_requeued(), "and the job is requeued");
}

static void test_doomed(void)
{
	slurm_runs(3, "{}");
	agent[0] = lab_agent(0, "new", 0, 3, "[]");
	lab_hear(agent[0], "welcome", 0);
	agent[1] = lab_agent(1, "new", 0, 3, "null");
	both_hear("welcome", 8);
	both_hear("build", 8);
	lab_say(agent[0], "{'op':'done','phase':'build','seq':8,'ok':false,'code':%d,'error':"
		"'damaged'}", EBADMSG);
	ok(both_hear("fallback", 0) || true, "no commit is left");
	drop_all();
	ok(lab_was_requeued(), "the job is requeued and held, and not started over");
}

static void test_stale(void)
{
	json_t *body;

	agent[0] = lab_agent(0, "running", 0, 1, "[]");
	body = lab_next(agent[0]);
	is_str(json_string_value(json_object_get(body, "action")), "refuse",
	       "an agent of an incarnation before is refused");
	json_decref(body);
	drop_all();
}

/* Send bytes that are no frame, until the other side ends the connection. */
static bool sends_no_frame(void)
{
	const struct timeval limit = {.tv_sec = 10};
	int fd = lab_knock("127.0.0.1");
	char bytes[256] = "";
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	memset(bytes, 0xff, 4);
	send(fd, bytes, 4, MSG_NOSIGNAL);
	while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0)
		;
	close(fd);
	return n == 0;
}

static void test_misbehaviour(void)
{
	struct gck_wire *many[25];
	unsigned open = 0;

	client = lab_connect();
	test_clock_rate(HURRY);
	ok(lab_closed(client), "a connection that says nothing is closed");
	test_clock_rate(1);
	gck_wire_free(client);
	client = lab_connect();
	lab_say(client, "{'op':'dance'}");
	ok(lab_hear(client, "error", 0) && lab_closed(client), "an unknown request is refused");
	ok(sends_no_frame(), "a connection that breaks the protocol is closed");
	ok(lab_in_file("log", "is closed: a frame of 4294967295 bytes"), "the log has the reason");
	ok(!lab_in_file("log", "closed the connection"), "it has no line for a client that ends");
	drop_all();
	test_clock_rate(HURRY);
	for (int i = 0; i < 25; i++) {
		many[i] = lab_connect();
		lab_say(many[i], "{'op':'status'}");
		open += lab_hear(many[i], "end", 0);
	}
	is_int(open, 20, "MaxUserConnections");
	for (int i = 0; i < 25; i++)
		gck_wire_free(many[i]);
	for (int i = 0; i < 120 && ask("{'op':'status'}"); i++)
		open += answered(true, NULL);
	is_int(open, 140, "MaxUserRate slows down and loses nothing");
	test_clock_rate(1);
	drop_all();
}

static void test_journal_damaged(void)
{
	const char *const args[] = {"-D", "-f", lab_conf, NULL};
	char path[128], out[4096];
	FILE *f;

	is_int(lab_term(), 0, "SIGTERM: exit status 0");
	snprintf(path, sizeof path, "%s/state/journal", lab_dir);
	f = fopen(path, "r+");
	if (f && !fseek(f, 30, SEEK_SET))
		fputc('~', f);
	if (f)
		fclose(f);
	is_int(lab_run(out, sizeof out, args), 1, "a damaged journal is refused");
	ok(strstr(out, "line 1") && strstr(out, "move it away"), "line and remedy are named");
	unlink(path);
}

/* The epoch of the welcome for an agent that has obeyed this one, so long ago. */
static int64_t welcome_of(int64_t epoch, int64_t ago_ms)
{
	char text[80];
	int64_t answer;
	json_t *body;

	snprintf(text, sizeof text, ",'epoch':%" PRId64 ",'epoch_ms':%" PRId64, epoch, ago_ms);
	lab_epoch = text;
	agent[0] = lab_agent(0, "running", 0, 3, "[]");
	lab_epoch = "";
	body = lab_next(agent[0]);
	answer = json_integer_value(json_object_get(body, "epoch"));
	json_decref(body);
	drop_all();
	return answer;
}

/* The journal was lost, and the clock is days behind what it was before. */
static void test_epoch(void)
{
	const int64_t day_s = 86400, now = time(NULL), ago_ms = 1000 * day_s;

	slurm_runs(3, NULL);
	lab_up();
	ok(welcome_of(now + day_s, ago_ms) == now + day_s + 1,
	   "an agent obeyed a higher epoch before this start: its epoch goes above that");
	ok(welcome_of(now + 2 * day_s, 0) == now + day_s + 1,
	   "a coordinator that started after this one is the younger");
	ok(welcome_of(UINT32_MAX, ago_ms) == now + day_s + 1,
	   "an agent cannot use up the numbers");
	lab_kill();
	lab_up();
	ok(welcome_of(0, 0) == now + day_s + 2, "the next start has a higher epoch again");
	lab_kill();
}

static void test_background(void)
{
	const char *const args[] = {"-f", lab_conf, NULL};
	char path[128], out[4096], pid[16] = "";
	FILE *f;

	is_int(lab_run(out, sizeof out, args), 0,
	       "in the background: the parent waits, exit status 0");
	client = lab_connect();
	ok(client != NULL, "and it answers at once");
	drop_all();
	snprintf(path, sizeof path, "%s/state/lock", lab_dir);
	f = fopen(path, "r");
	if (f && fgets(pid, sizeof pid, f))
		kill(atoi(pid), SIGTERM);
	if (f)
		fclose(f);
}

int main(void)
{
	if (!lab_begin())
		return 0;
	slurm_runs(0, NULL);
	test_start();
	test_unreadable();
	test_create();
	ok_as_stranger(as_other, "an agent of another user joins no step");
	test_lost_frozen();
	test_back_writing();
	test_timeout();
	test_refused();
	test_able();
	test_crash_writing();
	test_crash_committing();
	test_requeue();
	test_restart();
	test_taken_back();
	test_doomed();
	test_stale();
	test_misbehaviour();
	test_journal_damaged();
	test_epoch();
	test_background();
	lab_end();
	return tap_done();
}
