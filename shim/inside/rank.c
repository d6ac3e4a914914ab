/* SPDX-License-Identifier: Apache-2.0
 * What the preload knows about this process. */
#include "shim/inside/rank.h"

#include <unistd.h>

#include "shim/link.h"
#include "shim/preload/preload.h"

/* volatile, because a restorer changes the fields from outside. */
static const volatile struct gck_shim_state *state(void)
{
	return gck_preload_state ? gck_preload_state() : NULL;
}

bool gck_inside_has_agent(void)
{
	const volatile struct gck_shim_state *s = state();

	return s && (s->helper_tid || s->features & GCK_SHIM_DESCENDANT);
}

int gck_inside_execute(const char *path, char *const *argv, char *const *envp)
{
	return gck_preload_execute ? gck_preload_execute(path, argv, envp)
				   : execve(path, argv, envp);
}

void gck_inside_uses_mpi(const void *address)
{
	if (gck_preload_state)
		gck_preload_state()->mpi_state = (uint64_t)(uintptr_t)address;
}

void gck_inside_uses_cuda(const void *address)
{
	if (gck_preload_state)
		gck_preload_state()->cuda_state = (uint64_t)(uintptr_t)address;
}

void gck_inside_leaves_gpu(void)
{
	struct gck_shim_state *s = gck_preload_state ? gck_preload_state() : NULL;

	if (!s || !s->cuda_state)
		return;
	s->cuda_state = 0;
	s->features |= GCK_SHIM_LEFT_GPU;
}

const char *gck_inside_agent(void)
{
	const volatile struct gck_shim_state *s = state();

	return s ? (const char *)s->link : "";
}

pid_t gck_inside_tracer(void)
{
	const volatile struct gck_shim_state *s = state();

	return s ? s->tracer : 0;
}

uint32_t gck_inside_restarts(void)
{
	const volatile struct gck_shim_state *s = state();

	return s ? s->restarts : 0;
}

const char *gck_inside_environment(size_t *size)
{
	const volatile struct gck_shim_state *s = state();

	*size = s ? s->environment_size : 0;
	return s ? (const char *)(uintptr_t)s->environment : NULL;
}

bool gck_inside_has_tid(int32_t tid)
{
	const volatile struct gck_shim_state *s = state();
	uint32_t n = s ? __atomic_load_n(&s->ntids, __ATOMIC_ACQUIRE) : 0;

	if (s && s->vpid == tid && s->rpid != tid)
		return true;
	for (uint32_t i = 0; i < n; i++) {
		if (s->tids[i].vtid == tid && s->tids[i].rtid != tid)
			return true;
	}
	return false;
}

/* The other number of a thread, if it has two. */
static int32_t other_tid(int32_t tid, bool known)
{
	const volatile struct gck_shim_state *s = state();
	uint32_t n = s ? __atomic_load_n(&s->ntids, __ATOMIC_ACQUIRE) : 0;

	for (uint32_t i = 0; i < n; i++) {
		int32_t vtid = s->tids[i].vtid, rtid = s->tids[i].rtid;

		if (vtid && (known ? vtid : rtid) == tid)
			return known ? rtid : vtid;
	}
	return tid;
}

int32_t gck_inside_kernel_tid(int32_t tid)
{
	return other_tid(tid, true);
}

int32_t gck_inside_known_tid(int32_t kernel_tid)
{
	return other_tid(kernel_tid, false);
}
