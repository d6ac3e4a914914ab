/* SPDX-License-Identifier: Apache-2.0
 * The other threads are traced by a process that is cloned for it (thread_stopper.c). They stay
 * stopped until it detaches. */
#define _GNU_SOURCE
#include "shim/cuda/gate/stop_world.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "shim/cuda/gate/thread_stopper.h"
#include "shim/inside/rank.h"

#define STACK 65536
#define MOST (1 << 16)      /* threads at most */
#define MS 1000000ll
#define LOOK_NS (1000 * MS) /* between checks that the other process lives */

/* With Yama one process and its descendants may trace us: the agent, and for a moment our own
 * process. */
static void allow(int32_t tracer)
{
	gck_cuda_system(SYS_prctl, PR_SET_PTRACER, tracer, 0, 0, 0, 0);
}

/* ---- the other process ---------------------------------------------------------------------- */

/* Memory for the other process' stack, followed by the shared structure. */
static struct gck_cuda_stop_world *make(void)
{
	size_t size = STACK + sizeof(struct gck_cuda_stop_world) +
		      MOST * sizeof(struct gck_cuda_stopped_thread);
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct gck_cuda_stop_world *s = (void *)(memory + STACK);

	if (memory == MAP_FAILED)
		return NULL;
	s->size = size;
	s->v = (void *)(s + 1);
	s->most = MOST;
	s->pid = (int32_t)gck_cuda_system(SYS_getpid, 0, 0, 0, 0, 0, 0);
	s->tid = (int32_t)gck_cuda_system(SYS_gettid, 0, 0, 0, 0, 0, 0);
	s->error = EPROTO;
	s->what = "the process that stops them was killed";
	return s;
}

static void drop(struct gck_cuda_stop_world *s)
{
	if (s->other > 0)
		gck_cuda_system(SYS_wait4, s->other, 0, __WALL, 0, 0, 0);
	munmap((char *)s - STACK, s->size);
}

/* Block signals during the clone: the program's handlers exist in the other process, too. */
static void start(struct gck_cuda_stop_world *s)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	s->other = clone(gck_cuda_thread_stopper, s, CLONE_VM | CLONE_FILES, s);
	if (s->other < 0) {
		s->error = errno;
		s->what = "no process could be made";
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void wait_stopped(struct gck_cuda_stop_world *s)
{
	while (s->other > 0 && gck_cuda_turn(s) == GCK_CUDA_STOPPING) {
		if (gck_cuda_system(SYS_wait4, s->other, 0, __WALL | WNOHANG, 0, 0, 0) == s->other)
			s->other = 0;
		else
			gck_cuda_turn_wait(s, GCK_CUDA_STOPPING, LOOK_NS);
	}
}

/* ---- the moment ----------------------------------------------------------------------------- */

struct gck_cuda_stop_world *gck_cuda_stop_world_begin(int limit_ms, int traced_ms,
						      struct gck_error *err)
{
	struct gck_cuda_stop_world *s = make();

	if (!s) {
		gck_fail(err, ENOMEM, "no memory to stop the other threads with");
		return NULL;
	}
	s->end_ns = gck_cuda_stop_now_ns() + limit_ms * MS;
	s->traced_end_ns = gck_cuda_stop_now_ns() + traced_ms * MS;
	allow(s->pid);
	start(s);
	wait_stopped(s);
	allow(gck_inside_tracer());
	if (gck_cuda_turn(s) == GCK_CUDA_TAKEN)
		return s;
	gck_fail(err, s->error, "the program's other threads cannot be stopped: %s: %s", s->what,
		 strerror(s->error));
	drop(s);
	return NULL;
}

void gck_cuda_stop_world_pause(struct gck_cuda_stop_world *s)
{
	s->pause_end_ns = gck_cuda_stop_now_ns() + GCK_CUDA_STOP_WORLD_PAUSE_MS * MS;
	gck_cuda_turn_set(s, GCK_CUDA_PAUSED);
}

bool gck_cuda_stop_world_again(struct gck_cuda_stop_world *s)
{
	return gck_cuda_turn_change(s, GCK_CUDA_PAUSED, GCK_CUDA_TAKEN);
}

void gck_cuda_stop_world_end(struct gck_cuda_stop_world *s)
{
	gck_cuda_turn_set(s, GCK_CUDA_OVER);
	drop(s);
}
