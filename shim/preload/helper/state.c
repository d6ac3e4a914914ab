/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "shim/preload/helper/state.h"

struct gck_shim_state gck_state __attribute__((aligned(4096)));
