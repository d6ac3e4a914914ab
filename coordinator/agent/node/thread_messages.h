/* SPDX-License-Identifier: Apache-2.0
 * Messages of our MPI and CUDA threads in this node's ranks. */
#ifndef AGENT_THREAD_MESSAGES_H
#define AGENT_THREAD_MESSAGES_H

#include "coordinator/agent/ranks/links.h"

/* Takes what shims' links hand on: requests for a checkpoint, threads' connections, needs of device memory. */
extern const struct links_ops thread_messages;

#endif
