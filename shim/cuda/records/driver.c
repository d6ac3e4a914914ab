/* SPDX-License-Identifier: Apache-2.0
 * What all files here use: the driver, and the lock of what is known of it. */
#include "shim/cuda/records/records.h"

#include <pthread.h>

struct gck_cuda_real gck_cuda_driver;
_Atomic unsigned gck_records_age;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void gck_records_lock(void)
{
	pthread_mutex_lock(&lock);
}

void gck_records_unlock(void)
{
	pthread_mutex_unlock(&lock);
}
