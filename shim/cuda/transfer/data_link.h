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
	uint64_t cookie;     /* tells the socket from a file that the program put at its number */
};

/* Take a descriptor over and move it out of the way of the program's. */
void gck_cuda_data_open(struct gck_cuda_data_link *l, int fd);
/* Shut the connection down, also for copies that a child of the program may have. */
void gck_cuda_data_shut(const struct gck_cuda_data_link *l);
void gck_cuda_data_close(struct gck_cuda_data_link *l);
/* Close it in a child without a shutdown: it is the parent's. */
void gck_cuda_data_leave(struct gck_cuda_data_link *l);

/* Send m with the error; why NULL or code 0: value 0. -1: the link has ended. */
int gck_cuda_data_send(const struct gck_cuda_data_link *l, const struct gck_link_data *m,
		       const struct gck_error *why);

/* 1: a packet, whose `why` ends with a NUL; 0: none within ms; -1: the link has ended. */
int gck_cuda_data_receive(const struct gck_cuda_data_link *l, struct gck_link_data *m, int ms)
	GCK_MUST_CHECK;

#endif
