/* SPDX-License-Identifier: Apache-2.0
 * External mappings (external_mapping.h) that cannot be closed yet, because a kernel runs or the
 * GPU is busy: who gets memory meanwhile, and a checkpoint while a thread waits for theirs. */
#include <stdio.h>
#include <unistd.h>

#include "shim/cuda/test/restored_rank.h"
#include "test/support/tap.h"

#define OUT_OF_MEMORY 2

/* Answer the rank's requests for memory of other ranks, of which there are none, until its program
 * answers. */
static int answer_without_other_ranks(void)
{
	struct gck_thread_msg need;
	int answer = -1000, fd;

	for (int ms = 0; answer == -1000 && ms < WAIT_MS; ms += 20) {
		fd = agent_accept_reclaim(&lineage.agent, 10, &need);
		if (fd >= 0)
			close(fd);
		answer = told_answer(10);
	}
	return answer;
}

/* Closing a mapping waits for the GPU's kernels, and a kernel waits for its program. The program
 * gets other memory meanwhile; the mappings are closed when the kernel has ended. */
static void wait_for_a_kernel(void)
{
	struct outcome o;
	struct cuda_data d;
	bool given = false;

	restored_run_without_fault(DRAIN, OTHER_DEVICE, &o);
	restored_drain(&o);
	restored_resume(&d, &o);
	is_int(told("spin"), 0, "a kernel waits for its program");
	restored_read_all(&d, &o);
	cuda_data_free(&d);
	ok(all_of(o.on_device, !o.failed), "the copy on the device is read: %s", o.text);
	pause_ms(100); /* the rank tries to close the mappings */
	is_int(told("take 40"), 0, "the program gets memory that is free");
	told_begin("huge 1900");
	is_int(answer_without_other_ranks(), OUT_OF_MEMORY, "but not the mappings'");
	for (int i = 0; i < 100 && restored_yields(); i++)
		pause_ms(50);
	ok(!restored_yields(), "another rank does not get it either, even if it asks for seconds");
	is_int(told("stop"), 0, "the program lets the kernel end");
	for (int i = 0; i < 60 && !(given = restored_yields()); i++)
		pause_ms(50);
	ok(given, "then another rank gets it within seconds");
	restored_goes_on(false);
	lineage_kill(&lineage);
}

/* A thread waits for memory outside of the gate, so that the process can be drained. It is part of
 * the image. */
static void wait_through_a_checkpoint(void)
{
	char word[32];
	struct cuda_data d;
	struct outcome o;
	int before = restored_after_a_checkpoint(&d);

	is_int(told("work 2000"), 0, "its GPU works for two seconds");
	snprintf(word, sizeof word, "huge %d", before - 40);
	told_begin(word);
	pause_ms(50);
	cuda.keep = 0;
	restored_drain(&o);
	ok(all_of(!o.failed, lineage_checkpoint(&lineage) == 0),
	   "a checkpoint is made while a thread waits for memory: %s", o.text);
	is_int(told_answer(100), -1000, "the thread still waits");
	ok(cuda_link_resume(&cuda, lineage.seq), "the rank resumes");
	is_int(told_answer(WAIT_MS), 0, "the thread gets its memory");
	cuda_data_free(&d);
	lineage_kill(&lineage);
	restored_run_without_fault(RESTORE, OTHER_DEVICE, &o);
	is_int(told_answer(WAIT_MS), 0, "so does the thread of a process restored from that image");
	restored_goes_on(false);
	lineage_kill(&lineage);
}

int main(void)
{
	restored_begin();
	wait_for_a_kernel();
	wait_through_a_checkpoint();
	restored_end();
	return tap_done();
}
