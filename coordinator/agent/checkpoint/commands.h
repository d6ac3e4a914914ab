/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's commands for a checkpoint. Each may come twice; an answer that was given is given again. */
#ifndef AGENT_COMMANDS_H
#define AGENT_COMMANDS_H

#include "coordinator/agent/base/agent.h"

/* Obey prepare, quiesce, go, freeze, resume, write, hold, commit, committed or abort. */
void checkpoint_command(struct agent *a, const char *op, const json_t *body);

#endif
