/* SPDX-License-Identifier: Apache-2.0
 * The agent's end of device data, for tests (doc/shim-link.md, "Device data"): reads the copies on
 * a rank's devices into the test's memory, and fills them into a restored rank. */
#ifndef GCK_TEST_CUDA_DATA_H
#define GCK_TEST_CUDA_DATA_H

#include <stdbool.h>
#include <stddef.h>

#include "test/support/cuda_link.h"

#define CUDA_DATA_RING ((size_t)8 * GCK_LINK_DATA_GET_MAX)

struct cuda_data {
	int fd, rank_fd, ring_fd;  /* -1: none */
	unsigned char *ring;
	/* the list, with what was read: */
	struct cuda_piece {
		uint64_t address, size;
		unsigned char *bytes; /* NULL: not read */
	} *v;
	size_t n;
	uint32_t value;            /* the last failure's code and text */
	char why[GCK_LINK_DATA_WHY];
};

/* Make a socket and a ring. */
void cuda_data_open(struct cuda_data *d);
void cuda_data_close(struct cuda_data *d); /* keeps what was read */
void cuda_data_free(struct cuda_data *d);

/* Give them with a message (RESUME, RESTORE). */
void cuda_data_give(struct cuda_data *d, const struct cuda_link *c, uint32_t type, uint64_t seq);

/* Send or receive one packet. false: none came within WAIT_MS, or the socket has ended. */
void cuda_data_send(const struct cuda_data *d, uint32_t type, uint64_t address, uint64_t size,
		    uint64_t number);
bool cuda_data_receive(const struct cuda_data *d, struct gck_link_data *m);

/* Wait until the rank has read all packets: all requests but the last one are under way then. */
bool cuda_data_taken(const struct cuda_data *d);

/* LIST. false: the rank answered with END; d->why says why. */
bool cuda_data_list(struct cuda_data *d);
bool cuda_data_read_piece(struct cuda_data *d, struct cuda_piece *p);
/* HASH a part of a piece that was read. Are the hashes those of what was read? */
bool cuda_data_hashes_as(struct cuda_data *d, const struct cuda_piece *p, uint64_t skip,
			 uint64_t size);
/* Read all pieces of the list, with several GETs under way, and send DONE. */
bool cuda_data_read(struct cuda_data *d);
uint64_t cuda_data_bytes(const struct cuda_data *d);

/* Is what was read equal to the process's memory now? Leaves out what it may not read itself. */
bool cuda_data_is_of(const struct cuda_data *d, pid_t pid);

/* Answer at most `most` GETs of a restored rank from what was read. false: the socket ended before
 * DONE. */
bool cuda_data_fill(const struct cuda_data *from, struct cuda_data *over, unsigned most);

#endif
