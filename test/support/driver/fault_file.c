/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: records its calls in a file, and fails one call that a file names. Files work in
 * a single phase of a process, and in a restored process, whose environment is its image's. */
#include "test/support/driver/fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void write_down(const char *path, const char *name)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0)
		return;
	dprintf(fd, "%s\n", name);
	close(fd);
}

/* Count a call of the function in the file; at the Nth return its code and remove the file. */
static CUresult count_down(const char *path, const char *name)
{
	FILE *f = fopen(path, "r+e");
	CUresult rc = CUDA_SUCCESS;
	char function[64];
	int n, code;

	if (f && fscanf(f, "%63s %d %d", function, &n, &code) == 3 && !strcmp(function, name)) {
		rewind(f);
		fprintf(f, "%s %d %d\n", function, --n, code);
		rc = n ? CUDA_SUCCESS : (CUresult)code;
	}
	if (f)
		fclose(f);
	if (rc)
		unlink(path);
	return rc;
}

CUresult fake_ordered(const char *name)
{
	const char *calls = getenv("FAKE_CUDA_CALLS"), *fault = getenv("FAKE_CUDA_FAULT");
	CUresult rc;

	if (!calls && !fault)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&lock);
	if (calls)
		write_down(calls, name);
	rc = fault ? count_down(fault, name) : CUDA_SUCCESS;
	pthread_mutex_unlock(&lock);
	return rc;
}
