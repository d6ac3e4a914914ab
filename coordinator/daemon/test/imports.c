/* SPDX-License-Identifier: Apache-2.0
 * gpuckptd and those who import images into its object store: who may, what is signed for them
 * meanwhile, what is journaled, and what of an import is left whose user, or gpuckptd, dies. */
#include "config.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/daemon/test/lab.h"
#include "test/support/tap.h"

#define HASH "0123456789abcdef0123456789abcdef"
#define STORE "s3://images/site"
#define MIB (1024L * 1024)

static int id, store_fd; /* the object store's socket: it refuses connections until listen() */
static char last_error[512];

/* ---- pieces -------------------------------------------------------------------------------- */

static unsigned open_store(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof a;

	store_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (store_fd < 0 || bind(store_fd, (struct sockaddr *)&a, size) ||
	    getsockname(store_fd, (struct sockaddr *)&a, &size))
		printf("Bail out! no port for an object store\n");
	return ntohs(a.sin_port);
}

static void configure(void)
{
	unsigned port = open_store();
	char keys[64];
	FILE *f;

	snprintf(keys, sizeof keys, "%s/keys", lab_dir);
	f = fopen(keys, "w");
	if (!f || fputs("access=a\nsecret=b\n", f) < 0 || fclose(f) || chmod(keys, 0600))
		printf("Bail out! cannot write %s\n", keys);
	f = fopen(lab_conf, "a");
	if (!f || fprintf(f, "S3Store=" STORE "\nS3Endpoint=http://127.0.0.1:%u\nS3KeyFile=%s\n"
			  "Quota=100M\n", port, keys) < 0 || fclose(f))
		printf("Bail out! cannot write %s\n", lab_conf);
}

/* about: what it says when it is asked about a job that is to be imported. */
static void slurm(const char *about, int delay_ms)
{
	char text[512];

	snprintf(text, sizeof text, "{\"conf\":{\"cluster\":\"test\",\"slurm_user\":99999},"
		 "\"job\":{\"job\":7,\"uid\":%u,\"user\":\"me\",\"restarts\":0,\"submit\":100,"
		 "\"batch\":true,\"nodes\":2,\"runs\":true,\"ends_itself\":true},\"import\":%s,"
		 "\"nodes\":{\"leaving\":[],\"gone\":[]},\"delay\":%d}", (unsigned)geteuid(), about,
		 delay_ms);
	lab_slurm(text);
}

static void note(const json_t *answer)
{
	const char *error = json_string_value(json_object_get(answer, "error"));

	snprintf(last_error, sizeof last_error, "%s", error ? error : "");
}

/* The answer to what was said is good. */
static bool agrees(struct gck_wire *w)
{
	json_t *answer = lab_next(w);
	bool good = json_is_true(json_object_get(answer, "ok"));

	note(answer);
	json_decref(answer);
	return good;
}

static bool says(struct gck_wire *w, const char *op, int job, long seq, long stored,
		 const char *store, const char *directories)
{
	return lab_say(w,
		       "{'op':'%s','job':%d,'step':0,'seq':%ld,'ranks':2,'stored':%ld,'store':'%s',"
		       "'directories':%s,'fingerprint':{'program':'p'}}",
		       op, job, seq, stored, store, directories);
}

static bool asks(struct gck_wire *w, int job, long seq, long stored, const char *store,
		 const char *directories)
{
	return says(w, "import", job, seq, stored, store, directories);
}

static bool imports(struct gck_wire *w, int job, int seq)
{
	char directories[64];

	snprintf(directories, sizeof directories, "['%d-ab/','%d-cd/']", seq - 1, seq);
	return asks(w, job, seq, MIB, STORE, directories) && agrees(w);
}

static bool may(struct gck_wire *w, int job, int seq)
{
	char directories[64];

	snprintf(directories, sizeof directories, "['%d-ab/','%d-cd/']", seq - 1, seq);
	return says(w, "may_import", job, seq, MIB, STORE, directories) && agrees(w);
}

