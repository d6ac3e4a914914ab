/* SPDX-License-Identifier: Apache-2.0
 * What several ranks have stored: an object that more than one of them has put lies there once. */
#include "storage/store.h"

uint64_t gck_totals_add(json_t *all, size_t most, const json_t *common, uint64_t stored)
{
	const char *name;
	json_t *size;

	json_object_foreach((json_t *)common, name, size) {
		uint64_t bytes = (uint64_t)json_integer_value(size);

		if (json_object_get(all, name))
			stored -= bytes < stored ? bytes : stored;
		else if (json_object_size(all) < most)
			json_object_set(all, name, size);
	}
	return stored;
}
