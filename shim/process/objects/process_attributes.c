/* SPDX-License-Identifier: Apache-2.0
 * Attributes of a process of which the kernel keeps one number each: a table of how each is read in
 * the held rank and set in a restored process. To carry another one, add a row, and a line to
 * doc/limits.md. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/process/objects/objects.h"
#include "shim/process/proc/procfs.h"
#include "shim/process/rank/helper_link.h"

/* Of newer kernels than Debian 12's headers. */
#define SET_MDWE 65
#define GET_MDWE 66
#define SET_MEMORY_MERGE 67
#define GET_MEMORY_MERGE 68
#define GET_REGISTRATIONS (1 << 9)
#define GET_XCOMP_PERM 0x1022
#define REQ_XCOMP_PERM 0x1023
#define TILE_DATA 18ull

/* Stand in a call's arguments for the address of the result, and for the value to set. */
#define RESULT 0x7e5a17l
#define VALUE 0x7a1e5l

enum source {
	CALL,                  /* the result of the call `get` */
	CALL_RESULT,           /* what `get` writes to RESULT */
	FILE_NUMBER,           /* a file below /proc/PID, which is also written */
	STATUS_NUMBER,         /* a line of /proc/PID/status: of the main thread */
	STATUS_SPECULATION,    /* the same, in words */
	DEATH_SIGNAL,          /* in the shim's state */
};

struct attribute {
	const char *name;      /* in images */
	enum source source;
	const char *key;       /* of a file or line */
	int base;
	long get[3], set[4];   /* number and arguments of a call */
	uint64_t mask;         /* bits that count; 0: all */
	bool bits;             /* a call for each bit */
	bool as_allowed;       /* a new node may not allow it */
	bool last;             /* it would hinder other steps of a restore */
};

static const struct attribute attributes[] = {
	{"no_new_privs", STATUS_NUMBER, "NoNewPrivs:", 10,
	 .set = {SYS_prctl, PR_SET_NO_NEW_PRIVS, VALUE}},
	{"store_bypass", STATUS_SPECULATION, "Speculation_Store_Bypass:",
	 .set = {SYS_prctl, PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, VALUE}},
	{"indirect_branch", STATUS_SPECULATION, "SpeculationIndirectBranch:",
	 .set = {SYS_prctl, PR_SET_SPECULATION_CTRL, PR_SPEC_INDIRECT_BRANCH, VALUE}},
	{"child_subreaper", CALL_RESULT, .get = {SYS_prctl, PR_GET_CHILD_SUBREAPER, RESULT},
	 .set = {SYS_prctl, PR_SET_CHILD_SUBREAPER, VALUE}, .mask = 1},
	{"memory_merge", CALL, .get = {SYS_prctl, GET_MEMORY_MERGE},
	 .set = {SYS_prctl, SET_MEMORY_MERGE, VALUE}},
	{"membarrier", CALL, .get = {SYS_membarrier, GET_REGISTRATIONS},
	 .set = {SYS_membarrier, VALUE}, .bits = true},
	{"tile_data", CALL_RESULT, .get = {SYS_arch_prctl, GET_XCOMP_PERM, RESULT},
	 .set = {SYS_arch_prctl, REQ_XCOMP_PERM, TILE_DATA}, .mask = 1ull << TILE_DATA},
	{"coredump_filter", FILE_NUMBER, "coredump_filter", 16},
	{"oom_score_adj", FILE_NUMBER, "oom_score_adj", 10, .as_allowed = true},
	{"mdwe", CALL, .get = {SYS_prctl, GET_MDWE}, .set = {SYS_prctl, SET_MDWE, VALUE},
	 .last = true},
	{"death_signal", DEATH_SIGNAL, .set = {SYS_prctl, PR_SET_PDEATHSIG, VALUE}, .last = true},
};
#define NATTRIBUTES (sizeof attributes / sizeof attributes[0])

/* ---- scan ---------------------------------------------------------------------------------- */

static uint64_t speculation(const char *line)
{
	static const struct {
		const char *words;
		uint64_t value;
	} kinds[] = {
		{"thread mitigated", PR_SPEC_DISABLE},
		{"thread force mitigated", PR_SPEC_FORCE_DISABLE},
		{"conditional disabled", PR_SPEC_DISABLE},
		{"conditional force disabled", PR_SPEC_FORCE_DISABLE},
	};
	size_t n = line ? strcspn(line, "\n") : 0;

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (n == strlen(kinds[i].words) && !strncmp(line, kinds[i].words, n))
			return kinds[i].value;
	return 0;
}

/* Whether the attribute's value is known, without the helper. */
static bool read_text(const struct gck_scan *s, const struct attribute *a, const char *status,
		      uint64_t *value)
{
	char *text;

	if (a->source == STATUS_NUMBER)
		*value = gck_proc_number(status, a->key, a->base, 0);
	if (a->source == STATUS_SPECULATION)
		*value = speculation(gck_proc_field(status, a->key));
	if (a->source == DEATH_SIGNAL)
		*value = (s->t->shim->features & GCK_SHIM_DEATH) >> GCK_SHIM_DEATH_SHIFT;
	if (a->source != FILE_NUMBER)
		return a->source != CALL && a->source != CALL_RESULT;
	text = gck_proc_read(s->t->proc, a->key, NULL, NULL);
	if (text)
		*value = (uint64_t)strtoll(text, NULL, a->base);
	free(text);
	return text;
}

