/* SPDX-License-Identifier: Apache-2.0
 * Packets that wait in a socketpair (SOCK_SEQPACKET, SOCK_DGRAM) or in a pipe (O_DIRECT): a
 * reader gets one at a time, so the image has their sizes besides their bytes. */
#ifndef GCK_PACKETS_H
#define GCK_PACKETS_H

#include "shim/process/image/image.h"

struct gck_packets {
	char *data;              /* all, one after the other */
	size_t size;
	struct gck_packet *v;
	size_t n;
	bool senders;            /* peek: their names as well */
	int *rights;             /* copies of the descriptors that come with them, in order: */
	size_t nrights;          /* v has no numbers for them yet */
};

/* Set from where MSG_PEEK reads a socket (-1: the beginning, and reading does not advance it);
 * *before gets the old value, which the rank needs back. */
int gck_peek_offset(int socket, int offset, int *before, struct gck_error *err) GCK_MUST_CHECK;

/* Read the packets that wait in a socket, and leave them there. from: its other end, -1: closed.
 * Of a stream, a packet is what one message with descriptors brought, or all between two such.
 * EAGAIN if not all can be read. */
int gck_packets_peek(struct gck_packets *p, int socket, int type, int from,
		     struct gck_error *err) GCK_MUST_CHECK;

/* Read all packets of a pipe that is not empty, and consume them. */
int gck_packets_read(struct gck_packets *p, int pipe, struct gck_error *err) GCK_MUST_CHECK;
void gck_packets_free(struct gck_packets *p);

/* Write the packets, whose bytes are in the file `data`, into a socket or pipe that does not
 * wait. rights: descriptors of ours for those that come with them, in their order; NULL: without.
 * -1 with errno. */
int gck_packets_put(const struct gck_packet *v, size_t n, int data, int into,
		    const int *rights) GCK_MUST_CHECK;

#endif
