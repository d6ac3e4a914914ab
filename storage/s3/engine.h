/* SPDX-License-Identifier: Apache-2.0
 * The thread that moves the bytes of all requests of this process. Used by http.c. */
#ifndef GCK_ENGINE_H
#define GCK_ENGINE_H

#include "storage/s3/http.h"

/* Start it unless it runs. A process that was forked off, while no
 * request was under way, starts one of its own. */
int gck_engine_start(struct gck_error *err);

/* Perform h->easy, whose private pointer is h, and wait: h->code says how it ended. */
void gck_engine_run(struct gck_http *h);

#endif
