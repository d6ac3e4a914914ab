/* SPDX-License-Identifier: Apache-2.0
 * A program written to CheCUDA, in C and C++: prints the results and the reason. */
#include <CheCUDA.h>
#include <stdio.h>

int main(void)
{
	if (ckptInit())
		return 1;
	printf("%d %d %s\n", ckptSelf(), ckptSelf(), gck_checkpoint_error());
	return 0;
}
