/* SPDX-License-Identifier: Apache-2.0
 * The keys of --gpu-ckpt: parsing and formatting the value of each. */
#include "common/base/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/s3_url.h"

#define SECOND 1000u
#define HOUR (3600u * SECOND)
#define DAY (24u * HOUR)

/* ---- kinds of values ------------------------------------------------------------------------ */

static int read_time(const char *value, uint64_t min, uint64_t max, uint64_t *ms,
		     struct gck_error *err)
{
	uint64_t t = 0;

	if (gck_parse_time_ms(value, &t, err))
		return -1;
	if (t < min || t > max)
		return gck_fail(err, EINVAL, "must be a time from %llums to %lluh",
				(unsigned long long)min, (unsigned long long)(max / HOUR));
	*ms = t;
	return 0;
}

static int read_choice(const char *value, const char *const *names, unsigned *choice)
{
	for (unsigned i = 0; names[i]; i++)
		if (strcmp(value, names[i]) == 0) {
			*choice = i;
			return 0;
		}
	return -1;
}

static int read_yes_no(const char *value, bool *yes, struct gck_error *err)
{
	static const char *const names[] = { "no", "yes", NULL };
	unsigned choice;

	if (read_choice(value, names, &choice))
		return gck_fail(err, EINVAL, "must be yes or no");
	*yes = choice;
	return 0;
}

__attribute__((format(printf, 3, 4)))
static void print(char *value, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(value, size, fmt, ap);
	va_end(ap);
}

/* ---- the keys ------------------------------------------------------------------------------- */

static int read_interval(struct gck_options *o, const char *value, struct gck_error *err)
{
	uint64_t ms = 0;

	if (strcmp(value, "auto") == 0)
		ms = 1800 * SECOND;
	else if (strcmp(value, "off") != 0 && read_time(value, SECOND, 365ull * DAY, &ms, err))
		return gck_fail(err, EINVAL,
				"must be auto, off or a time of 1s or more such as 30m");
	o->interval_s = (unsigned)(ms / SECOND);
	return 0;
}

static void write_interval(const struct gck_options *o, char *value, size_t size)
{
	if (o->interval_s)
		print(value, size, "%us", o->interval_s);
	else
		print(value, size, "off");
}

static int read_path(char to[PATH_MAX], const char *value, struct gck_error *err)
{
	for (const char *p = value; *p; p++)
		if ((unsigned char)*p < ' ' || *p == ',' || *p == 0x7f)
			return gck_fail(err, EINVAL,
					"the path must not hold commas or control characters");
	if (strlen(value) >= PATH_MAX)
		return gck_fail(err, ENAMETOOLONG, "the path is too long");
	memset(to, 0, PATH_MAX); /* so that equal options are equal bytes */
	strcpy(to, value);
	return 0;
}

static int read_store(struct gck_options *o, const char *value, struct gck_error *err)
{
	if (gck_s3_is(value) && gck_s3_url_check(value, err))
		return -1;
	if (!gck_s3_is(value) && strncmp(value, "file:/", 6) != 0)
		return gck_fail(err, EINVAL, "must be file: and an absolute path, as in "
				"file:/scratch/checkpoints, or s3://bucket/prefix");
	return read_path(o->store, value, err);
}

static void write_store(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%s", o->store);
}

static int read_stage(struct gck_options *o, const char *value, struct gck_error *err)
{
	if (strcmp(value, "off") == 0)
		value = "";
	else if (value[0] != '/')
		return gck_fail(err, EINVAL,
				"must be off, or the absolute path of a directory that each node "
				"has on a disk of its own, as in /local/nvme");
	return read_path(o->stage, value, err);
}

static void write_stage(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%s", *o->stage ? o->stage : "off");
}

static int read_keep(struct gck_options *o, const char *value, struct gck_error *err)
{
	uint64_t n = 0;

	if (gck_parse_number(value, 1, 1000, &n, err))
		return -1;
	o->keep = (unsigned)n;
	return 0;
}

static void write_keep(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%u", o->keep);
}

static const char *const compress_names[] = { "none", "lz4", "zstd", NULL };

