/* SPDX-License-Identifier: Apache-2.0 */
#include "spank/cuda.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static bool is_there(const char *path, int mode)
{
	return faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0;
}

int gck_cuda_wanted(enum gck_gpu choice, const char *library, const char *device,
		    struct gck_error *err)
{
	if (choice == GCK_GPU_NONE)
		return 0;
	if (choice == GCK_GPU_AUTO)
		return is_there(device, F_OK) && is_there(library, R_OK);
	if (is_there(library, R_OK))
		return 1;
	return gck_fail(err, errno, "cuda=nvidia: %s: %s; check the installation on this node, or CudaPath "
			"in gpuckpt.conf", library, strerror(errno));
}
