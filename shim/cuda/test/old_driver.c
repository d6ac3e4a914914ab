/* SPDX-License-Identifier: Apache-2.0
 * A driver with almost no functions, which prints that it was loaded. */
#include <stdio.h>

int cuInit(unsigned int flags);
int cuInit(unsigned int flags)
{
	return (int)flags;
}

__attribute__((constructor)) static void loaded(void)
{
	printf("loaded\n");
	fflush(stdout);
}
