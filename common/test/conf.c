/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt.conf: every key; an error names file and line, and changes nothing. */
#include "common/base/conf.h"

#include <stdlib.h>
#include <unistd.h>

#include "test/support/tap.h"

static char path[] = "/tmp/gck-conf-XXXXXX";
static struct gck_error err;

static int load(struct gck_conf *c, const char *text, size_t n)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(text, 1, n, f) != n || fclose(f))
		abort();
	err = (struct gck_error){ 0 };
	return gck_conf_load(c, path, &err);
}

static void bad(const char *text, unsigned line, const char *want)
{
	struct gck_conf c, before;
	char place[80];

	gck_conf_init(&c);
	before = c;
	snprintf(place, sizeof place, "%s:%u: ", path, line);
	ok(all_of(load(&c, text, strlen(text)) == -1, strncmp(err.text, place, strlen(place)) == 0,
		  strstr(err.text, want), memcmp(&c, &before, sizeof c) == 0), "%s", err.text);
}

static void test_all(void)
{
	static const char text[] =
		"# a comment\n\n  ClusterName = Lab # another\ncoordinatorhost=ctl\r\n"
		"CoordinatorPort=7000\nListenAddress=10.0.0.1\nCoordinatorUser=slurm\nStateDir=/s\n"
		"MungeSocket=/m\nAgentPath=/a\nPreloadPath=/p\nAgentLog=/l/%j.%s.%n\nCutOff=run\n"
		"NodePoll=1\nRestartFailures=2\nRestartFailureTime=0\n"
		"KeepAge=30d\nQuota=2T\nMaxConnections=2\nMaxUserConnections=3\n"
		"MaxNewConnections=5\nMaxUserRate=4\n"
		"EncryptionKeyFile=/e\nS3Store=s3://images/site\nS3Endpoint=https://"
		"s3.site:8443\nS3Region=here\n"
		"S3Addressing=virtual\nS3KeyFile=/k\nS3CAFile=/ca\nS3Timeout=5\n"
		"DefaultStore=s3://images/site/all\n"
		"DefaultRestartWait=5m\nDEFAULTSKIPDONE=no\nDefaultEncrypt=yes\nDefaultInterval="
		"off";
	struct gck_conf c;

	gck_conf_init(&c);
	if (!ok(load(&c, text, strlen(text)) == 0, "every key"))
		printf("#   %s\n", err.text);
	is_str(c.cluster, "lab", "ClusterName, in lower case as in Slurm");
	is_str(c.host, "ctl", "a key in lower case, a line with CRLF");
	is_int(c.port, 7000, "CoordinatorPort");
	is_str(c.listen, "10.0.0.1", "ListenAddress");
	is_str(c.user, "slurm", "CoordinatorUser");
	is_str(c.state_dir, "/s", "StateDir");
	is_str(c.munge_socket, "/m", "MungeSocket");
	is_str(c.agent, "/a", "AgentPath");
	is_str(c.preload, "/p", "PreloadPath");
	is_str(c.agent_log, "/l/%j.%s.%n", "AgentLog");
	is_str(c.cut_off, "run", "CutOff");
	is_int(c.poll_s, 1, "NodePoll");
	is_int(c.restart_failures, 2, "RestartFailures");
	is_int(c.restart_failure_s, 0, "RestartFailureTime");
	is_int(c.keep_age_s, 30 * 86400, "KeepAge");
	ok(c.quota == UINT64_C(2) << 40, "Quota");
	is_int(c.max_connections, 2, "MaxConnections");
	is_int(c.user_connections, 3, "MaxUserConnections");
	is_int(c.new_connections, 5, "MaxNewConnections");
	is_int(c.user_rate, 4, "MaxUserRate");
	is_str(c.encryption_key_file, "/e", "EncryptionKeyFile");
	ok(c.defaults.encrypt, "DefaultEncrypt");
	is_str(c.s3_store, "s3://images/site", "S3Store");
	is_str(c.s3_endpoint, "https://s3.site:8443", "S3Endpoint");
	is_str(c.s3_region, "here", "S3Region");
	is_str(c.s3_addressing, "virtual", "S3Addressing");
	is_str(c.s3_key_file, "/k", "S3KeyFile");
	is_str(c.s3_ca_file, "/ca", "S3CAFile");
	is_int(c.s3_timeout_s, 5, "S3Timeout");
	is_str(c.defaults.store, "s3://images/site/all", "DefaultStore");
	is_int(c.defaults.restart_wait_s, 300, "DefaultRestartWait");
	ok(!c.defaults.skip_done, "DefaultSkipDone");
	is_int(c.defaults.interval_s, 0, "DefaultInterval, in a last line without a newline");
}

