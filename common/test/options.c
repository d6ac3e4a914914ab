/* SPDX-License-Identifier: Apache-2.0
 * The keys of --gpu-ckpt: values that each accepts and refuses; every error names the key. */
#include "common/base/options.h"

#include <stdlib.h>

#include "test/support/tap.h"

static struct gck_error err;

static void good(const char *text, const char *want)
{
	struct gck_options o, again;
	char formatted[2 * PATH_MAX];

	gck_options_init(&o);
	err = (struct gck_error){ 0 };
	if (!ok(gck_options_parse(&o, text, &err) == 0, "%s is accepted", text ? text : "(null)"))
		printf("#   %s\n", err.text);
	ok(all_of(gck_options_format(&o, formatted, sizeof formatted, NULL) == 0,
		  strstr(formatted, want)), "%s is formatted", want);
	gck_options_init(&again);
	ok(all_of(gck_options_parse(&again, formatted, NULL) == 0, !memcmp(&o, &again, sizeof o)),
	   "%s is parsed again", want);
}

static void bad(const char *key, const char *value)
{
	struct gck_options o, before;
	char text[9000];

	gck_options_init(&o);
	o.keep = 7;
	before = o;
	err = (struct gck_error){ 0 };
	snprintf(text, sizeof text, "cpus=3,%s=%s", key, value);
	ok(all_of(gck_options_parse(&o, text, &err) == -1, memcmp(&o, &before, sizeof o) == 0),
	   "%s=%.20s is refused, and nothing is set", key, value);
	ok(all_of(strstr(err.text, key), err.code), "the error names the key: %s", err.text);
}

static void malformed(const char *text, const char *want)
{
	struct gck_options o;

	gck_options_init(&o);
	err = (struct gck_error){ 0 };
	ok(all_of(gck_options_parse(&o, text, &err) == -1, strstr(err.text, want)), "\"%s\": %s",
	   text, err.text);
}

static void test_good(void)
{
	good(NULL, "interval=1800s");
	good("", "keep=2");
	good("interval=auto", "interval=1800s");
	good("interval=off", "interval=off");
	good("interval=90", "interval=90s");
	good("interval=1h30m", "interval=5400s");
	good("store=file:/a b/c", "store=file:/a b/c");
	good("store=s3://bucket/a.b/c-d_e", "store=s3://bucket/a.b/c-d_e");
	good(NULL, "stage=off");
	good("stage=/local/nvme", "stage=/local/nvme");
	good("stage=/local/nvme,stage=off", "stage=off");
	good("keep=1", "keep=1");
	good("compress=none", "compress=none");
	good("compress=lz4", "compress=lz4");
	good("compress=zstd", "compress=zstd,");
	good("compress=zstd:19", "compress=zstd:19");
	good("encrypt=yes", "encrypt=yes");
	good("encrypt=no", "encrypt=no");
	good("timeout=1", "timeout=1000ms");
	good("hold=500ms", "hold=500ms");
	good("hold=auto", "hold=auto");
	good("restart-wait=0", "restart-wait=0s");
	good("mpi=none", "mpi=none");
	good("mpi=openmpi", "mpi=openmpi");
	good("cuda=none", "cuda=none");
	good("cuda=auto", "cuda=auto");
	good("cuda=nvidia", "cuda=nvidia");
	good("cuda=image", "cuda=image");
	good("cuda=replay", "cuda=replay");
	good("files=64M", "files=67108864");
	good("files=0", "files=0");
	good("restart=never", "restart=never");
	good("restart=7", "restart=7");
	good("restart=123:7", "restart=123:7");
	good("skip-done=no", "skip-done=no");
	good("require=yes,cpus=4", "require=yes,cpus=4");
	good("quiet=yes", "quiet=yes");
	good(NULL, "kernels=off");
	good("kernels=auto", "kernels=auto");
	good("kernels=_Z4loopPf,b$1,keep=3", "kernels=_Z4loopPf,b$1");
	good("kernels=a,b,kernels=off", "kernels=off");
	good("keep=3,keep=4", "keep=4");
}

static void test_bad(void)
{
	static const char *const values[][2] = {
		{"interval", ""},
		{"interval", "0"},
		{"interval", "500ms"},
		{"interval", "-1"},
		{"interval", "30x"},
		{"interval", "1h30"},
		{"interval", "99999999999999999999s"},
		{"interval", "9999999999999999d"},
		{"interval", "366d"},
		{"interval", "30 m"},
		{"store", ""},
		{"store", "/scratch"},
		{"store", "file:scratch"},
		{"store", "file:"},
		{"store", "nfs:/x"},
		{"store", "s3://bu"},
		{"store", "s3://bucket/../x"},
		{"store", "s3://bucket/"},
		{"store", "s3://bucket//x"},
		{"store", "file:/a\nb"},
		{"stage", ""},
		{"stage", "tmp"},
		{"stage", "file:/tmp"},
		{"stage", "/a\nb"},
		{"restart", "0000000000000007:3"}, /* as long as the buffer */
		{"keep", "0"},
		{"keep", "2x"},
		{"keep", " 2"},
		{"keep", "1001"},
		{"kernels", ""},
		{"kernels", "a b"},
		{"kernels", ",a"},
		{"compress", "gzip"},
		{"compress", "lz4:3"},
		{"compress", "zstd:0"},
		{"compress", "zstd:23"},
		{"compress", "zstd:"},
		{"timeout", "0"},
		{"timeout", "25h"},
		{"hold", "1ms"},
		{"restart-wait", "8d"},
		{"mpi", "open-mpi"},
		{"mpi", "mpich"},
		{"cuda", "yes"},
		{"files", "1X"},
		{"files", "1GB"},
		{"files", "-1"},
		{"files", "99999999999T"},
		{"restart", "yes"},
		{"restart", "0"},
		{"restart", "0:1"},
		{"restart", "1:"},
		{"restart", ":1"},
		{"restart", "1:2:3"},
		{"restart", "99999999999999999999:1"},
		{"skip-done", "maybe"},
		{"encrypt", "1"},
		{"encrypt", ""},
		{"require", "1"},
		{"cpus", "0"},
		{"cpus", "many"},
	};
	char *path = malloc(6000);

	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		bad(values[i][0], values[i][1]);
	memset(path, 'x', 5999);
	path[5999] = '\0';
	memcpy(path, "file:/", 6);
	bad("store", path);
	path[4150] = '\0';
	bad("store", path);
	free(path);
}

static void test_other(void)
{
	struct gck_options o;
	char small[20];

	malformed("chunk=1", "unknown key \"chunk\"");
	malformed("Keep=1", "unknown key \"Keep\"");
	malformed("keep", "keep: a value is missing");
	malformed("keep=2,", "an empty key");
	malformed(",keep=2", "an empty key");
	malformed("keep=2,,cpus=1", "an empty key");
	malformed("kernels=a,,b", "an empty key");
	malformed("kernels=a,", "an empty key");
	malformed("=2", "unknown key \"\"");
	gck_options_init(&o);
	ok(all_of(gck_options_format(&o, small, sizeof small, &err) == -1, err.code == ENOSPC),
	   "format: %s", err.text);
	is_str(gck_options_key(0), "interval", "the first key");
	ok(all_of(!gck_options_key(18), gck_options_key(17)), "there are 18 keys");
}

int main(void)
{
	test_good();
	test_bad();
	test_other();
	return tap_done();
}
