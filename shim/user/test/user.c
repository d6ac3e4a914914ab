/* SPDX-License-Identifier: Apache-2.0
 * A user's program in C and C++: prints the results and the reason. */
#include <gpuckpt.h>
#include <stdio.h>

int main(void)
{
	int one = gck_checkpoint(), all = gck_checkpoint_all();

	printf("%d %d %s\n", one, all, gck_checkpoint_error());
	return 0;
}
