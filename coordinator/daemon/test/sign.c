/* SPDX-License-Identifier: Apache-2.0
 * gpuckptd with an object store: whose key file it takes, and for whom it signs what, and that the
 * secret stays with it. */
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
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
#define SECRET "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define ACCESS "AKIAIOSFODNN7EXAMPLE"
#define NONE "{}"

static char keys[64];
static struct gck_wire *agent[2], *client;
static char nonce[40];   /* of the checkpoint under way */
static bool leaked;      /* the secret was in an answer */
static char last_url[4096], last_error[512];
static int id;

/* ---- pieces -------------------------------------------------------------------------------- */

static void write_keys(const char *text, mode_t mode)
{
	FILE *f = fopen(keys, "w");

	if (!f || fputs(text, f) < 0 || fclose(f) || chmod(keys, mode))
		printf("Bail out! cannot write %s\n", keys);
}

static void configure(void)
{
	FILE *f = fopen(lab_conf, "a");

	snprintf(keys, sizeof keys, "%s/keys", lab_dir);
	if (!f ||
	    fprintf(f,
		    "S3Store=s3://images/site\nS3Endpoint=http://127.0.0.1:1\nS3Region=here\n"
		    "S3KeyFile=%s\n",
		    keys) < 0 ||
	    fclose(f))
		printf("Bail out! cannot write %s\n", lab_conf);
}

/* Job 7 is this user's, in Slurm's word; owner: whose the others are. */
static void slurm(unsigned job, unsigned owner)
{
	char text[512];

	snprintf(text, sizeof text, "{\"conf\":{\"cluster\":\"test\",\"slurm_user\":99999},"
		 "\"job\":{\"job\":%u,\"uid\":%u,\"user\":\"me\",\"restarts\":0,\"submit\":100,"
		 "\"batch\":true,\"nodes\":2,\"runs\":true,\"ends_itself\":true},"
		 "\"nodes\":{\"leaving\":[],\"gone\":[]}}", job, owner);
	lab_slurm(text);
}

static void note(const json_t *answer)
{
	const json_t *one = json_array_get(json_object_get(answer, "urls"), 0);
	const json_t *from = json_is_object(one) ? one : answer;
	const char *error = json_string_value(json_object_get(from, "error"));
	char *text = json_dumps(answer, JSON_COMPACT);

	leaked |= text && strstr(text, SECRET);
	free(text);
	snprintf(last_url, sizeof last_url, "%s", json_string_value(one) ?: "");
	snprintf(last_error, sizeof last_error, "%s", error ? error : "");
}

/* Is a URL given for one request? {...}: the rest of "sign", and of the request. */
static bool gives(struct gck_wire *w, const char *place, const char *verb, const char *name)
{
	json_t *answer;
	bool good;

	if (!lab_say(w, "{'op':'sign','id':%d,%s,'requests':[{'verb':'%s','name':'%s'}]}", ++id,
		     place, verb, name))
		return false;
	answer = lab_next(w);
	good = answer && json_integer_value(json_object_get(answer, "id")) == id &&
	       !strcmp(json_string_value(json_object_get(answer, "op")), "signed");
	if (!good)
		printf("# no answer to %s %s\n", verb, name);
	note(answer);
	json_decref(answer);
	return good && *last_url;
}

#define AT(store, cluster, job) "'store':'" store "','cluster':'" cluster "','job':" job ",'step':0"
#define OURS AT("s3://images/site", "test", "7")

static bool refuses(struct gck_wire *w, const char *verb, const char *name, const char *words)
{
	bool given = gives(w, OURS, verb, name);

	if (given || !strstr(last_error, words))
		printf("# %s\n", given ? last_url : last_error);
	return !given && strstr(last_error, words);
}

static const char *in_dir(const char *name)
{
	static char text[4][160];
	static unsigned n;

	snprintf(text[n % 4], sizeof text[0], "1-%s/%s", nonce, name);
	return text[n++ % 4];
}

