/* SPDX-License-Identifier: Apache-2.0
 * gpuckptd with keys for encrypted images: which files it takes, who gets a job's key unwrapped,
 * that the key stays the same over restarts of gpuckptd and another wrapping key, and where no key
 * is seen. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "coordinator/daemon/test/lab.h"
#include "test/support/tap.h"

#define FIRST "0123456789abcdef0123456789abcdef0123456789abcdef0123456789ABCDEF"
#define SECOND "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static char keys[64], wrapped[512], data[128], error[512];
static struct gck_wire *agent[2];
static int id;

/* ---- pieces -------------------------------------------------------------------------------- */

static void write_file(const char *path, const char *text, mode_t mode)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f) || chmod(path, mode))
		printf("Bail out! cannot write %s\n", path);
}

/* As editors and configuration management do: another file takes the name. */
static void write_keys(const char *text, mode_t mode)
{
	char path[80];

	snprintf(path, sizeof path, "%s.new", keys);
	write_file(path, text, mode);
	if (rename(path, keys))
		printf("Bail out! cannot rename %s\n", path);
}

static void configure(void)
{
	FILE *f = fopen(lab_conf, "a");

	snprintf(keys, sizeof keys, "%s/keys", lab_dir);
	if (!f || fprintf(f, "EncryptionKeyFile=%s\n", keys) < 0 || fclose(f))
		printf("Bail out! cannot write %s\n", lab_conf);
	lab_slurm("{\"conf\":{\"cluster\":\"test\",\"slurm_user\":99999},\"job\":{\"job\":7,"
		  "\"uid\":0,\"user\":\"me\",\"restarts\":0,\"submit\":100,\"batch\":true,"
		  "\"nodes\":2,\"runs\":true,\"ends_itself\":true},\"nodes\":{\"leaving\":[],"
		  "\"gone\":[]}}");
}

static void bad_keys(const char *text, mode_t mode, const char *words, const char *what)
{
	const char *const args[] = {"-D", "-f", lab_conf, NULL};
	char out[4096];

	write_keys(text, mode);
	ok(all_of(lab_run(out, sizeof out, args) == 1, strstr(out, words), strstr(out, keys),
		  !strcasestr(out, "0123456789abcdef")), "%s: it does not start, and says why",
	   what);
	if (!strstr(out, words))
		printf("# %s", out);
}

/* Ask for a key: `data` or `error`. */
static bool unwraps(struct gck_wire *w, const char *key)
{
	json_t *answer;
	const char *text;

	*data = *error = '\0';
	if (!lab_say(w, "{'op':'unwrap','id':%d,'key':'%s'}", ++id, key))
		return false;
	answer = lab_next(w);
	if (!answer || json_integer_value(json_object_get(answer, "id")) != id ||
	    strcmp(json_string_value(json_object_get(answer, "op")), "unwrapped"))
		printf("# no answer to unwrap\n");
	text = json_string_value(json_object_get(answer, "data"));
	snprintf(data, sizeof data, "%s", text ? text : "");
	text = json_string_value(json_object_get(answer, "error"));
	snprintf(error, sizeof error, "%s", text ? text : "");
	json_decref(answer);
	return *data;
}

/* The key that comes with prepare. */
static void take_wrapped(struct gck_wire *w)
{
	json_t *body = lab_next(w);
	const char *key = json_string_value(json_object_get(body, "key"));

	snprintf(wrapped, sizeof wrapped, "%s", key ? key : "");
	json_decref(body);
}

static void join(void)
{
	for (int i = 0; i < 2; i++) {
		agent[i] = lab_agent(i, "running", 0, 0, i ? "null" : "[]");
		lab_hear(agent[i], "welcome", 0);
	}
}

static void leave(void)
{
	for (int i = 0; i < 2; i++)
		gck_wire_free(agent[i]);
}

