/* SPDX-License-Identifier: Apache-2.0
 * Restore: the variables in the image's initial environment by which a preload's constructor knows
 * that it is in a rank. They name the first task's PID and link; a program that the restored rank
 * executes later finds the new task's there, written over them. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "shim/process/proc/procfs.h"
#include "shim/process/ptrace/rebuild.h"

#define MAX_ENVIRONMENT (8u << 20)

/* GPUCKPT_RESTARTS is left: what the image has says that an exec is no restart. */
static const char *const names[] = {"GPUCKPT_PID=", "GPUCKPT_LINK=", "GPUCKPT_STDIO="};

void gck_restore_note_environment(struct gck_restore *r)
{
	free(r->environment);
	r->environment = gck_proc_read(r->proc, "environ", &r->environment_size, NULL);
}

/* The entry "NAME=value" among entries that each end with NUL, from `from` on; NULL: none. */
static char *find(char *entries, size_t size, size_t from, const char *name)
{
	for (size_t at = from, n; at < size; at += n + 1) {
		n = strnlen(entries + at, size - at);
		if (at + n < size && !strncmp(entries + at, name, strlen(name)))
			return entries + at;
	}
	return NULL;
}

static int replace(struct gck_restore *r, char *old, size_t size, const char *name,
		   struct gck_error *err)
{
	const char *new = find(r->environment, r->environment_size, 0, name);
	size_t length = new ? strlen(new) : 0;
	char *at = new ? find(old, size, 0, name) : NULL;

	for (; at; at = find(old, size, (size_t)(at - old) + length + 1, name)) {
		if (strlen(at) != length)
			return 0;
		if (gck_remote_write(&r->remote, r->img->env_start + (uint64_t)(at - old), new,
				     length, err))
			return gck_fail_in(err, "the environment's %s", name);
	}
	return 0;
}

int gck_restore_environment(struct gck_restore *r, struct gck_error *err)
{
	uint64_t size = r->img->env_end - r->img->env_start;
	char *old;
	int failed = 0;

	if (!r->environment || r->img->env_end <= r->img->env_start || size > MAX_ENVIRONMENT)
		return 0;
	old = malloc(size);
	if (!old)
		return gck_fail(err, ENOMEM, "no memory for the environment");
	/* a program may have given the kernel another place for it, and unmapped that */
	if (!gck_remote_read(&r->remote, r->img->env_start, old, size, NULL))
		for (size_t i = 0; i < sizeof names / sizeof names[0] && !failed; i++)
			failed = replace(r, old, size, names[i], err);
	free(old);
	return failed;
}
