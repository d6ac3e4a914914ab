/* SPDX-License-Identifier: Apache-2.0
 * What the driver calls: functions of the host, and the ends of objects that graphs hold. */
#include <unistd.h>

#include "test/gpu/random/random.h"

/* ---- functions of the host ------------------------------------------------------------------- */

static uint64_t calls;

static void three(void *sum)
{
	*(uint64_t *)sum = *(uint64_t *)sum * 3 + 1;
}

static void five(void *sum)
{
	*(uint64_t *)sum = *(uint64_t *)sum * 5 + 2;
}

CUDA_HOST_NODE_PARAMS host_node(unsigned value)
{
	return (CUDA_HOST_NODE_PARAMS){value % 2 ? three : five, &calls};
}

void call_host(CUstream stream)
{
	DO(cuLaunchHostFunc, stream, draw(2) ? three : five, &calls);
}

void say_calls(void)
{
	say("calls %016llx", (unsigned long long)calls);
}

void call_any(void)
{
	int s = any_here(STREAM);

	if (s < 0)
		return;
	call_host(H(CUstream, s));
	finish(s);
}

/* ---- objects that graphs hold ---------------------------------------------------------------- */

static unsigned ends[MOST];

static void count_end(void *n)
{
	++*(unsigned *)n;
}

/* A graph has a reference; the program's goes in half of all cases. */
void hold_object(void)
{
	int g = any_sound(GRAPH), i = n_objects;
	CUuserObject u = NULL;

	if (g < 0 || i == MOST ||
	    DO(cuUserObjectCreate, &u, &ends[i], count_end, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC))
		return;
	hold(USER, u, -1);
	if (draw(2))
		DO(cuGraphRetainUserObject, H(CUgraph, g), u, 1, 0);
	else if (!DO(cuGraphRetainUserObject, H(CUgraph, g), u, 1, CU_GRAPH_USER_OBJECT_MOVE))
		objects[i].uses = 0;
}

void let_object(void)
{
	int i = any(USER);

	if (i >= 0 && objects[i].uses && draw(2) && !DO(cuUserObjectRelease, H(CUuserObject, i), 1))
		objects[i].uses = 0;
}

static int count_ended(void)
{
	int n = 0;

	for (int i = 0; i < n_objects; i++)
		n += is(i, USER) && ends[i] == 1;
	return n;
}

/* The driver may call them some time later. */
void end_objects(void)
{
	int n = 0;

	for (int i = 0; i < n_objects; i++) {
		n += is(i, USER);
		if (is(i, USER) && objects[i].uses)
			DO(cuUserObjectRelease, H(CUuserObject, i), 1);
	}
	for (int ms = 0; ms < 2000 && count_ended() < n; ms++)
		usleep(1000);
	say("%d of %d objects have ended, once", count_ended(), n);
}