/* Begin a checkpoint, take the key, let it fail. */
static void checkpoint(unsigned seq)
{
	struct gck_wire *client = lab_connect();

	lab_say(client, "{'op':'create','job':7,'wait':false}");
	take_wrapped(agent[0]);
	lab_hear(agent[1], "prepare", seq);
	for (int i = 0; i < 2; i++)
		lab_say(agent[i],
			"{'op':'done','phase':'prepare','seq':%u,'ok':false,'error':'no'}", seq);
	for (int i = 0; i < 2; i++) {
		lab_hear(agent[i], "abort", seq);
		lab_done(agent[i], "abort", seq, "{}");
	}
	gck_wire_free(client);
}

/* What `gpuckpt able` is told, with agents that have nothing against it. */
static bool is_able(void)
{
	struct gck_wire *client = lab_connect();
	json_t *answer, *step;
	bool able;

	lab_say(client, "{'op':'able','job':7}");
	for (int i = 0; i < 2; i++) {
		json_t *question = lab_next(agent[i]);

		lab_say(agent[i], "{'op':'able','id':%lld,'items':[]}",
			(long long)json_integer_value(json_object_get(question, "id")));
		json_decref(question);
	}
	answer = lab_next(client);
	step = json_array_get(json_object_get(json_object_get(answer, "data"), "steps"), 0);
	able = json_is_true(json_object_get(step, "able"));
	json_decref(answer);
	gck_wire_free(client);
	return able;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void test_files(void)
{
	bad_keys(FIRST "\n", 0644, "others than its owner may use it", "keys that all may read");
	bad_keys(FIRST "\n", 0660, "others than its owner may use it", "that a group may");
	bad_keys("# none\n", 0600, "it has no key", "no key");
	bad_keys("", 0600, "it has no key", "an empty file");
	bad_keys(FIRST "\n" SECOND "0\n", 0600, "line 2 is not a key", "a key that is too long");
	bad_keys(FIRST "\n0123\n", 0600, "line 2 is not a key", "one that is too short");
	bad_keys("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdeg\n", 0600,
		 "line 1 is not a key", "one with another letter");
	unlink(keys);
	{
		const char *const args[] = {"-D", "-f", lab_conf, NULL};
		char out[4096];

		ok(all_of(lab_run(out, sizeof out, args) == 1, strstr(out, "cannot be opened")),
		   "no file: it does not start");
	}
	write_keys("# ours\r\n" FIRST "\r\n\n", 0600);
	lab_group = LAB_STRANGER;
	ok(lab_up(), "it starts with a file that is its own");
	ok(!lab_is_open(), "no other process of its user may read its memory then");
}

/* Somebody else, who has seen what lies in the store. */
static int as_stranger(void)
{
	struct gck_wire *w;

	w = lab_connect();
	return !w || unwraps(w, wrapped) || !strstr(error, "is for user 0 alone");
}

static void test_who(void)
{
	char other[512], *at;

	checkpoint(1);
	ok(all_of(!strncmp(wrapped, "1:", 2), strstr(wrapped, ":0:7:")),
	   "prepare has a wrapped key: %s", wrapped);
	ok(all_of(unwraps(agent[0], wrapped), strlen(data) == 64), "its owner's agent gets it");
	ok_as_stranger(as_stranger, "another user does not");
	/* An owner that was written over, root's rights or not. */
	strcpy(other, wrapped);
	at = strstr(other, ":0:7:");
	at[1] = '1';
	ok(all_of(!unwraps(agent[0], other), strstr(error, "is for user 1 alone")), "%s", error);
	strcpy(other, wrapped);
	strstr(other, ":0:7:")[3] = '8';
	ok(all_of(!unwraps(agent[0], other), strstr(error, "does not decrypt")), "%s", error);
	strcpy(other, wrapped);
	at = other + strlen(other) - 1;
	*at = *at == '0' ? '1' : '0';
	ok(all_of(!unwraps(agent[0], other), strstr(error, "does not decrypt")), "%s", error);
	strcpy(other, wrapped);
	other[2] = other[2] == '0' ? '1' : '0';
	ok(all_of(!unwraps(agent[0], other), strstr(error, "does not have (any more)")), "%s",
	   error);
	ok(all_of(!unwraps(agent[0], "1:x"), strstr(error, "not a wrapped key"),
		  !unwraps(agent[0], "")), "%s", error);
}

static void test_lasts(void)
{
	char before[128], text[512];

	ok(unwraps(agent[0], wrapped), "the key");
	strcpy(before, data);
	strcpy(text, wrapped);
	checkpoint(2);
	is_str(wrapped, text, "is that of the next checkpoint");
	leave();
	lab_term();
	ok(lab_up(), "gpuckptd is started anew");
	join();
	checkpoint(3);
	is_str(wrapped, text, "and knows it");
	write_keys(SECOND "\n" FIRST "\n", 0600);
	checkpoint(4);
	ok(all_of(strcmp(wrapped, text), unwraps(agent[0], wrapped), !strcmp(data, before)),
	   "another key wraps: the same one, wrapped anew");
	ok(all_of(unwraps(agent[0], text), !strcmp(data, before)),
	   "as it was wrapped before it is still read");
	write_keys(SECOND "\n", 0600);
	ok(all_of(!unwraps(agent[0], text), strstr(error, "does not have (any more)")),
	   "until the first wrapping key is gone");
	ok(unwraps(agent[0], wrapped), "and then by the second");
	chmod(keys, 0640);
	ok(all_of(unwraps(agent[0], wrapped),
		  lab_in_file("log", "others than its owner may use it (mode 640)")),
	   "a file that others may read is not read again, and the log says so");
	write_keys("nonsense\n", 0600);
	ok(all_of(unwraps(agent[0], wrapped), lab_in_file("log", "line 1 is not a key")),
	   "a file that is not good is not taken, and the log says so");
	write_keys(FIRST "\n", 0600);
	ok(all_of(is_able(), !lab_in_file("log", "gets a new key")),
	   "able neither makes a key nor says so");
	checkpoint(5);
	ok(all_of(unwraps(agent[0], wrapped), strcmp(data, before),
		  lab_in_file("log", "gets a new key")),
	   "without the key that wrapped it the job has a new one");
	strcpy(text, wrapped);
	write_file(keys, SECOND "\n" FIRST "\n", 0600);
	checkpoint(6);
	ok(all_of(strcmp(wrapped, text), unwraps(agent[0], wrapped)),
	   "a file that is written in place is noticed as well");
	ok(all_of(!lab_in_file("log", before), !lab_in_file("log", data),
		  !lab_in_file("state/journal", before), !lab_in_file("state/journal", data)),
	   "no key is in the log or the journal");
	ok(all_of(!lab_in_file("log", FIRST), !lab_in_file("log", SECOND),
		  !lab_in_file("state/journal", FIRST), !lab_in_file("state/journal", SECOND)),
	   "and none that wraps");
}

/* The keys as systemd hands them over, in place of EncryptionKeyFile. */
static void test_credential(void)
{
	char before[128];

	ok(unwraps(agent[0], wrapped), "the key");
	strcpy(before, data);
	leave();
	lab_kill();
	unlink(keys);
	lab_credential("EncryptionKeyFile", "gpuckpt-encryption", FIRST "\n", 0440);
	ok(lab_up(), "gpuckptd starts with a credential");
	join();
	ok(all_of(!unwraps(agent[0], wrapped), strstr(error, "/credentials/gpuckpt-encryption"),
		  strstr(error, "does not have (any more)")), "that has another key: %s", error);
	leave();
	lab_kill();
	lab_credential("EncryptionKeyFile", "gpuckpt-encryption", FIRST "\n" SECOND "\n", 0440);
	ok(lab_up(), "with one that has the key, too");
	join();
	ok(all_of(unwraps(agent[0], wrapped), !strcmp(data, before)), "it is unwrapped");
	checkpoint(7);
	ok(all_of(unwraps(agent[0], wrapped), !strcmp(data, before)), "and wrapped by the first");
}

int main(void)
{
	if (geteuid()) {
		printf("1..0 # SKIP this is not root\n");
		return 0;
	}
	if (!lab_begin())
		return 0;
	lab_options = "timeout=10s,hold=5s,interval=off,encrypt=yes";
	configure();
	test_files();
	join();
	test_who();
	test_lasts();
	test_credential();
	leave();
	lab_end();
	return tap_done();
}
