/* SPDX-License-Identifier: Apache-2.0
 * URLs for the agent's processes: which questions go to gpuckptd together, who gets which answer,
 * and what happens to questions when the connection is lost. */
#include "config.h"

#include "coordinator/agent/worker/proxy.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "coordinator/agent/base/packet.h"
#include "coordinator/agent/worker/job.h"
#include "storage/s3/signer.h"
#include "test/support/tap.h"

#define LINES 5
#define FAR 4 /* the line that asks about another job */
#define STORE "s3://images/site"

static struct step step;
static struct ev_loop *loop;
static struct proxy_line *line[LINES];
static int end[LINES];      /* the processes' ends */
static json_t *sent;        /* the last message to gpuckptd */
static unsigned messages;

static void take(void *arg, json_t *body)
{
	(void)arg;
	json_decref(sent);
	sent = body;
	messages++;
}

static void turn(void)
{
	for (int i = 0; i < 2 * LINES; i++)
		ev_run(loop, EVRUN_NOWAIT);
}

/* ---- the processes, played ----------------------------------------------------------------- */

static void open_lines(void)
{
	for (int i = 0; i < LINES; i++) {
		int sv[2];

		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sv))
			return;
		line[i] = proxy_open(sv[0]);
		end[i] = sv[1];
	}
}

/* Two requests of line i, named after it. */
static void ask(int i)
{
	json_t *body = json_pack("{s:s, s:i, s:s, s:s, s:i, s:i}", "op", "sign", "id", 100 + i,
				 "store", STORE, "cluster", "test", "job", i == FAR ? 8 : 7, "step",
				 0);

	json_object_set_new(body, "requests", json_pack("[{s:s, s:o}, {s:s, s:o}]", "verb", "put",
			    "name", json_sprintf("a%d", i), "verb", "get", "name",
			    json_sprintf("b%d", i)));
	packet_send(end[i], body, NULL);
	turn();
}

/* What came to line i: "a0 b0", "!why", or "" */
static const char *heard(int i)
{
	static char text[256];
	struct gck_error err;
	json_t *body = packet_recv(end[i], 0, &err), *one;
	size_t k;

	*text = '\0';
	if (body && packet_int(body, "id", -1) != 100 + i)
		strcpy(text, "another's ");
	json_array_foreach(json_object_get(body, "urls"), k, one)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", k ? " " : "",
			 json_is_string(one) ? json_string_value(one) :
			 packet_text(one, "error", "?"));
	if (body && !json_object_get(body, "urls"))
		snprintf(text, sizeof text, "!%s", packet_text(body, "error", "?"));
	json_decref(body);
	return text;
}

/* ---- gpuckptd, played ---------------------------------------------------------------------- */

static size_t asked(void)
{
	return json_array_size(json_object_get(sent, "requests"));
}

/* Each URL is the name; one of them may be refused. */
static void answer(const json_t *to, const char *refused)
{
	json_t *urls = json_array(), *one;
	json_t *body = json_pack("{s:s, s:O, s:o, s:i}", "op", "signed", "id",
				 json_object_get(to, "id"), "urls", urls, "seconds", 60);
	size_t i;

	json_array_foreach(json_object_get(to, "requests"), i, one) {
		const char *name = packet_text(one, "name", "?");

		json_array_append_new(urls, strcmp(name, refused) ? json_string(name) :
				      json_pack("{s:s, s:i}", "error", "not yours", "code",
						EACCES));
	}
	proxy_answer(body);
	json_decref(body);
}

