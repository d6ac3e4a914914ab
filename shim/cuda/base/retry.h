/* SPDX-License-Identifier: Apache-2.0
 * On the way back from a drain, where the GPU would be lost for good: what the system has too little of may be there
 * a moment later. */
#ifndef GCK_CUDA_RETRY_H
#define GCK_CUDA_RETRY_H

#include <stdbool.h>

#define GCK_CUDA_RETRIES 10000 /* naps, of a millisecond each */

/* A call has failed with this errno value. True, after a nap: for lack of descriptors, processes or memory, and one of
 * *naps was left. errno stays otherwise. */
bool gck_cuda_retry(int error, int *naps);

#endif
