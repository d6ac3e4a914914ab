/* SPDX-License-Identifier: Apache-2.0
 * A line on the terminal that shows the progress of a checkpoint, or of this process: percent,
 * bytes, rate and the time left. Where there is no terminal: a line about what takes over 10 s. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "coordinator/cli/print.h"

/* Show an event, on stderr. */
void progress_show(const json_t *event);

/* Remove the line. */
void progress_end(void);

/* Show the progress of this process: a gck_progress_fn whose arg is a struct progress. */
struct progress {
	const char *what;
	json_int_t job, step, seq;
	enum kind kind; /* of the numbers */
	const volatile sig_atomic_t *stop; /* NULL: never stop */
};

bool progress_tell(void *progress, uint64_t done, uint64_t all);

/* From now on SIGINT, SIGTERM and SIGHUP set `interrupted`, and a limit on file sizes (ulimit -f)
 * makes write() fail, so that this process can undo what it has begun before it ends. */
extern volatile sig_atomic_t interrupted;
void catch_signals(void);

#endif
