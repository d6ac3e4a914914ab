/* SPDX-License-Identifier: Apache-2.0
 * Retries on the way back from a drain, where giving up would lose the GPU for good: a scarce
 * resource may be free a moment later. */
#ifndef GCK_CUDA_RETRY_H
#define GCK_CUDA_RETRY_H

#include <stdbool.h>

#define GCK_CUDA_RETRIES 10000 /* naps of one millisecond each */

/* A call failed with this errno value. Naps and returns true if the cause is a lack of
 * descriptors, processes or memory and a nap was left in *naps. Else errno stays as it was. */
bool gck_cuda_retry(int error, int *naps);

#endif
