/* SPDX-License-Identifier: Apache-2.0
 * The members of an operation. */
#include "coordinator/core/operations/operation_members.h"

#include <stdlib.h>

struct member *gck_members_find(struct gck_operation *op, const struct gck_step *step)
{
	for (size_t i = 0; op && i < op->nmembers; i++)
		if (op->members[i].step == step)
			return &op->members[i];
	return NULL;
}

int gck_members_add(struct gck_operation *op, struct gck_step *step)
{
	struct member *m = realloc(op->members, (op->nmembers + 1) * sizeof *m);

	if (!m)
		return -1;
	op->members = m;
	m[op->nmembers++] = (struct member){.step = step, .result = json_object()};
	return 0;
}

size_t gck_members_count(const struct gck_operation *op, enum outcome outcome)
{
	size_t n = 0;

	for (size_t i = 0; i < op->nmembers; i++)
		n += op->members[i].outcome == outcome;
	return n;
}

void gck_members_raise(struct gck_operation *op, enum outcome from, enum outcome to,
		      enum gck_event event)
{
	for (size_t i = 0; i < op->nmembers; i++) {
		if (op->members[i].outcome != from)
			continue;
		op->members[i].outcome = to;
		gck_raise(op->core, op->members[i].step, event);
	}
}

bool gck_members_may(const struct gck_step *step)
{
	return step->live && step->live->phase != GCK_OVER && step->live->phase != GCK_DOOMED &&
	       step->live->phase != GCK_ENDING;
}
