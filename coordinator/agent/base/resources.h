/* SPDX-License-Identifier: Apache-2.0
 * How much memory this node and this cgroup still have. */
#ifndef AGENT_RESOURCES_H
#define AGENT_RESOURCES_H

#include <stdint.h>

/* Bytes that could be allocated now: the least of MemAvailable and of every memory cgroup that
 * this process is in (page cache that would be given back counts as free). */
uint64_t memory_available(void);

#endif