static void join(void)
{
	for (int i = 0; i < 2; i++) {
		agent[i] = lab_agent(i, "running", 0, 0, i ? "null" : "[]");
		lab_hear(agent[i], "welcome", 0);
	}
}

/* ---- tests --------------------------------------------------------------------------------- */

static void bad_keys(const char *text, mode_t mode, const char *words, const char *what)
{
	const char *const args[] = {"-D", "-f", lab_conf, NULL};
	char out[4096];

	write_keys(text, mode);
	ok(all_of(lab_run(out, sizeof out, args) == 1, strstr(out, words), strstr(out, keys),
		  !strstr(out, SECRET)), "%s: it does not start, and says why", what);
	if (!strstr(out, words))
		printf("# %s", out);
}

static void test_keys(void)
{
	bad_keys(ACCESS "\n" SECRET "\n", 0644, "others than its owner may use it",
		 "keys that all may read");
	bad_keys(ACCESS "\n" SECRET "\n", 0620, "others than its owner", "that a group may write");
	bad_keys(ACCESS "\n", 0600, "no secret=", "without a secret");
	bad_keys(ACCESS "\n" SECRET " x\n", 0600, "line 2", "with a space");
	bad_keys("access=" ACCESS "\nsecret=" SECRET "\naccess=b\n", 0600, "line 3", "twice");
	unlink(keys);
	symlink("/nonexistent", keys);
	{
		const char *const args[] = {"-D", "-f", lab_conf, NULL};
		char out[4096];

		ok(all_of(lab_run(out, sizeof out, args) == 1, strstr(out, "cannot be opened")),
		   "no file: it does not start");
	}
	unlink(keys);
	write_keys("# ours\nsecret=" SECRET "\r\naccess=" ACCESS "\r\n", 0600);
	ok(lab_up(), "it starts with a file that is its own");
}

/* What was given is of this user's job 7. */
static bool is_below(uid_t uid)
{
	char list[64], other[64];

	snprintf(list, sizeof list, "prefix=site%%2Ftest%%2F%u%%2F7%%2F0%%2F", (unsigned)uid);
	snprintf(other, sizeof other, "/images/site/test/%u/7/0/", (unsigned)uid);
	return strstr(last_url, list) || strstr(last_url, other);
}

static void test_before(void)
{
	client = lab_connect();
	ok(gives(client, OURS, "list", ""), "a job that is not known here: who asks may list");
	ok(all_of(!strncmp(last_url, "http://127.0.0.1:1/images?", 26), is_below(geteuid()),
		  strstr(last_url, ACCESS), strstr(last_url, "X-Amz-Expires=600")),
	   "below his own place: %s", last_url);
	ok(gives(client, OURS, "get", "commit-1.json"), "and read");
	ok(refuses(client, "delete", "commit-1.json", "not known"), "and not remove");
	ok(refuses(client, "put", "1-ab/" HASH, "only the agents"), "and not write");
}

/* Somebody else asks, for a job that is not known: the owner's uid is in the key, and he is
 * none. */
static int as_early_other(void)
{
	struct gck_wire *w;

	if (!(w = lab_connect()))
		return 2;
	return !gives(w, OURS, "get", "commit-1.json") || !is_below(LAB_STRANGER) ||
	       !gives(w, OURS, "list", "") || !is_below(LAB_STRANGER);
}

/* Somebody else asks: what he may have. */
static int as_other(void)
{
	struct gck_wire *w;

	if (!(w = lab_connect()))
		return 2;
	if (gives(w, OURS, "list", "") || !strstr(last_error, "no job 7 of yours") ||
	    gives(w, OURS, "get", "commit-1.json") || gives(w, OURS, "delete", "commit-1.json"))
		return 1;
	return 0;
}


