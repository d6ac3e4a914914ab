/* SPDX-License-Identifier: Apache-2.0
 * What slurmstepd leaves open in its tasks by mistake. */
#ifndef GCK_SPANK_LEAK_H
#define GCK_SPANK_LEAK_H

/* In a task, before its program: sockets that listen are slurmstepd's own (that of its PMIx plugin
 * has no FD_CLOEXEC). They end with the exec: an image cannot carry them, and the program has no use
 * for them. */
void gck_leak_close(void);

#endif
