/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/drain.h"

#include <stddef.h>
#include <stdio.h>

#include "shim/cuda/idle.h"
#include "shim/inside/gate.h"

/* Of the drain that is under way; in the image, too. */
static struct gck_cuda_order order;
static size_t drained; /* parts that are, or have begun to be */

/* What stands in the way, as one error. */
static void refuse(void *arg, const char *object, const char *reason, const char *remedy)
{
	struct gck_error *err = arg;

	if (!err->code)
		gck_fail(err, EBUSY, "%s: %s; %s", object, reason, remedy);
}

static int drain_parts(struct gck_error *err)
{
	while (gck_cuda_parts[drained]) {
		const struct gck_cuda_part *p = gck_cuda_parts[drained++];

		if (p->drain && p->drain(&order, err))
			return gck_fail_in(err, "%s", p->name);
	}
	return 0;
}

static int resume_parts(bool restored, struct gck_error *err)
{
	int failed = 0;

	for (; drained; drained--) {
		const struct gck_cuda_part *p = gck_cuda_parts[drained - 1];

		if (p->resume && p->resume(&order, restored, failed ? NULL : err))
			failed = -1; /* the others are put back all the same */
	}
	gck_cuda_contexts_give(&order.contexts);
	return failed;
}

void gck_cuda_release(void)
{
	for (size_t i = 0; gck_cuda_parts[i]; i++) {
		if (gck_cuda_parts[i]->release)
			gck_cuda_parts[i]->release();
	}
}

int gck_cuda_drain(int64_t end_ns, bool *lost, struct gck_error *err)
{
	struct gck_error why = {0}, back = {0};

	*lost = false;
	order.end_ns = end_ns;
	if (gck_cuda_quiet(end_ns, &order.contexts, err))
		return -1;
	gck_cuda_able(refuse, &why);
	if (!why.code && drain_parts(&why) == 0 && gck_cuda_driver_down(end_ns, &why) == 0)
		return 0;
	if (resume_parts(false, &back)) {
		*lost = true;
		return gck_fail(err, back.code, "%s, after: %s", back.text, why.text);
	}
	gck_gate_open();
	return gck_fail(err, why.code, "%s", why.text);
}

int gck_cuda_resume(bool restored, struct gck_error *err)
{
	if (gck_cuda_driver_up(err) || resume_parts(restored, err))
		return -1;
	gck_gate_open();
	return 0;
}
