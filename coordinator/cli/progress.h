/* SPDX-License-Identifier: Apache-2.0
 * One line on the terminal that says how far a checkpoint is. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "coordinator/cli/print.h"

/* Show an event; nothing when stderr is not a terminal. */
void progress_show(const json_t *event);

/* Take the line away. */
void progress_end(void);

/* The same of what this process does itself: a gck_progress_fn whose arg is a struct progress. */
struct progress {
	const char *what;
	json_int_t job, step, seq;
	enum kind kind; /* of the amounts */
	const volatile sig_atomic_t *stop; /* NULL: nothing does */
};

bool progress_tell(void *progress, uint64_t done, uint64_t all);

/* From now on SIGINT, SIGTERM and SIGHUP set `interrupted`, and a limit of file sizes (ulimit -f)
 * is an error of write(): what was begun is taken back before this process ends. */
extern volatile sig_atomic_t interrupted;
void catch_signals(void);

#endif
