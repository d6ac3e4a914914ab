/* SPDX-License-Identifier: Apache-2.0
 * How plugin.c starts and stops the scripted coordinator of plugin.h. */
#ifndef AGENT_TEST_COORD_H
#define AGENT_TEST_COORD_H

/* Starts munged and listens. Returns munge's socket, or NULL and *why. */
const char *coord_open(const char **why);
void coord_close(void);
unsigned coord_port(void);
const char *coord_user(void);

#endif
