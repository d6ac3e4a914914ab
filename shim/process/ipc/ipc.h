/* SPDX-License-Identifier: Apache-2.0
 * System V objects of a rank. Functions return -1 on failure with err (of a scan: s->err)
 * filled. */
#ifndef GCK_PROCESS_IPC_H
#define GCK_PROCESS_IPC_H

#include "shim/process/rank/scan.h"

/* sysv.c: System V objects that a rank may have made. */
int gck_scan_sysv(struct gck_scan *s) GCK_MUST_CHECK;

#endif
