/* SPDX-License-Identifier: Apache-2.0
 * The calls of CheCUDA (Takizawa, Sato, Komatsu, Kobayashi: "CheCUDA: A Checkpoint/Restart Tool for
 * CUDA Applications", PDCAT 2009), for programs that were written to it. Link with -lgpuckpt.
 *
 * The program's CUDA calls stay as they are, and it can be checkpointed from outside, too:
 *
 *	ckptInit();
 *	cuInit(0);
 *	...
 *	if (ckptSelf() > 0)
 *		puts("this process was restarted");
 */
#ifndef CHECUDA_H
#define CHECUDA_H

#include <gpuckpt.h>

/* There is nothing to prepare. Returns 0. */
static inline int ckptInit(void)
{
	return 0;
}

/* A checkpoint of the step, now. Returns what gck_checkpoint() does: 0, it is committed; more, the
 * process was restarted from it; less, there is none. */
static inline int ckptSelf(void)
{
	return gck_checkpoint();
}

#endif
