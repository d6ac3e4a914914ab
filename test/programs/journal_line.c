/* SPDX-License-Identifier: Apache-2.0
 * journal_line RECORD: print it as a line of gpuckptd's journal (model/journal.h). */
#define XXH_INLINE_ALL
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	printf("%016llx %s\n", (unsigned long long)XXH3_64bits(argv[1], strlen(argv[1])), argv[1]);
	return 0;
}
