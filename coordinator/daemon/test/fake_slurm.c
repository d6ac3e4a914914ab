/* SPDX-License-Identifier: Apache-2.0
 * In place of query.c, for a gpuckptd without Slurm: answers stand in the file GCK_TEST_SLURM, one
 * member an operation. "requeue" leaves a mark in <file>.requeued. A missing member is a Slurm that
 * is away. "delay" are milliseconds before each answer. What was asked stands in <file>.asked, an
 * operation a line. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "coordinator/daemon/slurm/query.h"

static void leave_mark(const char *path)
{
	char name[256];
	FILE *f;

	snprintf(name, sizeof name, "%s.requeued", path);
	f = fopen(name, "w");
	if (f)
		fclose(f);
}

static void leave_word(const char *path, const char *op)
{
	char name[256];
	FILE *f;

	snprintf(name, sizeof name, "%s.asked", path);
	f = fopen(name, "a");
	if (!f)
		return;
	fprintf(f, "%s\n", op);
	fclose(f);
}

json_t *gck_query(const json_t *request, struct gck_error *err)
{
	const char *path = getenv("GCK_TEST_SLURM");
	const char *op = json_string_value(json_object_get(request, "op"));
	json_t *all = path ? json_load_file(path, 0, NULL) : NULL;
	json_t *answer = json_object_get(all, op);

	if (path)
		leave_word(path, op);
	usleep((useconds_t)json_integer_value(json_object_get(all, "delay")) * 1000);
	if (!answer) {
		gck_fail(err, EIO, "%s: Slurm is away", op);
		return NULL;
	}
	if (json_is_string(answer)) {
		gck_fail(err, EIO, "%s", json_string_value(answer));
		return NULL;
	}
	if (json_object_get(request, "hold") || json_is_object(json_object_get(all, "requeue")))
		if (json_equal(json_object_get(all, op), json_object_get(all, "requeue")))
			leave_mark(path);
	return json_deep_copy(answer);
}
