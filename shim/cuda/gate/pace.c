/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/gate/pace.h"

#include <stdint.h>
#include <time.h>

#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/gate/idle.h"

#define MS 1000000ll
#define LOOK_NS 20000          /* between queries of the stream, doubled up to */
#define LOOK_MOST_NS (1 * MS)
#define WAIT_NS (100 * MS)     /* for a stream, doubled after each wait in vain up to */
#define WAIT_MOST_NS (1600 * MS)

_Atomic bool gck_cuda_paced;
static _Atomic int64_t limit_ns;

void gck_cuda_pace_begin(void)
{
	atomic_store(&limit_ns, WAIT_NS);
	atomic_store(&gck_cuda_paced, true);
}

void gck_cuda_pace_end(void)
{
	atomic_store(&gck_cuda_paced, false);
}

void gck_cuda_pace_wait(CUstream stream)
{
	int64_t limit = atomic_load(&limit_ns), end = gck_cuda_now_ns() + limit, look = LOOK_NS;

	while (gck_gate_may_park() && atomic_load(&gck_cuda_paced) && gck_cuda_is_busy(stream)) {
		const struct timespec t = {0, look};

		if (gck_cuda_now_ns() > end) {
			atomic_store(&limit_ns, 2 * limit < WAIT_MOST_NS ? 2 * limit
									  : WAIT_MOST_NS);
			return;
		}
		nanosleep(&t, NULL);
		look = 2 * look < LOOK_MOST_NS ? 2 * look : LOOK_MOST_NS;
		gck_gate_park_if_closed();
	}
}
