/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/base/retry.h"

#include <errno.h>
#include <time.h>

#define NAP_NS 1000000

/* The limit is a count of naps, not a time: the clock runs on while the machine is suspended. */
bool gck_cuda_retry(int error, int *naps)
{
	const struct timespec nap = {0, NAP_NS};

	switch (error) {
	case EMFILE:
	case ENFILE:
	case ETOOMANYREFS:
	case EAGAIN:
	case ENOMEM:
	case ENOBUFS:
		break;
	default:
		return false;
	}
	if (*naps <= 0)
		return false;
	--*naps;
	nanosleep(&nap, NULL);
	return true;
}
