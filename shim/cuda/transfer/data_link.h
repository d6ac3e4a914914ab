/* SPDX-License-Identifier: Apache-2.0
 * Packets of a socket for device data (shim/link.h). */
#ifndef GCK_CUDA_DATA_LINK_H
#define GCK_CUDA_DATA_LINK_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/link.h"

struct gck_cuda_data_link {
	int fd;              /* -1: none */
	uint64_t cookie;     /* the program may put another file in its place */
};

/* Takes a descriptor over, out of the way of the program's. */
void gck_cuda_data_open(struct gck_cuda_data_link *l, int fd);
/* Ended for both sides, in copies that a child of the program's may have, too. */
void gck_cuda_data_shut(const struct gck_cuda_data_link *l);
void gck_cuda_data_close(struct gck_cuda_data_link *l);
/* Closed in a child, and not shut: it is the parent's, too. */
void gck_cuda_data_leave(struct gck_cuda_data_link *l);

/* why: NULL or code 0: m's value is 0. -1: the link has ended. */
int gck_cuda_data_send(const struct gck_cuda_data_link *l, const struct gck_link_data *m,
		       const struct gck_error *why);

/* 1: a packet, `why` of which ends with a NUL; 0: none within ms; -1: the link has ended. */
int gck_cuda_data_receive(const struct gck_cuda_data_link *l, struct gck_link_data *m, int ms);

#endif
