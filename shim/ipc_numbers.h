/* SPDX-License-Identifier: Apache-2.0
 * Numbers of System V objects. After a restart the kernel has others for a rank's objects than its
 * program, which keeps those of the first start: the table of the state has both, the same in all
 * processes of the rank. It does not grow: an object that is made since has the kernel's number, or
 * one that is made of it if the program has another object under that. */
#ifndef GCK_IPC_NUMBERS_H
#define GCK_IPC_NUMBERS_H

#include <stdbool.h>

#include "shim/link.h"

#define GCK_IPC_APART (1 << 28) /* the kernel's first numbers are far below */
#define GCK_IPC_TRIES 7

static inline const struct gck_shim_ipc *gck_ipc_find(const struct gck_shim_state *s, int32_t kind,
						      bool program, int32_t number)
{
	for (uint32_t i = 0; i < s->nipc && i < GCK_SHIM_IPC; i++)
		if (s->ipc[i].kind == kind &&
		    (program ? s->ipc[i].vid : s->ipc[i].id) == number)
			return &s->ipc[i];
	return 0;
}

static inline int32_t gck_ipc_to_program(const struct gck_shim_state *s, int32_t kind, int32_t id)
{
	const struct gck_shim_ipc *x = gck_ipc_find(s, kind, false, id);
	int32_t vid = id;

	for (int i = 0; !x && i < GCK_IPC_TRIES && gck_ipc_find(s, kind, true, vid); i++)
		vid = (int32_t)((uint32_t)vid + GCK_IPC_APART) & INT32_MAX;
	return x ? x->vid : vid;
}

static inline int32_t gck_ipc_to_kernel(const struct gck_shim_state *s, int32_t kind, int32_t vid)
{
	const struct gck_shim_ipc *x = gck_ipc_find(s, kind, true, vid);
	int32_t id = vid;

	for (int i = 0; !x && i < GCK_IPC_TRIES && s->nipc; i++) {
		id -= GCK_IPC_APART;
		if (id >= 0 && gck_ipc_to_program(s, kind, id) == vid)
			return id;
	}
	return x ? x->id : vid;
}

#endif
