/* SPDX-License-Identifier: Apache-2.0
 * One rank through checkpoints and restarts, without an agent: start it under the preload, take and
 * commit an image, kill it, start it again and restore it. */
#ifndef GCK_TEST_LINEAGE_H
#define GCK_TEST_LINEAGE_H

#include "shim/process/process.h"
#include "test/support/shim_agent.h"

struct lineage {
	struct agent agent;
	char directory[256];        /* its own; removed by lineage_end */
	struct gck_store *store;
	char *const *argv;
	pid_t pid;                  /* the rank now, 0: none */
	int link;
	struct gck_link_hello hello;
	uint32_t seq;               /* of the last commit */
	bool other_kernel;          /* restore as if this node's kernel were another one */
	double held, wrote, restored; /* seconds, of the last of each */
	uint64_t bytes;
};

/* A fresh directory and store below base. -1 with the reason printed, as all that follow. */
int lineage_begin(struct lineage *l, const char *base, char *const argv[]);

/* Start the program; output goes to <directory>/out (appended). */
int lineage_start(struct lineage *l);
int lineage_checkpoint(struct lineage *l);
void lineage_kill(struct lineage *l);

/* A new process of the program that waits to be restored. */
int lineage_hold(struct lineage *l);
json_t *lineage_manifest(struct lineage *l, uint32_t seq);

/* hold, then restore commit seq, and take its link again. */
int lineage_restore(struct lineage *l, uint32_t seq);

/* A test program may pause between rounds so that checkpoints find it at work. It does not pause
 * while the file $GPUCKPT_TEST_HURRY exists: this creates or removes it. lineage_alone and
 * lineage_wait do both. */
void lineage_hurry(const struct lineage *l, bool hurry);

/* Wait for the end: exit status, or 256 + signal. */
int lineage_wait(struct lineage *l);

/* The last line of its output, which is removed. */
const char *lineage_output(struct lineage *l);
void lineage_end(struct lineage *l);

/* Run it alone, without the preload: its exit status; its last line in <directory>/out. */
int lineage_alone(struct lineage *l);

double seconds(void);

#endif
