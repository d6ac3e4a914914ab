/* SPDX-License-Identifier: Apache-2.0
 * A library whose constructor uses the device. It does not name libcuda, so the loader may run the
 * constructor before the stand-in's. */
#include <cuda.h>
#include <stdio.h>

__attribute__((constructor)) static void use_device(void)
{
	CUdeviceptr memory = 0, managed = 0;
	CUcontext context;
	CUresult rc = cuInit(0);

	if (!rc)
		rc = cuCtxCreate(&context, NULL, 0, 0);
	if (!rc)
		rc = cuMemAlloc(&memory, 1 << 20);
	if (!rc)
		rc = cuMemAllocManaged(&managed, 1 << 20, CU_MEM_ATTACH_GLOBAL);
	if (!rc)
		rc = cuMemFree(managed);
	if (!rc)
		rc = cuMemFree(memory);
	if (!rc)
		rc = cuCtxDestroy(context);
	printf("a constructor's calls: %d\n", rc);
	fflush(stdout);
}