/* It is refused, before it begins and when it is to, and these words are among the reason. */
static bool refuses(struct gck_wire *w, int job, long seq, long stored, const char *store,
		    const char *directories, const char *words)
{
	static const char *const ops[] = { "may_import", "import" };
	bool good = true;

	for (int i = 0; i < 2 && good; i++)
		good = says(w, ops[i], job, seq, stored, store, directories) && !agrees(w) &&
		       strstr(last_error, words);
	if (!good)
		printf("# %s\n", *last_error ? last_error : "it is not refused");
	return good;
}

static bool ends(struct gck_wire *w, const char *hash)
{
	return lab_say(w, "{'op':'imported','hash':%s}", hash) && agrees(w);
}

/* Is a URL given? */
static bool gives(struct gck_wire *w, int job, const char *verb, const char *name)
{
	json_t *answer, *one;
	bool good;

	if (!lab_say(w,
		     "{'op':'sign','id':%d,'store':'" STORE "','cluster':'test','job':%d,'step':0,"
		     "'requests':[{'verb':'%s','name':'%s'}]}",
		     ++id, job, verb, name))
		return false;
	answer = lab_next(w);
	one = json_array_get(json_object_get(answer, "urls"), 0);
	note(one ? one : answer);
	good = json_is_string(one);
	json_decref(answer);
	return good;
}

