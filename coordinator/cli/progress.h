/* SPDX-License-Identifier: Apache-2.0
 * One line on the terminal that says how far a checkpoint is. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <jansson.h>

/* Show an event; nothing when stderr is not a terminal. */
void progress_show(const json_t *event);

/* Take the line away. */
void progress_end(void);

#endif
