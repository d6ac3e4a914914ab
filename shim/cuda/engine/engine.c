/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/engine/engine.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/base/state.h"
#include "shim/cuda/managed/mmap_hook.h"
#include "shim/cuda/memory/device_instance.h"

/* In the order in which they are tried. */
static const struct {
	uint32_t way;
	const struct gck_cuda_engine *engine;
} engines[] = {
	{GCK_CUDA_BY_REPLAY, &gck_cuda_replay_engine},
	{GCK_CUDA_BY_IMAGE, &gck_cuda_image_engine},
};
#define ENGINES (sizeof engines / sizeof *engines)

const struct gck_cuda_engine *gck_cuda_engine(void)
{
	return gck_cuda_state.replays ? &gck_cuda_replay_engine : &gck_cuda_image_engine;
}

void gck_cuda_engine_use(const struct gck_cuda_engine *engine)
{
	gck_cuda_state.replays = engine == &gck_cuda_replay_engine;
}

static void count(void *arg, const char *object, const char *reason, const char *remedy)
{
	(void)object;
	(void)reason;
	(void)remedy;
	++*(unsigned *)arg;
}

const struct gck_cuda_engine *gck_cuda_engine_able(gck_cuda_obstacle_fn *tell, void *arg)
{
	for (size_t i = 0; i < ENGINES; i++) {
		unsigned obstacles = 0;

		if (!(gck_cuda_state.ways & engines[i].way))
			continue;
		engines[i].engine->able(count, &obstacles);
		if (!obstacles)
			return engines[i].engine;
	}
	for (size_t i = 0; i < ENGINES; i++) {
		if (gck_cuda_state.ways & engines[i].way)
			engines[i].engine->able(tell, arg);
	}
	return NULL;
}

void gck_cuda_engine_tell(gck_cuda_obstacle_fn *tell, void *arg)
{
	const uint32_t both = GCK_CUDA_BY_REPLAY | GCK_CUDA_BY_IMAGE;

	if ((gck_cuda_state.ways & both) == both)
		gck_cuda_replay_engine.able(tell, arg);
}

/* ---- which are there ------------------------------------------------------------------------ */

void gck_cuda_library_hooks(void)
{
	gck_cuda_mmap_hook_begin();
	gck_cuda_instance_begin();
}

static const struct gck_cuda_loader plain = {.loaded = gck_cuda_library_hooks};

static void choose(void)
{
	const char *wanted = getenv("GPUCKPT_CUDA");
	struct gck_cuda_state *s = &gck_cuda_state;

	if (wanted && !strcmp(wanted, "replay"))
		s->ways = GCK_CUDA_BY_REPLAY;
	else if (wanted && !strcmp(wanted, "auto"))
		s->ways = GCK_CUDA_BY_REPLAY | GCK_CUDA_BY_IMAGE;
	s->replays = s->ways & GCK_CUDA_BY_REPLAY ? 1 : 0;
	gck_cuda_load_by(s->replays ? &gck_cuda_replay_loader : &plain);
}

GCK_CUDA_ASSEMBLE(choose);
