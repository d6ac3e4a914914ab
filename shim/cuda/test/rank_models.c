/* SPDX-License-Identifier: Apache-2.0
 * Commands of the models. The answer is 0, or 1 after a line about the first difference. */
#include "shim/cuda/test/rank.h"

#include <stdio.h>

#include "shim/cuda/test/managed_model.h"
#include "shim/cuda/test/ordered_model.h"
#include "shim/cuda/test/vmm_model.h"

static int is_wrong(const char *wrong)
{
	if (wrong)
		fprintf(stderr, "wrong: %s\n", wrong);
	return wrong != NULL;
}

#define STEP(name, call) static int name(void) { return is_wrong(call); }

STEP(begin_managed, managed_begin(rank.module, 1))
STEP(step_managed, managed_steps(150))
STEP(end_managed, managed_end())
STEP(begin_vmm, vmm_begin(1))
STEP(few_vmm, vmm_few())
STEP(export_vmm, vmm_export())
STEP(make_vmm, vmm_make())
STEP(drop_vmm, vmm_drop())
STEP(map_parts_vmm, vmm_parts())
STEP(end_parts_vmm, vmm_parts_end())
STEP(look_vmm, vmm_look())
STEP(threads_vmm, vmm_threads(100))
STEP(end_vmm, vmm_end())
STEP(begin_ordered, ordered_begin(rank.module, 1))
STEP(step_ordered, ordered_steps(400))
STEP(end_ordered, ordered_end())

static int step_vmm(int n)
{
	return is_wrong(vmm_steps(n));
}

/* Advice may be lost. */
static int forget_advice(void)
{
	managed_forgets();
	return 0;
}

const struct rank_command rank_model_commands[] = {
	{"forget", forget_advice},
	{"vmm steps", .run_number = step_vmm},
	{"model", begin_managed},
	{"steps", step_managed},
	{"model ends", end_managed},
	{"vmm", begin_vmm},
	{"vmm few", few_vmm},
	{"vmm export", export_vmm},
	{"vmm make", make_vmm},
	{"vmm drop", drop_vmm},
	{"vmm parts", map_parts_vmm},
	{"vmm parts end", end_parts_vmm},
	{"vmm look", look_vmm},
	{"vmm threads", threads_vmm},
	{"vmm ends", end_vmm},
	{"order", begin_ordered},
	{"order steps", step_ordered},
	{"order ends", end_ordered},
	{NULL},
};
