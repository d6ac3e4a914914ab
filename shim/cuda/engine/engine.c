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

static bool may_use(size_t i)
{
	return gck_cuda_state.ways & engines[i].way;
}

static bool has_both(void)
{
	return may_use(0) && may_use(1);
}

static bool is_able(size_t i)
{
	unsigned obstacles = 0;

	if (may_use(i))
		engines[i].engine->able(count, &obstacles);
	return may_use(i) && !obstacles;
}

static bool is_doubted(size_t i)
{
	unsigned doubts = 0;

	if (engines[i].engine->doubt)
		engines[i].engine->doubt(count, &doubts);
	return doubts;
}

const struct gck_cuda_engine *gck_cuda_engine_able(gck_cuda_obstacle_fn *tell, void *arg)
{
	const struct gck_cuda_engine *doubted = NULL;

	for (size_t i = 0; i < ENGINES; i++) {
		if (!is_able(i))
			continue;
		if (!has_both() || !is_doubted(i))
			return engines[i].engine;
		doubted = engines[i].engine;
	}
	for (size_t i = 0; i < ENGINES && !doubted; i++) {
		if (may_use(i))
			engines[i].engine->able(tell, arg);
	}
	return doubted;
}

void gck_cuda_engine_tell(gck_cuda_obstacle_fn *tell, void *arg)
{
	if (!has_both())
		return;
	gck_cuda_replay_engine.able(tell, arg);
	gck_cuda_replay_engine.doubt(tell, arg);
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
