/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AGENT_CHECKPOINT_GPU_MEMORY_H
#define AGENT_CHECKPOINT_GPU_MEMORY_H

#include "common/base/error.h"
#include "coordinator/agent/checkpoint/transaction.h"

/* After `prepare` of all ranks: enters each process's bytes, device_copy_max and fits_device.
 * Processes that share a device, identified by its UUID, share its free memory in proportion to
 * their data there. */
int gpu_share_memory(struct transaction *t, struct gck_error *err) GCK_MUST_CHECK;

#endif