static void refuse(int code, const char *why)
{
	json_t *body = json_pack("{s:s, s:O, s:s, s:i}", "op", "signed", "id",
				 json_object_get(sent, "id"), "error", why, "code", code);

	proxy_answer(body);
	json_decref(body);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void test_together(void)
{
	for (int i = 0; i < LINES; i++)
		ask(i);
	is_int(messages, 0, "without gpuckptd nothing is sent");
	proxy_connection(true);
	ok(messages == 1 && asked() == 8,
	   "gpuckptd connects: the questions that wait go in one message");
	answer(sent, "b2");
	ok(messages == 2 && asked() == 2 && packet_int(sent, "job", 0) == 8,
	   "a question about another job goes alone, after the answer");
	answer(sent, "");
	is_str(heard(0), "a0 b0", "each process gets its own URLs");
	is_str(heard(3), "a3 b3", "also behind those of others");
	is_str(heard(2), "a2 not yours", "and the refusals among them");
	is_str(heard(FAR), "a4 b4", "the same for the other job");
	heard(1);
	ask(0);
	ask(1);
	ask(2);
	ok(messages == 3 && asked() == 2, "a single question does not wait");
	answer(sent, "");
	ok(messages == 4 && asked() == 4, "questions that came meanwhile go together");
	refuse(EAGAIN, "later");
	is_str(heard(0), "a0 b0", "the first process had its answer");
	is_str(heard(1), "!later", "a refused message is refused to all");
	is_str(heard(2), "!later", "of its processes");
}

static void test_lost(void)
{
	json_t *before;

	ask(0);
	ask(1);
	before = json_incref(sent);
	proxy_connection(false);
	ask(2);
	is_int(messages, 5, "the connection is lost: questions wait");
	proxy_connection(true);
	ok(messages == 6 && asked() == 6, "and are sent again on the next");
	answer(before, "");
	is_str(heard(0), "", "an answer to an earlier message is ignored");
	answer(sent, "");
	is_str(heard(0), "a0 b0", "the answer to this one is taken");
	is_str(heard(2), "a2 b2", "for all");
	is_str(heard(1), "a1 b1", "of its processes");
	json_decref(before);
}

static void test_gone(void)
{
	proxy_connection(false);
	for (int i = 0; i < 3; i++)
		ask(i);
	proxy_connection(true);
	proxy_close(line[1]);
	answer(sent, "");
	is_str(heard(0), "a0 b0", "a process that is gone loses its URLs");
	is_str(heard(2), "a2 b2", "and no other process does");
	packet_send(end[3], json_pack("{s:s}", "op", "done"), NULL);
	turn();
	is_int(recv(end[3], &(char){ 0 }, 1, 0), 0,
	       "a process that sends anything else is cut off");
	proxy_close(line[0]);
	proxy_close(line[2]);
	proxy_close(line[3]);
	proxy_close(line[FAR]);
}

/* ---- keys ---------------------------------------------------------------------------------- */

static void ask_key(int i, const char *key)
{
	packet_send(end[i], json_pack("{s:s, s:i, s:s}", "op", "unwrap", "id", 100 + i, "key", key),
		    NULL);
	turn();
}

static void answer_key(const char *data)
{
	json_t *body = json_pack("{s:s, s:O, s:s}", "op", "unwrapped", "id",
				 json_object_get(sent, "id"),
				 *data ? "data" : "error", *data ? data : "none");

	proxy_answer(body);
	json_decref(body);
}

static const char *heard_key(int i)
{
	static char text[64];
	struct gck_error err;
	json_t *body = packet_recv(end[i], 0, &err);

	snprintf(text, sizeof text, "%s%s%s", packet_int(body, "id", -1) == 100 + i ? "" :
		 "another's ",
		 packet_text(body, "data", ""), packet_text(body, "error", ""));
	json_decref(body);
	return text;
}

static void test_keys(void)
{
	unsigned before = messages;

	ask(0);
	ask_key(1, "one");
	ask_key(2, "one");
	ask_key(3, "two");
	answer(sent, "");
	ok(messages == before + 2 && !strcmp(packet_text(sent, "key", ""), "one") && !asked(),
	   "a key is asked for alone");
	answer_key("K1");
	is_str(heard_key(1), "K1", "for all processes that need it");
	is_str(heard_key(2), "K1", "with one answer");
	is_str(packet_text(sent, "key", ""), "two", "then another key");
	answer_key("");
	is_str(heard_key(3), "none", "which is refused");
	before = messages;
	ask_key(3, "one");
	is_str(heard_key(3), "K1", "a known key is not asked for again");
	ok(messages == before, "at gpuckptd");
	ask_key(1, "two");
	ok(messages == before + 1, "a refused one is");
	answer_key("K2");
	is_str(heard_key(1), "K2", "and may be granted then");
	heard(0);
}

/* ---- a real process ------------------------------------------------------------------------ */

static json_t *fetch(const void *arg, struct gck_error *err)
{
	static const struct gck_sign_scope of = { STORE, "test", 7, 0, 0 };
	const struct gck_sign_request r = { .verb = GCK_SIGN_GET, .name = arg };
	struct gck_signed s = { 0 };
	json_t *url;

	if (gck_sign(&of, &r, &s, err) < 0)
		return NULL;
	url = s.ca ? json_sprintf("%s with %s", s.url, s.ca) : NULL;
	gck_signed_free(&s);
	return url;
}

static char result[512];
static bool over;

static void on_done(void *data, const json_t *url, const struct gck_error *why)
{
	(void)data;
	snprintf(result, sizeof result, "%s", url ? json_string_value(url) : why->text);
	over = true;
}

static void start(void)
{
	struct gck_error err;

	over = false;
	if (!job_start(loop, "a test", fetch, "commit-1.json", 60., on_done, NULL, &err))
		printf("Bail out! %s\n", err.text);
}

static void run_until_asked(unsigned more)
{
	for (unsigned want = messages + more; !over && messages < want;)
		ev_run(loop, EVRUN_ONCE);
}

static void run_until_over(void)
{
	while (!over)
		ev_run(loop, EVRUN_ONCE);
}

static void test_process(void)
{
	start();
	run_until_asked(1);
	proxy_connection(false);
	proxy_connection(true);
	refuse(EAGAIN, "Slurm is away");
	run_until_asked(1);
	ok(asked() == 1 && !over, "a process that is told to ask again does");
	answer(sent, "");
	run_until_over();
	is_str(result, "commit-1.json with /ca", "and gets its URL, and the site's certificates");
	start();
	run_until_asked(1);
	refuse(EACCES, "not yours");
	run_until_over();
	ok(strstr(result, "not yours") != NULL, "%s", result);
	proxy_connection(false);
	step.options.timeout_ms = 1000;
	start();
	run_until_over();
	ok(strstr(result, "gpuckptd at ctl is away"), "a process that waits too long gives up: %s",
	   result);
}

int main(void)
{
	loop = ev_default_loop(0);
	gck_conf_init(&step.conf);
	gck_options_init(&step.options);
	ok(!proxy_serves(), "no process is served before the start");
	strcpy(step.options.store, STORE);
	strcpy(step.conf.host, "ctl");
	strcpy(step.conf.s3_ca_file, "/ca");
	step.options.timeout_ms = 60000;
	step.options.restart_wait_s = 0;
	proxy_start(loop, &step, take, NULL);
	ok(proxy_serves(), "and all are afterwards");
	open_lines();
	test_together();
	test_lost();
	test_keys();
	test_gone();
	test_process();
	json_decref(sent);
	return tap_done();
}
