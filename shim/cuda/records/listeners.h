/* SPDX-License-Identifier: Apache-2.0
 * Our functions in the driver's private table NVML, which make, end, list and take off the list
 * those who are told of checkpoints. */
#ifndef GCK_CUDA_RECORDS_LISTENERS_H
#define GCK_CUDA_RECORDS_LISTENERS_H

#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/cuda_api.h"

/* Their places in it, and others': the time; lock and unlock the list. */
#define GCK_LISTENERS_TIME 17
#define GCK_LISTENER_MAKE 19
#define GCK_LISTENER_DROP 20
#define GCK_LISTENER_BEGIN 21
#define GCK_LISTENER_END 22
#define GCK_LISTENERS_LOCK 24
#define GCK_LISTENERS_UNLOCK 25

CUresult gck_record_listener_make(void **listener, const void *about);
uint64_t gck_record_listener_drop(void *listener);
uint64_t gck_record_listener_begin(void *listener);
uint64_t gck_record_listener_end(void *listener);

/* Why they cannot be told; NULL: they can. Makes and lists them in a fresh driver. */
const char *gck_record_listeners_unable(void);
int gck_record_listeners_again(struct gck_error *err) GCK_MUST_CHECK;

#endif
