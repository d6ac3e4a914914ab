/* SPDX-License-Identifier: Apache-2.0
 * A copy that is in an image, whole, and lives on in the process that is made from it. */
#include "config.h"

#include "shim/inside/rank.h"
#include "shim/namespace/namespace.h"
#include "shim/preload/helper/raw.h"

static void name_threads(int32_t (*name)(int32_t tid))
{
	int32_t *tids = (int32_t *)(uintptr_t)gck_namespace.owned->threads;

	for (uint64_t i = 0; i < gck_namespace.owned->nthreads; i++) {
		if (tids[i])
			tids[i] = name(tids[i]);
	}
}

/* The number of one that has ended may be another's in the next process. */
static int32_t known(int32_t tid)
{
	if (gck_raw(SYS_tgkill, gck_raw(SYS_getpid), tid, 0))
		return 0;
	return gck_inside_known_tid(tid);
}

void gck_namespace_carry(void)
{
	if (!gck_namespace.root)
		return;
	name_threads(known);
	gck_namespace.carried = true;
}

void gck_namespace_carried(void)
{
	if (!gck_namespace.carried)
		return;
	gck_namespace.restarts = gck_inside_restarts();
	gck_namespace.carried = false;
	name_threads(gck_inside_kernel_tid);
}
