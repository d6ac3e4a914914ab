/* SPDX-License-Identifier: Apache-2.0
 * A CUDA program on the fake driver, drained, captured, killed and restored in new processes, where
 * its CUDA thread brings it back; and one that goes on after its image was taken. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "common/test/tap.h"
#include "shim/test/cuda_link.h"
#include "shim/test/restore_lineage.h"

#define RESTARTS 4

static struct lineage l;
static struct cuda_link cuda = {.fd = -1};

/* A chain of deaths, and once the original goes on. */
static void lineage(void)
{
	ok(cuda_link_drain(&cuda, 1) && lineage_checkpoint(&l) == 0, "drained and captured");
	ok(cuda_link_resume(&cuda, 1), "the original goes on");
	for (uint32_t i = 1; i <= RESTARTS; i++) {
		pause_ms(150);
		ok(cuda_link_drain(&cuda, i + 1) && lineage_checkpoint(&l) == 0, "captured again");
		lineage_kill(&l);
		ok(lineage_restore(&l, l.seq) == 0, "restored in a new process");
		ok(cuda_link_join(&cuda, &l.agent, true), "its CUDA thread says so");
		ok(cuda_link_hear(&cuda, GCK_LINK_CUDA_RESUMED), "and that CUDA is back");
	}
}

int main(void)
{
	static char program[] = "./cuda_work", *argv[] = {program, NULL};
	char alone[300];

	setenv("GPUCKPT_CUDA_LIBRARY", GCK_TEST_DRIVER, 1);
	if (lineage_begin(&l, "/dev/shm", argv))
		return 99;
	is_int(lineage_alone(&l), 0, "the program by itself");
	strcpy(alone, lineage_output(&l));
	ok(lineage_start(&l) == 0 && cuda_link_join(&cuda, &l.agent, false), "under the stand-in");
	pause_ms(100);
	lineage();
	is_int(lineage_wait(&l), 0, "it ends well");
	is_str(lineage_output(&l), alone, "with the answer that it gives when nothing happens");
	lineage_end(&l);
	return tap_done();
}
