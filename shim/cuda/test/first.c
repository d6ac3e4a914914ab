/* SPDX-License-Identifier: Apache-2.0
 * cuda_first: calls cuInit. cuda_first -: calls nothing. cuda_first fork: in the parent, then in a
 * child. cuda_first cuCtxRecordEvent: a function that the driver may not have. cuda_first FILE: a
 * path or libcuda.so..., whether dlopen's library has the same cuInit. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char *argv[])
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "-"))
		return 0;
	printf("cuInit %d\n", cuInit(0));
	fflush(stdout);
	if (!strcmp(what, "fork")) {
		if (fork() == 0) {
			printf("cuInit %d\n", cuInit(0));
			return 0;
		}
		wait(NULL);
	} else if (strstr(what, ".so")) {
		void *handle = dlopen(what, RTLD_NOW);

		printf("%s\n", !handle                                           ? "none"
			       : dlsym(handle, "cuInit") == (void *)cuInit ? "the same"
									   : "another");
	} else if (*what) {
		void *handle = dlopen("libcuda.so.1", RTLD_NOW);

		printf("%s: %s by dlsym, %d\n", what, dlsym(handle, what) ? "found" : "not found",
		       cuCtxRecordEvent(NULL, NULL));
	}
	return 0;
}
