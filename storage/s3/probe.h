/* SPDX-License-Identifier: Apache-2.0
 * Is an object store as it must be? Asked once, by gpuckptd when it starts. */
#ifndef GCK_PROBE_H
#define GCK_PROBE_H

#include <stdbool.h>

#include "common/base/error.h"

struct gck_s3_probe {
	long skew_s;   /* how far the server's clock is ahead of this one */
	bool only_new; /* it refuses to put an object anew under If-None-Match: * */
};

/* List, write and remove below url, through the process's signer (storage/s3/signer.h), in the place of
 * job 0, which Slurm never has. Blocks for as long as requests are made again. -1: err says what does
 * not work, and what to look at. */
int gck_s3_probe(const char *url, const char *cluster, struct gck_s3_probe *found,
		 struct gck_error *err);

#endif
