/* SPDX-License-Identifier: Apache-2.0
 * Programs that queue seconds of work on the GPU: a checkpoint is prepared while the queue runs
 * dry, and then drained at once. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cuda/test/link_agent.h"
#include "test/support/tap.h"

#define SUM (3 << 20)      /* of the bytes of cuda_rank's memory */
#define DRAIN_MS 2500      /* shorter than the queues */

static bool prepared(struct cuda_rank *r)
{
	return cuda_hear(r, WAIT_MS) == GCK_LINK_CUDA_PREPARED && !value;
}

static void drained(struct cuda_rank *r, uint64_t seq)
{
	cuda_link_ask_prepare(&r->cuda, seq, WAIT_MS);
	ok(prepared(r), "it is prepared when its queue is done: %s", text);
	ok(all_of(cuda_drain(r, seq, DRAIN_MS), cuda_resume(r, seq, NULL)),
	   "it is drained and resumed: %s", text);
}

/* For how long, as `able` reports it, what was queued was not done. */
static uint32_t queued_ms(struct cuda_rank *r)
{
	cuda_look(r);
	return r->cuda.m.round;
}

/* The program waits for its work, as most do. */
static void waits(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	is_int(queued_ms(&r), 0, "able sees no queue in a program without work");
	is_int(cuda_tell(&r, "queue"), 0, "a program queues 3.5 s of work");
	ok(queued_ms(&r) > 0, "able sees that it is not done");
	cuda_begin(&r, "finish");
	ok(queued_ms(&r) > 0, "and so while the program waits for it");
	drained(&r, 1);
	is_int(cuda_answer(&r, WAIT_MS), 0, "its wait for its work succeeds");
	is_int(cuda_tell(&r, "sum"), SUM, "it has its data");
	cuda_rank_end(&r);
}

/* It queues more than the GPU can do, as fast as it may. */
static void runs_ahead(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	is_int(cuda_tell(&r, "ahead"), 0, "a program runs 3 s ahead, and further all the time");
	drained(&r, 1);
	is_int(cuda_tell(&r, "sum"), SUM, "it has its data");
	cuda_rank_end(&r);
}

static void never_ends(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	cuda_tell(&r, "spin");
	cuda_link_ask_prepare(&r.cuda, 1, 300);
	ok(all_of(cuda_hear(&r, WAIT_MS) == GCK_LINK_CUDA_PREPARED, value == EBUSY,
		  strstr(text, "the GPU is busy")),
	   "a kernel does not end: the preparation fails: %s", text);
	is_int(cuda_tell(&r, "stop"), 0, "the program goes on");
	drained(&r, 2);
	cuda_rank_end(&r);
}

/* No deadlock. */
static void ends_its_kernel(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	cuda_tell(&r, "spin");
	cuda_link_ask_prepare(&r.cuda, 1, WAIT_MS);
	is_int(cuda_tell(&r, "behind"), 0,
	       "a kernel waits for a thread that queues work behind it: both go on");
	ok(prepared(&r), "and the rank is prepared: %s", text);
	ok(all_of(cuda_drain(&r, 1, DRAIN_MS), cuda_resume(&r, 1, NULL)),
	   "it is drained and resumed: %s", text);
	cuda_rank_end(&r);
}

/* `able` has asked, and does not wait for the queue. */
static void begins_during_able(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	is_int(cuda_tell(&r, "queue"), 0, "a program queues 3.5 s of work");
	cuda_link_say(&r.cuda, GCK_LINK_CUDA_LIST_OBSTACLES, 0);
	cuda_link_ask_prepare(&r.cuda, 1, WAIT_MS);
	ok(all_of(cuda_hear(&r, WAIT_MS) == GCK_LINK_CUDA_OBSTACLES_END, !r.cuda.m.round),
	   "a checkpoint begins while able looks: able is answered");
	ok(prepared(&r), "then the checkpoint is prepared: %s", text);
	cuda_rank_end(&r);
}

/* The checkpoint is given up meanwhile. */
static void is_cancelled(void)
{
	struct cuda_rank r;

	cuda_rank_start(&r, NULL);
	cuda_tell(&r, "spin");
	cuda_link_ask_prepare(&r.cuda, 1, WAIT_MS);
	cuda_link_say(&r.cuda, GCK_LINK_CUDA_RESUME, 1);
	is_str(cuda_look(&r), "", "a preparation is cancelled: the rank serves its agent again");
	is_int(cuda_tell(&r, "stop"), 0, "the program goes on");
	drained(&r, 2);
	cuda_rank_end(&r);
}

/* The kernels that `able` names, a line each; none of them refuses a checkpoint. */
static const char *kernels(struct cuda_rank *r)
{
	static char all[4096];

	all[0] = '\0';
	cuda_link_say(&r->cuda, GCK_LINK_CUDA_LIST_OBSTACLES, 0);
	while (cuda_hear(r, WAIT_MS) == GCK_LINK_CUDA_OBSTACLE)
		if (!strncmp(text, "kernel ", 7) && r->cuda.m.round == 1)
			strncat(strncat(all, text, 1024), "\n", 2);
	return all;
}

static int lines(const char *s)
{
	int n = 0;

	while ((s = strchr(s, '\n')))
		n++, s++;
	return n;
}

static int named(struct cuda_rank *r, int wanted)
{
	int n = lines(kernels(r));

	for (int i = 0; i < WAIT_MS / 500 && n < wanted; i++)
		n = lines(kernels(r));
	return n;
}

/* Which kernels last, by the last one that each stream was given. */
static void names_kernels(void)
{
	struct cuda_rank r;
	const char *said;

	cuda_rank_start(&r, NULL);
	is_int(cuda_tell(&r, "apart"), 0, "a stream with an entry of its own");
	cuda_tell(&r, "destroyed");
	cuda_tell(&r, "spin default");
	cuda_tell(&r, "spin");
	cuda_tell(&r, "spin");
	is_int(named(&r, 2), 2, "able names those that last, but for one in a destroyed stream");
	said = kernels(&r);
	ok(strstr(said, "kernel wait_flag;it was launched at least "), "by name and time");
	ok(strstr(said, "is not done, nor perhaps 1 before it in its stream;"),
	   "with what may be before it");
	is_int(cuda_tell(&r, "capture"), 0, "a capture begins");
	is_int(lines(kernels(&r)), 0, "during it nothing is asked");
	is_int(cuda_tell(&r, "captured"), 0, "it has not been ended");
	cuda_tell(&r, "default waiter");
	is_int(lines(kernels(&r)), 2, "they are named while a thread waits for one");
	cuda_tell(&r, "stop");
	is_int(cuda_tell(&r, "finish"), 0, "they end");
	is_int(cuda_tell(&r, "queue"), 0, "the stream is given other work");
	is_int(lines(kernels(&r)), 0, "of which no kernel is named");
	is_int(cuda_rank_end(&r), 0, "the program ends");
}

int main(void)
{
	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	waits();
	runs_ahead();
	never_ends();
	names_kernels();
	ends_its_kernel();
	begins_during_able();
	is_cancelled();
	return tap_done();
}