static int read_compress(struct gck_options *o, const char *value, struct gck_error *err)
{
	unsigned choice = GCK_COMPRESS_ZSTD;
	uint64_t level = 0;

	if (strncmp(value, "zstd:", 5) == 0 ? gck_parse_number(value + 5, 1, 22, &level, NULL) :
					      read_choice(value, compress_names, &choice))
		return gck_fail(err, EINVAL,
				"must be none, lz4, zstd or zstd:LEVEL with a level from "
				"1 to 22");
	o->compress = (enum gck_compress)choice;
	o->compress_level = (int)level;
	return 0;
}

static void write_compress(const struct gck_options *o, char *value, size_t size)
{
	if (o->compress_level)
		print(value, size, "%s:%d", compress_names[o->compress], o->compress_level);
	else
		print(value, size, "%s", compress_names[o->compress]);
}

static int read_encrypt(struct gck_options *o, const char *value, struct gck_error *err)
{
	return read_yes_no(value, &o->encrypt, err);
}

static void write_encrypt(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%s", o->encrypt ? "yes" : "no");
}

static int read_timeout(struct gck_options *o, const char *value, struct gck_error *err)
{
	uint64_t ms = 0;

	if (read_time(value, SECOND, DAY, &ms, err))
		return -1;
	o->timeout_ms = (unsigned)ms;
	return 0;
}

static void write_timeout(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%ums", o->timeout_ms);
}

static int read_hold(struct gck_options *o, const char *value, struct gck_error *err)
{
	uint64_t ms = GCK_HOLD_AUTO_MS;
	bool automatic = !strcmp(value, "auto");

	if (!automatic && read_time(value, 10, DAY, &ms, err))
		return -1;
	o->hold_ms = (unsigned)ms;
	o->hold_auto = automatic;
	return 0;
}

static void write_hold(const struct gck_options *o, char *value, size_t size)
{
	if (o->hold_auto)
		print(value, size, "auto");
	else
		print(value, size, "%ums", o->hold_ms);
}

static int read_restart_wait(struct gck_options *o, const char *value, struct gck_error *err)
{
	uint64_t ms = 0;

	if (read_time(value, 0, 7 * DAY, &ms, err))
		return -1;
	o->restart_wait_s = (unsigned)((ms + SECOND - 1) / SECOND);
	return 0;
}

static void write_restart_wait(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%us", o->restart_wait_s);
}

static const char *const mpi_names[] = { "auto", "openmpi", "none", NULL };

static int read_mpi(struct gck_options *o, const char *value, struct gck_error *err)
{
	unsigned choice;

	if (read_choice(value, mpi_names, &choice))
		return gck_fail(err, EINVAL, "must be auto, openmpi or none");
	o->mpi = (enum gck_mpi)choice;
	return 0;
}

static void write_mpi(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%s", mpi_names[o->mpi]);
}

static const char *const cuda_names[] = { "auto", "nvidia", "none", "image", "replay", NULL };

static int read_cuda(struct gck_options *o, const char *value, struct gck_error *err)
{
	unsigned choice;

	if (read_choice(value, cuda_names, &choice))
		return gck_fail(err, EINVAL, "must be auto, image, replay, nvidia or none");
	o->cuda = (enum gck_gpu)choice;
	return 0;
}

static void write_cuda(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%s", cuda_names[o->cuda]);
}

static int read_files(struct gck_options *o, const char *value, struct gck_error *err)
{
	return gck_parse_size(value, &o->files, err);
}

static void write_files(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%llu", (unsigned long long)o->files);
}

/* Parse SEQ or JOBID:SEQ. */
static int read_origin(const char *value, uint64_t *job, uint64_t *seq)
{
	const char *colon = strchr(value, ':');
	char text[16];

	*job = 0;
	if (colon) {
		if ((size_t)(colon - value) >= sizeof text)
			return -1;
		memcpy(text, value, (size_t)(colon - value));
		text[colon - value] = '\0';
		if (gck_parse_number(text, 1, UINT32_MAX - 1, job, NULL))
			return -1;
		value = colon + 1;
	}
	return gck_parse_number(value, 1, UINT32_MAX, seq, NULL);
}

