/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/gate/stream_wait.h"

#include <errno.h>
#include <time.h>

#include "shim/cuda/gate/idle.h"
#include "shim/cuda/real.h"

#define LOOK_NS 50000

static void (*tell_late)(const struct gck_error *why);

void gck_cuda_arrive_tells(void (*late)(const struct gck_error *why))
{
	tell_late = late;
}

static CUresult wait_until(CUstream stream, int64_t end_ns)
{
	const struct timespec look = {0, LOOK_NS};
	CUresult rc;

	while ((rc = gck_cuda_real.cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY && gck_cuda_now_ns() < end_ns)
		nanosleep(&look, NULL);
	return rc;
}

int gck_cuda_arrive(CUstream stream, CUdevice device, int64_t end_ns, struct gck_error *err)
{
	CUresult rc = end_ns ? wait_until(stream, end_ns) : gck_cuda_real.cuStreamSynchronize(stream);
	struct gck_error why;

	if (rc == CUDA_SUCCESS)
		return 0;
	if (rc != CUDA_ERROR_NOT_READY)
		return gck_cuda_fail(err, "copying device memory", rc);
	gck_fail(&why, ETIMEDOUT, "device %d: the copy of its memory does not end, another process may keep the device "
		 "busy: try again later, or give hold= more", device);
	tell_late(&why);
	gck_cuda_real.cuStreamSynchronize(stream);
	return gck_fail(err, why.code, "%s", why.text);
}
