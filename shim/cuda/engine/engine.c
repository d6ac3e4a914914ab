/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "shim/cuda/base/state.h"

const struct gck_cuda_engine *gck_cuda_engine(void)
{
	return gck_cuda_state.replays ? &gck_cuda_replay_engine : &gck_cuda_image_engine;
}

static void choose(void)
{
	const char *wanted = getenv("GPUCKPT_CUDA");

	gck_cuda_state.replays = wanted && !strcmp(wanted, gck_cuda_replay_engine.name);
	gck_cuda_load_by(gck_cuda_engine()->loader);
}

GCK_CUDA_ASSEMBLE(choose);