/* The list's entry of a commit; 0: it is not there, 1: it is, 2: and is an imported one. */
static int listed(int job, int seq)
{
	struct gck_wire *w = lab_connect();
	json_t *answer = NULL, *commit, *steps;
	int found = 0;
	size_t i;

	if (lab_say(w, "{'op':'list','job':%d}", job))
		answer = lab_next(w);
	steps = json_object_get(json_object_get(answer, "data"), "steps");
	json_array_foreach(json_object_get(json_array_get(steps, 0), "commits"), i, commit)
		if (json_integer_value(json_object_get(commit, "seq")) == seq)
			found = json_is_true(json_object_get(commit, "imported")) ? 2 : 1;
	json_decref(answer);
	gck_wire_free(w);
	return found;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void test_refused(void)
{
	struct gck_wire *w = lab_connect();

	ok(refuses(w, 9, 3, 1, "file:/s", "['3-cd/']", "no object store"), "into files: %s",
	   last_error);
	ok(refuses(w, 9, 3, 1, "s3://other/site", "['3-cd/']", "S3Store"),
	   "into another bucket: %s", last_error);
	ok(refuses(w, 9, 0, 1, STORE, "['3-cd/']", "out of range"), "no commit: %s", last_error);
	ok(refuses(w, 9, 2147483648, 1, STORE, "['3-cd/']", "out of range"),
	   "nor one that leaves few numbers");
	ok(refuses(w, 9, 3, 1, STORE, "[]", "at least 1"), "no directory: %s", last_error);
	ok(refuses(w, 9, 3, 1, STORE, "['4-cd/']", "not a directory of checkpoint 3"),
	   "one of a later checkpoint: %s", last_error);
	ok(refuses(w, 9, 3, 1, STORE, "['']", "not a directory"), "the whole step: %s", last_error);
	ok(refuses(w, 9, 3, 1, STORE, "['../8/']", "not a directory"), "another's: %s", last_error);
	ok(refuses(w, 9, 3, 200 * MIB, STORE, "['3-cd/']", "200 MiB with this one"),
	   "more than Quota: %s", last_error);
	slurm("\"Slurm has a job 9\"", 0);
	ok(refuses(w, 9, 3, 1, STORE, "['3-cd/']", "Slurm has a job 9"), "a job that Slurm has: %s",
	   last_error);
	slurm("{\"user\":\"me\"}", 0);
	ok(!ends(w, "'" HASH "'") && strstr(last_error, "nothing is imported"),
	   "the end before it begins");
	ok(listed(9, 3) == 0 && !gives(w, 9, "put", "3-cd/" HASH), "nothing of it may be written");
	gck_wire_free(w);
}

static void test_asked(void)
{
	struct gck_wire *w = lab_connect();

	ok(may(w, 9, 3) && may(w, 9, 3), "it may be asked, and again, whether one may be (%s)",
	   last_error);
	ok(!gives(w, 9, "put", "3-cd/" HASH) && !ends(w, "'" HASH "'") &&
	   strstr(last_error, "nothing is imported"), "nothing has begun by that");
	lab_kill();
	ok(lab_up() && !gives(w = lab_connect(), 9, "delete", "3-cd/" HASH),
	   "nor is it in the journal (%s)", last_error);
	gck_wire_free(w);
}

static int as_other(void)
{
	struct gck_wire *w;

	if (!(w = lab_connect()))
		return 2;
	return gives(w, 9, "put", "3-cd/" HASH) || gives(w, 9, "put", "commit-3.json") ||
	       !refuses(w, 9, 4, 1, STORE, "['4-cd/']", "not yours");
}

static void test_good(void)
{
	struct gck_wire *w = lab_connect(), *other = lab_connect();

	ok(imports(w, 9, 3), "a job that is not known: it may be imported (%s)", last_error);
	ok(gives(other, 9, "put", "3-cd/" HASH) && gives(other, 9, "put", "3-cd/rank-0.json"),
	   "its directory may be written to, over any connection of the user's");
	ok(gives(w, 9, "put", "2-ab/" HASH),
	   "and that of a checkpoint before, which has objects of it");
	ok(gives(w, 9, "create_multipart", "3-cd/" HASH), "and in parts");
	ok(gives(w, 9, "put", "commit-3.json"), "and the commit");
	ok(!gives(w, 9, "put", "1-ab/" HASH) && strstr(last_error, "no part of the image"),
	   "another directory may not: %s", last_error);
	ok(!gives(w, 9, "put", "3-cde/" HASH) && !gives(w, 9, "put", "commit-2.json"),
	   "nor one of another name, nor another commit");
	ok(!gives(w, 9, "delete", "2-ab/" HASH) && strstr(last_error, "under way") &&
	   !gives(w, 9, "delete", "commit-3.json"), "nothing of it is removed: %s", last_error);
	ok_as_stranger(as_other, "another user gets no URL, nor may he import that job");
	ok(refuses(other, 9, 4, 1, STORE, "['4-cd/']", "is being imported"), "one at a time: %s",
	   last_error);
	ok(refuses(w, 8, 4, 1, STORE, "['4-cd/']", "one import at a time"),
	   "over a connection, too: %s", last_error);
	ok(listed(9, 3) == 0, "it does not count yet");
	ok(ends(w, "'" HASH "'"), "its commit is there");
	ok(listed(9, 3) == 2, "then it does");
	ok(!gives(w, 9, "put", "3-cd/" HASH) && !gives(w, 9, "put", "commit-3.json"),
	   "and is written to no more");
	ok(!gives(w, 9, "delete", "commit-3.json") && strstr(last_error, "counts"), "nor removed");
	ok(refuses(w, 9, 3, 1, STORE, "['3-cd/']", "has a commit 3 already"), "nor replaced: %s",
	   last_error);
	ok(refuses(w, 9, 4, 1, STORE "/b", "['4-cd/']", "one store"),
	   "nor is one beside it elsewhere: %s", last_error);
	ok(refuses(w, 9, 4, 100 * MIB, STORE, "['4-cd/']", "101 MiB"), "it counts for Quota: %s",
	   last_error);
	lab_kill();
	ok(lab_up() && listed(9, 3) == 2, "a coordinator that was started anew knows it");
	gck_wire_free(w);
	gck_wire_free(other);
}

/* The order that the answer to remove is. */
static bool forgets(struct gck_wire *w, int job, const char *removed, int kept, int busy,
		    int removals)
{
	json_t *answer = NULL, *data, *seqs;
	json_int_t b = 0, r = 0;
	char *text = NULL;
	bool good;

	if (lab_say(w, "{'op':'remove','job':%d,'step':0}", job))
		answer = lab_next(w);
	note(answer);
	data = json_object_get(answer, "data");
	seqs = json_object_get(data, "keep");
	text = json_dumps(json_object_get(data, "remove"), JSON_COMPACT);
	good = !json_unpack(data, "{s:I, s:I}", "busy", &b, "removals", &r) && b == busy &&
	       r == removals && json_array_size(seqs) == (size_t)kept && text &&
	       !strcmp(text, removed);
	if (!good)
		printf("# removed %s, busy %d, removals %d\n", text ? text : "nothing", (int)b,
		       (int)r);
	free(text);
	json_decref(answer);
	return good;
}

static bool says_swept(struct gck_wire *w, int job, int removals)
{
	return lab_say(w, "{'op':'swept','job':%d,'step':0,'removals':%d}", job, removals) &&
	       agrees(w);
}

/* Who asked for it may die before he has removed anything. */
static void test_removed(void)
{
	struct gck_wire *w = lab_connect();

	ok(forgets(w, 9, "[3]", 0, 4, 1), "what is forgotten is ordered to be removed (%s)",
	   last_error);
	ok(forgets(w, 9, "[]", 0, 4, 2), "and again, when nothing is left to forget (%s)",
	   last_error);
	ok(says_swept(w, 9, 2) && refuses(w, 9, 3, 1, STORE, "['3-cd/']", "still being removed"),
	   "that an object store has been swept is not believed its user (%s)", last_error);
	lab_kill();
	gck_wire_free(w);
	ok(lab_up() &&
		   refuses(w = lab_connect(), 9, 3, 1, STORE, "['3-cd/']", "still being removed"),
	   "the journal has that it is to be (%s)", last_error);
	gck_wire_free(w);
}

/* It ends without a commit: it is not there, may not be written to, and is to be swept. */
static void is_given_up(int job, const char *how)
{
	struct gck_wire *w = lab_connect();
	bool written = true;

	for (int i = 0; i < 600 && written; i++) {
		written = gives(w, job, "put", "3-cd/" HASH);
		usleep(written ? 100000 : 0);
	}
	ok(!written && listed(job, 3) == 0, "%s: it is given up (%s)", how, last_error);
	ok(gives(w, job, "delete", "3-cd/" HASH) && gives(w, job, "delete", "commit-3.json"),
	   "%s: what is there may be removed", how);
	ok(refuses(w, job, 3, 1, STORE, "['3-cd/']", "still being removed"),
	   "%s: it is not imported before that is swept (%s)", how, last_error);
	gck_wire_free(w);
}

static void test_given_up(void)
{
	struct gck_wire *w = lab_connect();

	ok(imports(w, 10, 3), "an import");
	gck_wire_free(w);
	is_given_up(10, "its process dies");
	w = lab_connect();
	ok(imports(w, 11, 3) && ends(w, "null"), "another, which its process ends");
	is_given_up(11, "told to end");
	ok(imports(w, 12, 3), "another over the same connection");
	lab_kill();
	ok(lab_up(), "gpuckptd dies");
	is_given_up(12, "gpuckptd was started anew");
	gck_wire_free(w);
	w = lab_connect();
	ok(imports(w, 13, 3) && !ends(w, "'nonsense'"), "a commit without a hash is none");
	is_given_up(13, "no hash");
	lab_kill();
	ok(lab_up(), "gpuckptd dies again");
	is_given_up(10, "that is not forgotten");
	slurm("{\"user\":\"me\"}", 500);
	gck_wire_free(w);
	w = lab_connect();
	asks(w, 14, 3, 1, STORE, "['3-cd/']");
	gck_wire_free(w);
	usleep(2000000); /* until Slurm has answered */
	slurm("{\"user\":\"me\"}", 0);
	w = lab_connect();
	ok(imports(w, 14, 3), "who dies while Slurm is asked leaves nothing (%s)", last_error);
	gck_wire_free(w);
}

/* An object store that has nothing: each request gets the list of that. */
static void serve_nothing(void)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
	char request[16384];

	for (;;) {
		size_t n = 0;
		ssize_t got = 1;
		int fd = accept(store_fd, NULL, NULL);

		while (fd >= 0 && got > 0 && n < sizeof request &&
		       !memmem(request, n, "\r\n\r\n", 4)) {
			got = read(fd, request + n, sizeof request - n);
			n += got > 0 ? (size_t)got : 0;
		}
		if (fd >= 0 && dprintf(fd, "%s<%s/>", head, memmem(request, n, "list-type=", 10) ?
				       "ListBucketResult" : "ListMultipartUploadsResult") < 0)
			perror("# write");
		close(fd);
	}
}

