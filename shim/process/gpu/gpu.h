/* SPDX-License-Identifier: Apache-2.0
 * Device data between a rank and a process of the agent (shim/link.h, "device data"): that
 * process's end of the socket and the ring. Both carry data that must be checked. */
#ifndef GCK_DEVICE_CHANNEL_H
#define GCK_DEVICE_CHANNEL_H

#include "shim/process/image/image.h"
#include "storage/image/image.h"
#include "shim/link.h"

/* The two ends of a channel: the rank's (GCK_LINK_DATA_FDS, in that order), and that of the process
 * that reads or serves. A descriptor is -1 once it was given away. */
struct gck_device_channel_ends {
	int rank[GCK_LINK_DATA_FDS];
	int own[GCK_LINK_DATA_FDS];
};

/* A rank's data on one of its devices. */
struct gck_device_memory {
	unsigned char uuid[16];
	uint64_t bytes;
	uint64_t free_bytes; /* on the device, for copies; as of the rank's last report */
};

/* What a process that uses CUDA has on its devices. */
struct gck_gpu_data {
	pid_t pid;               /* of the process; 0: it uses none */
	uint64_t device_bytes;   /* in its memory while drained, or in device copies */
	uint64_t managed_bytes;  /* of these: managed memory */
	struct gck_device_memory devices[GCK_LINK_CUDA_DEVICES]; /* the same by device */
	size_t ndevices;
};

struct gck_gpus {
	struct gck_gpu_data *v;
	size_t n;
};

/* How many GETs fit into a ring. */
#define GCK_DEVICE_RING_SLOTS 8u

int gck_device_channel_make(struct gck_device_channel_ends *e,
			    struct gck_error *err) GCK_MUST_CHECK;

/* Close the descriptors of one side that were not given away. */
void gck_device_channel_drop(int fds[GCK_LINK_DATA_FDS]);

struct gck_device_channel {
	int socket;          /* borrowed */
	unsigned char *ring;
	uint64_t size;       /* of the ring */
};

/* Takes descriptors of `own`, which must stay open. */
int gck_device_channel_open(struct gck_device_channel *d, const int fds[GCK_LINK_DATA_FDS],
			    struct gck_error *err) GCK_MUST_CHECK;
void gck_device_channel_close(struct gck_device_channel *d);

/* Send a packet. why: the text for an errno value, or NULL. A dead peer is reported by the next
 * gck_device_channel_receive. */
void gck_device_channel_send(const struct gck_device_channel *d, const struct gck_link_data *m,
			     const char *why);

/* Wait up to ms for a packet. 1; 0: none came; -1 with ECONNRESET (the other end is gone) or
 * EPROTO. */
int gck_device_channel_receive(const struct gck_device_channel *d, struct gck_link_data *m, int ms,
		    struct gck_error *err) GCK_MUST_CHECK;

/* Serve a restored rank's GETs until it needs nothing more or ends. w: the image's `device`, which
 * the reader reads ahead in order. progress: as in gck_capture_write. If a read fails, the rank
 * gets the error and -1 is returned. */
int gck_device_channel_serve(const struct gck_device_channel *d, const struct gck_page_groups *w,
		     struct gck_reader *reader,
		     int (*progress)(void *, uint64_t done, uint64_t all), void *arg,
		     struct gck_error *err) GCK_MUST_CHECK;

/* ---- which GPUs a restored rank gets ------------------------------------------------------- */

/* Call with the image's memory restored. Asks gpuckpt-gpus, a program beside this one, which GPUs
 * the new task sees, assigns one to each of the image's, and writes them to the image's struct
 * gck_cuda_state at address. (A process that has used the driver could not be restored, hence the
 * other program.) -1 with nothing changed: another driver, too few GPUs, another type. */
struct gck_restore;
int gck_restore_gpus(struct gck_restore *r, uint64_t address, struct gck_error *err) GCK_MUST_CHECK;

#endif