static int keep(struct gck_scan *s, const struct attribute *a, uint64_t value)
{
	struct gck_attribute *x =
		gck_grow(&s->img->attributes, &s->img->nattributes, sizeof *x, s->err);

	if (!x)
		return -1;
	x->value = a->mask ? value & a->mask : value;
	x->name = strdup(a->name);
	return x->name ? 0 : gck_fail(s->err, ENOMEM, "out of memory for the image");
}

/* What the kernel does not know is not in the image. */
int gck_scan_attributes(struct gck_scan *s, int timeout_ms)
{
	char *status = gck_proc_read(s->t->proc, "status", NULL, s->err);
	uint64_t values[NATTRIBUTES] = {0}, results[NATTRIBUTES], at = s->t->shim->scratch;
	const int64_t *calls[NATTRIBUTES] = {NULL};
	struct gck_link_msg m = {0};
	bool known[NATTRIBUTES];
	int result;

	if (!status)
		return -1;
	for (size_t i = 0; i < NATTRIBUTES; i++) {
		const struct attribute *a = &attributes[i];
		uint64_t to = at + i * sizeof results[0];

		known[i] = read_text(s, a, status, &values[i]);
		if (a->source == CALL || a->source == CALL_RESULT)
			calls[i] = gck_helper_call(
				&m, a->get[0], (uint64_t)a->get[1],
				a->get[2] == RESULT ? to : (uint64_t)a->get[2], 0, 0);
	}
	free(status);
	result = gck_helper_calls(s->t, &m, timeout_ms, s->err) ||
		 gck_memory_read(s->t->pid, at, results, sizeof results, s->err);
	for (size_t i = 0; i < NATTRIBUTES && !result; i++) {
		if (calls[i] && *calls[i] >= 0) {
			values[i] = attributes[i].source == CALL ? (uint64_t)*calls[i] : results[i];
			known[i] = true;
		}
		if (known[i] && keep(s, &attributes[i], values[i]))
			result = -1;
	}
	return result ? -1 : 0;
}

/* ---- restore ------------------------------------------------------------------------------- */

static const struct attribute *find(const char *name)
{
	for (size_t i = 0; i < NATTRIBUTES; i++)
		if (!strcmp(attributes[i].name, name))
			return &attributes[i];
	return NULL;
}

int gck_restore_check_attributes(struct gck_restore *r, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nattributes; i++)
		if (!find(r->img->attributes[i].name))
			return gck_fail(err, ENOTSUP, "the image has the attribute \"%s\", which "
					"this version of gpuckpt does not know: restart with a "
					"newer one", r->img->attributes[i].name);
	return 0;
}

static int write_file(struct gck_restore *r, const struct attribute *a, uint64_t value)
{
	int fd = openat(r->proc, a->key, O_WRONLY | O_CLOEXEC), result;

	if (fd < 0)
		return -errno;
	result = dprintf(fd, a->base == 16 ? "0x%" PRIx64 : "%" PRId64, value) < 0 ? -errno : 0;
	close(fd);
	return result;
}

static int64_t call(struct gck_restore *r, const struct attribute *a, uint64_t value,
		    struct gck_error *err)
{
	uint64_t v[4];

	for (int i = 0; i < 4; i++)
		v[i] = a->set[i] == VALUE ? value : (uint64_t)a->set[i];
	return gck_remote_call(&r->remote, r->remote.pid, err, (long)v[0], v[1], v[2], v[3]);
}

/* A new process has 0 in all that calls set. */
static int64_t set(struct gck_restore *r, const struct attribute *a, uint64_t value,
		   struct gck_error *err)
{
	int64_t result = 0;

	if (a->source == FILE_NUMBER)
		return write_file(r, a, value);
	if (!a->bits)
		return value ? call(r, a, value, err) : 0;
	for (; value && !result; value &= value - 1)
		result = call(r, a, value & -value, err);
	return result;
}

static int set_all(struct gck_restore *r, bool last, struct gck_error *err)
{
	for (size_t i = 0; i < r->img->nattributes; i++) {
		const struct gck_attribute *x = &r->img->attributes[i];
		const struct attribute *a = find(x->name);
		int64_t result = a && a->last == last ? set(r, a, x->value, err) : 0;

		if (a && a->as_allowed && (result == -EACCES || result == -EPERM))
			continue;
		if (gck_remote_check(result, err, "%s %" PRId64 " cannot be set", x->name,
				     x->value))
			return -1;
	}
	return 0;
}

int gck_restore_attributes(struct gck_restore *r, struct gck_error *err)
{
	return set_all(r, false, err);
}

int gck_restore_last_attributes(struct gck_restore *r, struct gck_error *err)
{
	return set_all(r, true, err);
}