static void test_bad(void)
{
	struct gck_conf c;

	bad("NodePoll=3\nColor=red\n", 2, "unknown key Color");
	bad("CoordinatorPort=0\n", 1, "CoordinatorPort=0: must be a number from 1 to 65535");
	bad("\n\nCoordinatorPort=x\n", 3, "CoordinatorPort=x");
	bad("StateDir=var\n", 1, "StateDir=var: must be an absolute path");
	bad("PreloadPath=/a:/b\n", 1, "colon");
	bad("CudaPath=/a:/b\n", 1, "colon");
	bad("S3Store=file:/x\n", 1, "S3Store=file:/x: must be s3://bucket");
	bad("S3Store=s3://bucket/a/../b\n", 1, "between single slashes");
	bad("S3Endpoint=ftp://host\n", 1, "must be https://host");
	bad("S3Endpoint=https://host/bucket\n", 1, "without a path");
	bad("S3Endpoint=https://\n", 1, "without a path");
	bad("KeepAge=10ms\n", 1, "KeepAge=10ms: must be off, or a time of 1s or more");
	bad("KeepAge=old\n", 1, "KeepAge=old");
	bad("Quota=0\n", 1, "Quota=0: must be off, or a size");
	bad("Quota=much\n", 1, "Quota=much");
	bad("S3Addressing=dns\n", 1, "path or virtual");
	bad("CutOff=kill\n", 1, "stop or run");
	bad("S3KeyFile=keys\n", 1, "absolute path");
	bad("CoordinatorHost=a CoordinatorPort=5\n", 1, "one Key=Value a line");
	bad("CoordinatorHost\n", 1, "write Key=Value");
	bad("NodePoll=1\nnodepoll=2\n", 2, "NodePoll was already given in line 1");
	bad("DefaultKeep=1\nDefaultKeep=2\n", 2, "already given in line 1");
	bad("DefaultKeep=0\n", 1, "DefaultKeep: keep=0");
	bad("DefaultColor=1\n", 1, "unknown key DefaultColor");
	bad("Default=1\n", 1, "unknown key Default");
	bad("DefaultRestart-Wait=1\n", 1, "unknown key");
	gck_conf_init(&c);
	ok(all_of(load(&c, "NodePoll=1\0\n", 12) == -1, strstr(err.text, "NUL")), "%s", err.text);
	ok(all_of(gck_conf_load(&c, "/nonexistent/gpuckpt.conf", &err) == -1, err.code == ENOENT,
		  strstr(err.text, "/nonexistent/gpuckpt.conf")), "%s", err.text);
	ok(all_of(gck_conf_load(&c, "/tmp", &err) == -1, strstr(err.text, "/tmp")), "%s", err.text);
}

/* Which object stores are allowed. */
static void test_allows(void)
{
	static const char site[] = "S3Store=s3://images/site\n";
	struct gck_conf c;

	gck_conf_init(&c);
	ok(gck_conf_allows(&c, "file:/x", &err) == 0, "file: is allowed");
	ok(all_of(gck_conf_allows(&c, "s3://images", &err) == -1,
		  strstr(err.text, "no object store")), "%s", err.text);
	load(&c, site, strlen(site));
	ok(gck_conf_allows(&c, "s3://images/site", &err) == 0, "s3: at S3Store");
	ok(gck_conf_allows(&c, "s3://images/site/mine", &err) == 0, "s3: below S3Store");
	ok(all_of(gck_conf_allows(&c, "s3://images/sites", &err) == -1, err.code == EACCES,
		  strstr(err.text, "s3://images/site (S3Store")), "%s", err.text);
	ok(gck_conf_allows(&c, "s3://images", &err) == -1, "%s", err.text);
	ok(gck_conf_allows(&c, "s3://other/site", &err) == -1, "%s", err.text);
	ok(all_of(load(&c, "DefaultStore=s3://images\n", 25) == -1, strstr(err.text, path),
		  strstr(err.text, "Default")), "%s", err.text);
}

/* Copy the settings of the example to text, also those in comments. */
static size_t uncommented(const char *example, char *text, size_t size)
{
	FILE *f = fopen(example, "r");
	char line[200];
	size_t n = 0;

	while (f && fgets(line, sizeof line, f)) {
		const char *set = line + (line[0] == '#' && line[1] >= 'A' && line[1] <= 'Z');
		const char *value = strchr(set, '=');

		if (value && value[1] != '\n' && n < size)
			n += (size_t)snprintf(text + n, size - n, "%s", set);
	}
	if (f)
		fclose(f);
	return n;
}

/* The example must be valid, and show the defaults. */
static void test_example(void)
{
	const char *top = getenv("srcdir");
	struct gck_conf c, shown;
	char example[PATH_MAX], text[8192];

	if (!top) {
		skip("the example", "srcdir is not set: run by make check");
		return;
	}
	snprintf(example, sizeof example, "%s/contrib/examples/gpuckpt.conf", top);
	gck_conf_init(&c);
	err = (struct gck_error){ 0 };
	ok(gck_conf_load(&c, example, &err) == 0, "the example is valid %s", err.text);
	is_str(c.defaults.store, "file:/scratch/gpuckpt", "it sets a store");
	gck_conf_init(&shown);
	ok(all_of(load(&shown, text, uncommented(example, text, sizeof text)) == 0,
		  shown.keep_age_s == 0), "so do the settings in comments %s", err.text);
	ok(memcmp(&shown, &c, sizeof c) == 0, "its comments show the defaults");
}

int main(void)
{
	int fd = mkstemp(path);
	struct gck_conf c;

	if (fd < 0)
		return 1;
	close(fd);
	gck_conf_init(&c);
	is_int(c.port, 6821, "the default port");
	ok(all_of(*c.agent == '/', *c.preload == '/'), "default paths");
	test_all();
	test_bad();
	test_allows();
	test_example();
	unlink(path);
	return tap_done();
}
