/* SPDX-License-Identifier: Apache-2.0
 * The `code` of an agent's answer that a restart failed (doc/protocol.md): what is to blame. */
#ifndef GCK_RESTART_CODE_H
#define GCK_RESTART_CODE_H

enum gck_blame {
	GCK_BLAME_COMMIT,       /* it cannot be read or does not fit: another try would fail too */
	GCK_BLAME_SURROUNDINGS, /* the store fails, a node is silent or lost, no space, ranks that
				 * share memory are on different nodes */
	GCK_BLAME_PROCESS,      /* a rank could not be built, or did not run */
};

enum gck_blame gck_restart_blame(int code);

#endif
