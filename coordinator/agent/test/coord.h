/* SPDX-License-Identifier: Apache-2.0
 * The inside of the coordinator that plugin.h plays. */
#ifndef AGENT_TEST_COORD_H
#define AGENT_TEST_COORD_H

/* Start munged and listen: munge's socket, or NULL and *why. */
const char *coord_open(const char **why);
void coord_close(void);
unsigned coord_port(void);
const char *coord_user(void);

#endif