static void test_places(void)
{
	static const struct { const char *place, *words; } bad[] = {
		{ AT("s3://images", "test", "7"), "S3Store" },
		{ AT("s3://images/sites", "test", "7"), "S3Store" },
		{ AT("s3://other/site", "test", "7"), "S3Store" },
		{ AT("s3://images/site/../other", "test", "7"), "between single slashes" },
		{ AT("s3://images/site/", "test", "7"), "between single slashes" },
		{ AT("file:/x", "test", "7"), "must be s3://" },
		{ AT("s3://images/site", "other", "7"), "this is cluster test" },
		{ AT("s3://images/site", "../test", "7"), "this is cluster test" },
		{ AT("s3://images/site", "", "7"), "this is cluster test" },
		{ AT("s3://images/site", "test", "-7"), "out of range" },
		{ AT("s3://images/site", "test", "4294967303"), "out of range" },
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(all_of(!gives(client, bad[i].place, "list", ""),
			  strstr(last_error, bad[i].words)), "%s", last_error);
	ok(gives(client, AT("s3://images/site/mine", "test", "7"), "list", ""),
	   "a prefix below S3Store is signed");
}

static void test_names(void)
{
	static const char *const bad[] = {
		"",
		"/",
		"..",
		"../8/0/commit-1.json",
		"1-ab/../../8/commit-1.json",
		"commit-1.json/",
		"commit-01.json",
		"1-ab/" HASH "/x",
		"1-a.b/" HASH,
		"1-ab//" HASH,
		"1-ab/tmp-x",
		"commit-1.json?acl",
		"1-ab/rank-1.json\\n",
		"x",
		"1-ab/",
		"4294967296-a/" HASH,
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		ok(all_of(!gives(client, OURS, "get", bad[i]), strstr(last_error, "not a name")),
		   "\"%s\" is not signed", bad[i]);
	ok(!gives(client, OURS, "list", "../"), "nor is a list of ../");
	ok(!gives(client, OURS, "acl", "commit-1.json"), "nor an unknown verb");
}

static void test_idle(void)
{
	join();
	ok(gives(agent[0], OURS, "list", ""), "an agent's list");
	ok(refuses(agent[0], "put", "1-ab/" HASH, "no checkpoint is under way"),
	   "an agent writes nothing while no checkpoint is under way");
	ok(refuses(agent[0], "delete", "1-ab/" HASH, "not over"),
	   "nor does it remove what may come");
}

static void take_nonce(struct gck_wire *w)
{
	json_t *body = lab_next(w);

	snprintf(nonce, sizeof nonce, "%s",
		 json_string_value(json_object_get(body, "nonce")) ?: "");
	json_decref(body);
}

static void both(const char *phase, const char *data)
{
	for (int i = 0; i < 2; i++) {
		if (strcmp(phase, "prepare"))
			lab_hear(agent[i], phase, 1);
		lab_done(agent[i], phase, 1, data);
	}
}

static void test_checkpoint(void)
{
	struct gck_wire *reader = client;

	client = lab_connect();
	lab_say(client, "{'op':'create','job':7,'wait':false}");
	take_nonce(agent[0]);
	lab_hear(agent[1], "prepare", 1);
	ok(gives(agent[0], OURS, "put", in_dir(HASH)), "from prepare on an object is signed");
	ok(gives(agent[1], OURS, "put", in_dir("rank-1.json")), "and a manifest");
	ok(gives(agent[1], OURS, "create_multipart", in_dir(HASH)), "and what is in parts");
	ok(refuses(reader, "put", in_dir(HASH), "only the agents"), "for agents alone");
	ok(refuses(agent[0], "put", "1-0123/" HASH, "not in the directory"),
	   "of another nonce not");
	ok(refuses(agent[0], "put", "2-ab/" HASH, "not in the directory"), "of another number not");
	ok(!gives(agent[0], AT("s3://images/site", "test", "8"), "put", in_dir(HASH)),
	   "nor in another job");
	ok(refuses(agent[0], "put", "commit-1.json", "not told to commit"),
	   "a commit is not, before it is told");
	ok(refuses(agent[0], "delete", in_dir(HASH), "not over"), "nothing of it is removed");
	gck_wire_free(reader);
}

static void test_commit(void)
{
	both("prepare", NONE);
	both("freeze", NONE);
	both("resume", NONE);
	for (int i = 0; i < 2; i++) {
		lab_hear(agent[i], "write", 1);
		lab_say(agent[i],
			"{'op':'done','phase':'write','seq':1,'ok':true,"
			"'data':{'ranks':[{'rank':%d,'manifest':'"
			HASH "'}],'put':1,'stored':1,'seconds':0.1}}",
			i);
	}
	lab_hear(agent[0], "commit", 1);
	ok(gives(agent[0], OURS, "put", "commit-1.json"), "the agent that is told to commit may");
	ok(refuses(agent[1], "put", "commit-1.json", "not told"), "the other may not");
	ok(refuses(agent[0], "put", "commit-2.json", "not told"), "nor may it another");
	lab_done(agent[0], "commit", 1, "{'hash':'" HASH "'}");
	lab_hear(agent[0], "committed", 1);
	lab_hear(agent[1], "committed", 1);
	ok(refuses(agent[0], "put", "commit-1.json", "no checkpoint is under way"),
	   "and not again when it counts");
	ok(refuses(agent[0], "put", in_dir(HASH), "no checkpoint is under way"),
	   "nor objects of it");
	ok(all_of(refuses(agent[0], "delete", in_dir(HASH), "counts"),
		  refuses(agent[0], "delete", "commit-1.json", "counts")),
	   "what counts is not removed");
	ok(gives(agent[0], OURS, "get", in_dir(HASH)), "it is read");
}

static void test_aborted(void)
{
	lab_say(client, "{'op':'create','job':7,'wait':false}");
	take_nonce(agent[0]);
	lab_hear(agent[1], "prepare", 2);
	lab_say(agent[1], "{'op':'done','phase':'prepare','seq':2,'ok':false,'error':'no'}");
	lab_hear(agent[0], "abort", 2);
	ok(!gives(agent[0], OURS, "put", "2-ab/" HASH),
	   "of an aborted checkpoint nothing is written");
	ok(gives(agent[0], OURS, "delete", "2-ab/" HASH), "and what it wrote is removed");
	ok(gives(agent[0], OURS, "abort_multipart", "2-ab/" HASH) || strstr(last_error, "upload"),
	   "its uploads too");
}

/* New keys count from the next request on; a file that is not good changes nothing. */
static void test_renewed(void)
{
	write_keys("access=OTHER\nsecret=" SECRET "\ntoken=TOKEN\n", 0600);
	ok(all_of(gives(agent[0], OURS, "get", "commit-1.json"), strstr(last_url, "OTHER%2F"),
		  strstr(last_url, "TOKEN")), "new keys are used, without a new start");
	write_keys("nothing\n", 0600);
	ok(all_of(gives(agent[0], OURS, "get", "commit-1.json"), strstr(last_url, "OTHER%2F")),
	   "a file that became bad leaves them");
}

static void test_refused_store(void)
{
	json_t *body;
	struct gck_wire *w = lab_connect();

	lab_say(w, "{'op':'register','job':7,'step':1,'node':'n0','node_id':0,'nodes':1,'ntasks':1,"
		"'restarts':0,'options':'','store':'s3://other/site','fingerprint':{},'commits':[],"
		"'state':'new','local_ranks':[],'seq':0}");
	body = lab_next(w);
	ok(all_of(!strcmp(json_string_value(json_object_get(body, "action")) ?: "", "refuse"),
		  strstr(json_string_value(json_object_get(body, "why")) ?: "",
			 "s3://images/site")),
	   "a step with another store= is refused, and told which one there is");
	json_decref(body);
	gck_wire_free(w);
}

/* Slurm gives the number to a job of somebody else. */
static int as_successor(void)
{
	struct gck_wire *w;

	w = lab_agent(0, "new", 0, 0, "[]");
	if (!w || !lab_hear(w, "welcome", 0))
		return 2;
	return !gives(w, OURS, "get", "commit-1.json") || !is_below(LAB_STRANGER);
}

static void test_successor(void)
{
	slurm(7, LAB_STRANGER);
	ok_as_stranger(as_successor, "who gets the number of a job gets no URL of what that left");
}

#define OTHERS AT("s3://images/site", "test", "9")

/* Keys as systemd hands them over, in place of S3KeyFile. */
static void test_credential(void)
{
	static const char text[] = "access=CREDENTIAL\nsecret=" SECRET "\n";
	const char *const args[] = {"-D", "-f", lab_conf, NULL};
	char out[4096];

	lab_kill();
	lab_credential("S3KeyFile", "gpuckpt-s4", text, 0400);
	ok(all_of(lab_run(out, sizeof out, args) == 1,
		  strstr(out, "set S3KeyFile, or give the systemd credential gpuckpt-s3")),
	   "without keys and without the credential it does not start: %s", out);
	lab_credential("S3KeyFile", "gpuckpt-s3", text, 0444);
	ok(all_of(lab_run(out, sizeof out, args) == 1, strstr(out, "/credentials/gpuckpt-s3"),
		  strstr(out, "others than its owner may use it")),
	   "nor with one that all may read: %s", out);
	lab_credential("S3KeyFile", "gpuckpt-s3", text, 0440); /* as an ACL for its user looks */
	ok(lab_up(), "it starts with one that is its own");
	client = lab_connect();
	ok(all_of(gives(client, OTHERS, "list", ""), strstr(last_url, "CREDENTIAL%2F")),
	   "and signs with it");
}

/* An object store that does not answer. */
static int silent_server(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t size = sizeof a;
	char command[160];

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) || listen(fd, 1) ||
	    getsockname(fd, (struct sockaddr *)&a, &size))
		printf("Bail out! no socket\n");
	snprintf(command, sizeof command, "sed -i s,127.0.0.1:1$,127.0.0.1:%u, %s",
		 (unsigned)ntohs(a.sin_port), lab_conf);
	if (system(command))
		printf("Bail out! cannot write %s\n", lab_conf);
	return fd;
}

