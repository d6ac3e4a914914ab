/* SPDX-License-Identifier: Apache-2.0
 * A munged for one test, in a temporary directory. */
#ifndef GCK_TEST_MUNGED_H
#define GCK_TEST_MUNGED_H

/* Start munged: the path of its socket, or NULL and *why if it cannot be started here. */
const char *test_munged_start(const char **why);
void test_munged_stop(void);

#endif