static int read_restart(struct gck_options *o, const char *value, struct gck_error *err)
{
	static const char *const names[] = { "auto", "never", NULL };
	unsigned choice = GCK_RESTART_FROM;
	uint64_t job = 0, seq = 0;

	if (read_choice(value, names, &choice) && read_origin(value, &job, &seq))
		return gck_fail(err, EINVAL, "must be auto, never, a checkpoint's number or "
				"JOBID:NUMBER");
	o->restart = (enum gck_restart)choice;
	o->restart_job = (uint32_t)job;
	o->restart_seq = (uint32_t)seq;
	return 0;
}

static void write_restart(const struct gck_options *o, char *value, size_t size)
{
	if (o->restart != GCK_RESTART_FROM)
		print(value, size, "%s", o->restart == GCK_RESTART_AUTO ? "auto" : "never");
	else if (o->restart_job)
		print(value, size, "%u:%u", o->restart_job, o->restart_seq);
	else
		print(value, size, "%u", o->restart_seq);
}

static int read_skip_done(struct gck_options *o, const char *value, struct gck_error *err)
{
	return read_yes_no(value, &o->skip_done, err);
}

static void write_skip_done(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%s", o->skip_done ? "yes" : "no");
}

static int read_require(struct gck_options *o, const char *value, struct gck_error *err)
{
	return read_yes_no(value, &o->require, err);
}

static void write_require(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%s", o->require ? "yes" : "no");
}

static int read_quiet(struct gck_options *o, const char *value, struct gck_error *err)
{
	return read_yes_no(value, &o->quiet, err);
}

static void write_quiet(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%s", o->quiet ? "yes" : "no");
}

static int read_cpus(struct gck_options *o, const char *value, struct gck_error *err)
{
	uint64_t n = 0;

	if (gck_parse_number(value, 1, 1024, &n, err))
		return -1;
	o->cpus = (unsigned)n;
	return 0;
}

static void write_cpus(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%u", o->cpus);
}

/* Names as C and C++ compilers write them. */
static int read_kernels(struct gck_options *o, const char *value, struct gck_error *err)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_$%,";
	size_t n = strlen(value);

	if (!n || value[strspn(value, letters)] || *value == ',' || value[n - 1] == ',' ||
	    strstr(value, ",,"))
		return gck_fail(err, EINVAL, "must be off, auto, or names of kernels as in PTX, "
				"with commas between them");
	if (n >= sizeof o->kernels)
		return gck_fail(err, ENAMETOOLONG, "more than %zu bytes of names",
				sizeof o->kernels - 1);
	memset(o->kernels, 0, sizeof o->kernels);
	if (strcmp(value, "off") != 0)
		strcpy(o->kernels, value);
	return 0;
}

static void write_kernels(const struct gck_options *o, char *value, size_t size)
{
	print(value, size, "%s", *o->kernels ? o->kernels : "off");
}

const struct gck_option_key gck_option_keys[] = {
	{ "interval", read_interval, write_interval },
	{ "store", read_store, write_store },
	{ "stage", read_stage, write_stage },
	{ "keep", read_keep, write_keep },
	{ "compress", read_compress, write_compress },
	{ "encrypt", read_encrypt, write_encrypt },
	{ "timeout", read_timeout, write_timeout },
	{ "hold", read_hold, write_hold },
	{ "restart-wait", read_restart_wait, write_restart_wait },
	{ "mpi", read_mpi, write_mpi },
	{ "cuda", read_cuda, write_cuda },
	{ "files", read_files, write_files },
	{ "restart", read_restart, write_restart },
	{ "skip-done", read_skip_done, write_skip_done },
	{ "require", read_require, write_require },
	{ "cpus", read_cpus, write_cpus },
	{ "quiet", read_quiet, write_quiet },
	{ "kernels", read_kernels, write_kernels },
};

const size_t gck_option_nkeys = sizeof gck_option_keys / sizeof *gck_option_keys;