/* The child process that looks whether the store works has the keys. */
static void test_memory(void)
{
	int server, probe;

	if (geteuid()) {
		skip("memory with keys", "this is not root");
		return;
	}
	server = silent_server();
	lab_kill();
	lab_group = LAB_STRANGER;
	ok(lab_up(), "it starts, and looks whether its store works");
	probe = accept(server, NULL, NULL);
	ok(!lab_is_open(), "no other process of its user may read its memory");
	ok(probe >= 0 && !lab_child_is_open(), "or that of the process that looks");
	close(probe);
	close(server);
}

int main(void)
{
	if (!lab_begin())
		return 0;
	configure();
	slurm(7, geteuid());
	test_keys();
	test_before();
	ok_as_stranger(as_early_other, "another user gets URLs of his own place only");
	test_places();
	test_names();
	test_idle();
	ok_as_stranger(as_other, "another user gets no URL of the job, by the coordinator's own");
	test_checkpoint();
	test_commit();
	test_aborted();
	test_renewed();
	test_refused_store();
	test_successor();
	test_credential();
	test_memory();
	ok(all_of(!leaked, !lab_in_file("log", SECRET), !lab_in_file("state/journal", SECRET)),
	   "the secret is in no answer, no log, no journal");
	ok(!lab_in_file("log", "X-Amz-Signature"), "nor is a URL in the log");
	lab_end();
	return tap_done();
}
