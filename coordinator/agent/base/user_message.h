/* SPDX-License-Identifier: Apache-2.0
 * A line for the user: the agent has no terminal of its own, but the ranks have. */
#ifndef AGENT_USER_MESSAGE_H
#define AGENT_USER_MESSAGE_H

#include "coordinator/agent/base/tasks.h"

/* Print "gpuckpt: ..." once, on the standard error of the first rank that takes it, and log it. A file that a program
 * has opened there itself is not written to. */
void say_to_user(const struct tasks *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
