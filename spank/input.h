/* SPDX-License-Identifier: Apache-2.0
 * The relay of a task's standard input (coordinator/input). Independent of SPANK. */
#ifndef GCK_SPANK_INPUT_H
#define GCK_SPANK_INPUT_H

#include "common/base/error.h"

/* In a task, as the user, before its exec: if its standard input is a pipe, start the relay, which
 * lies beside the agent, and put the relay's pipe in its place. The relay is not a child of the
 * task. On failure standard input is as it was. */
GCK_MUST_CHECK int gck_input_relay(const char *agent_path, struct gck_error *err);

#endif
