/* SPDX-License-Identifier: Apache-2.0
 * Takes one rank through checkpoints and restarts, without an agent: start it under the preload,
 * take and commit an image, kill the rank, start it again and restore it. */
#ifndef GCK_TEST_LINEAGE_H
#define GCK_TEST_LINEAGE_H

#include "shim/process/process.h"
#include "test/support/shim_agent.h"

struct lineage {
	struct agent agent;
	char directory[256];        /* of this lineage; lineage_end removes it */
	struct gck_store *store;
	char *const *argv;
	pid_t pid;                  /* of the rank; 0: none */
	int link;
	struct gck_link_hello hello;
	uint32_t seq;               /* of the last commit */
	pid_t number;               /* that new processes get, if it is free and the test may
				       choose (as root); 0: any */
	bool other_kernel;          /* restore as if this node had another kernel */
	double held, wrote, restored; /* seconds that the last ones took */
	uint64_t bytes;
	char note[256];             /* the last one of a restore */
	char failure[480];          /* of the last trial or restore */
};

/* Make a directory and store below base. This and the functions below return -1 on failure, with
 * the reason printed. */
int lineage_begin(struct lineage *l, const char *base, char *const argv[]);

/* Start the program; its output is appended to <directory>/out. */
int lineage_start(struct lineage *l);

/* A checkpoint that is refused for now is tried again, or not. */
int lineage_checkpoint(struct lineage *l);
int lineage_checkpoint_once(struct lineage *l);

void lineage_kill(struct lineage *l);

/* Start a process of the program that waits for its restore. */
int lineage_hold(struct lineage *l);
json_t *lineage_manifest(struct lineage *l, uint32_t seq);

/* Build commit seq in such a process, check its files, and end it without running it. */
int lineage_try(struct lineage *l, uint32_t seq);

/* Start such a process, restore commit seq in it, and accept its link. */
int lineage_restore(struct lineage *l, uint32_t seq);

/* A test program may pause between rounds, so that it runs when a checkpoint comes. It does not
 * pause while the file $GPUCKPT_TEST_HURRY exists: this creates or removes it. lineage_alone and
 * lineage_wait do both. */
void lineage_hurry(const struct lineage *l, bool hurry);

/* Wait for the rank's end: its exit status, or 256 + signal. */
int lineage_wait(struct lineage *l);

/* The last line of its output. Removes the output. */
const char *lineage_output(struct lineage *l);
void lineage_end(struct lineage *l);

/* Run the program alone, without the preload: its exit status; its output as above. */
int lineage_alone(struct lineage *l);

double seconds(void);

#endif