/* What was forgotten, and what was given up before it put anything. */
static void test_swept(void)
{
	struct gck_wire *w;
	bool good = false;
	pid_t pid;

	lab_kill(); /* and with it who tries to reach the store */
	if (listen(store_fd, 8))
		printf("Bail out! cannot listen\n");
	pid = fork();
	if (pid == 0)
		serve_nothing();
	ok(lab_up(), "the object store is up, and has nothing");
	w = lab_connect();
	for (int i = 0; i < 600 && !good; i++) {
		good = may(w, 9, 3) && may(w, 11, 3);
		usleep(good ? 0 : 100000);
	}
	ok(good, "where nothing is left in it, what was removed may be imported (%s)", last_error);
	gck_wire_free(w);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Another user's import, while this one, root, asks. */
static int as_importer(int told, int asked)
{
	struct gck_wire *w;
	char byte = 'x';

	if (setgid(LAB_STRANGER) || setuid(LAB_STRANGER) || !(w = lab_connect()) ||
	    !imports(w, 15, 3))
		return 2;
	return write(told, &byte, 1) != 1 || read(asked, &byte, 1) != 0 ||
	       !gives(w, 15, "put", "3-cd/" HASH);
}

static void test_root(void)
{
	int told[2], asked[2], status = -1;
	struct gck_wire *w = lab_connect();
	char byte = 0;
	pid_t pid;

	if (geteuid() || pipe(told) || pipe(asked)) {
		skip("another user's import", "this is not root");
		return;
	}
	pid = fork();
	if (pid == 0) {
		close(asked[1]);
		_exit(as_importer(told[1], asked[0]));
	}
	close(told[1]);
	ok(read(told[0], &byte, 1) == 1, "another user imports");
	ok(gives(w, 15, "list", "") && !gives(w, 15, "put", "3-cd/" HASH) &&
		   strstr(last_error, "only the owner"),
	   "root may see it, and put nothing: %s", last_error);
	close(asked[1]);
	waitpid(pid, &status, 0);
	ok(status == 0, "who imports may");
	gck_wire_free(w);
}

/* A job that runs: its own steps are not written to by others than its agents. It has its store in
 * files. */
static void test_live(void)
{
	struct gck_wire *agent[2], *w = lab_connect();

	for (int i = 0; i < 2; i++) {
		agent[i] = lab_agent(i, "running", 0, 0, i ? "null" : "[]");
		lab_hear(agent[i], "welcome", 0);
	}
	ok(refuses(w, 7, 3, 1, STORE, "['3-cd/']", "step 7.0 runs"), "a step that runs: %s",
	   last_error);
	ok(forgets(w, 7, "[]", 0, 1, 1), "what its store still has may be removed (%s)",
	   last_error);
	for (int i = 0; i < 2; i++) {
		lab_say(agent[i], "{'op':'exit','rank':%d,'status':0}", i);
		lab_say(agent[i], "{'op':'bye'}");
	}
	for (int i = 0; i < 600 && refuses(w, 7, 3, 1, STORE, "['3-cd/']", "step 7.0 runs"); i++)
		usleep(100000);
	ok(refuses(w, 7, 3, 1, STORE, "['3-cd/']", "still being removed"), "it has ended: %s",
	   last_error);
	ok(says_swept(w, 7, 0) && refuses(w, 7, 3, 1, STORE, "['3-cd/']", "still being removed"),
	   "a word about a removal before is none about this one");
	ok(says_swept(w, 7, 1) && refuses(w, 7, 3, 1, STORE, "['3-cd/']", "has store=file:/s"),
	   "its user's word is taken (%s)", last_error);
	for (int i = 0; i < 2; i++)
		gck_wire_free(agent[i]);
	gck_wire_free(w);
}

int main(void)
{
	if (!lab_begin())
		return 0;
	configure();
	slurm("{\"user\":\"me\"}", 0);
	ok(lab_up(), "gpuckptd starts");
	test_refused();
	test_asked();
	test_good();
	test_removed();
	test_given_up();
	test_swept();
	test_root();
	test_live();
	lab_end();
	return tap_done();
}
