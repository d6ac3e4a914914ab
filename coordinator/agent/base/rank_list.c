/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/agent/base/rank_list.h"

#include <stdio.h>
#include <stdlib.h>

bool rank_list_write(char text[RANK_LIST_MAX], const uint32_t *ranks, size_t n)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0, last; i < n && used < RANK_LIST_MAX; i = last + 1) {
		size_t left = RANK_LIST_MAX - used;
		const char *comma = i ? "," : "";

		for (last = i; last + 1 < n && ranks[last + 1] == ranks[last] + 1;)
			last++;
		used += (size_t)(last == i ? snprintf(text + used, left, "%s%u", comma, ranks[i])
					   : snprintf(text + used, left, "%s%u-%u", comma, ranks[i],
						      ranks[last]));
	}
	return used < RANK_LIST_MAX;
}

bool rank_list_next(const char **text, uint32_t *first, uint32_t *last)
{
	int used = 0;

	if (sscanf(*text, "%u-%u%n", first, last, &used) != 2) {
		if (sscanf(*text, "%u%n", first, &used) != 1)
			return false;
		*last = *first;
	}
	*text += used;
	*text += **text == ',';
	return *first <= *last;
}
