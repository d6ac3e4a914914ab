/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/base/state.h"

struct gck_cuda_state gck_cuda_state = {
	.magic = GCK_CUDA_STATE_MAGIC, .version = GCK_CUDA_STATE_VERSION,
	.size = sizeof gck_cuda_state, .link_fd = -1, .kept_fd = {-1, -1},
	.data_fd = {-1, -1}, .ways = GCK_CUDA_BY_IMAGE,
};
