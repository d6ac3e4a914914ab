/* SPDX-License-Identifier: Apache-2.0
 * What several ranks have stored: an object that more than one of them has put lies there once. */
#include "storage/image/image.h"

static bool is_object(const char *name, const json_t *size)
{
	struct gck_hash hash;

	return gck_hash_parse(name, &hash, NULL) == 0 && json_is_integer(size) && json_integer_value(size) >= 0;
}

uint64_t gck_shared_objects_count(json_t *all, size_t most, const json_t *common, uint64_t stored)
{
	const char *name;
	json_t *size;

	json_object_foreach((json_t *)common, name, size) {
		uint64_t bytes = (uint64_t)json_integer_value(size);

		if (!is_object(name, size))
			continue;
		if (json_object_get(all, name))
			stored -= bytes < stored ? bytes : stored;
		else if (json_object_size(all) < most)
			json_object_set_new(all, name, json_integer((json_int_t)bytes));
	}
	return stored;
}
