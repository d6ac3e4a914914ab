/* SPDX-License-Identifier: Apache-2.0
 * Documents with tables: gck_json_parse takes what jansson takes, and means the same by it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "storage/document/hex_table.h"
#include "storage/document/json.h"

static void must(bool is)
{
	if (!is)
		abort();
}

/* Rows of a text that was packed, and of the same as it was. */
static void same_rows(const json_t *value, const json_t *plain)
{
	unsigned width = 1 + json_string_length(plain) % 7;
	struct gck_hex_table a = { 0 }, b = { 0 };
	int taken = gck_hex_table_load(&a, width, plain, NULL);

	must(gck_hex_table_load(&b, width, value, NULL) == taken && a.n == b.n);
	must(gck_hex_table_count(width, value) == gck_hex_table_count(width, plain));
	for (size_t i = 0; i < a.n; i++)
		must(gck_hex_table_get(&a, i, 0, width) == gck_hex_table_get(&b, i, 0, width));
	gck_hex_table_clear(&a);
	gck_hex_table_clear(&b);
}

static void same(const json_t *value, const json_t *plain)
{
	void *at = json_object_iter((json_t *)plain);

	if (gck_packed_hex_is(value))
		return same_rows(value, plain);
	must(json_typeof(value) == json_typeof(plain) &&
	     json_object_size(value) == json_object_size(plain) &&
	     json_array_size(value) == json_array_size(plain));
	for (; at; at = json_object_iter_next((json_t *)plain, at))
		same(json_object_get(value, json_object_iter_key(at)), json_object_iter_value(at));
	for (size_t i = 0; i < json_array_size(plain); i++)
		same(json_array_get(value, i), json_array_get(plain, i));
	must(json_is_object(plain) || json_is_array(plain) || json_equal(value, plain));
}

static void same_text(const json_t *value, const json_t *plain)
{
	char *text = gck_json_text(value);
	json_t *again = json_loads(text, 0, NULL);

	must(json_equal(again, plain));
	json_decref(again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(1, size + 1);
	json_t *plain = json_loadb((const char *)data, size, 0, NULL), *value;
	struct gck_error err = { 0 };

	memcpy(text, data, size);
	value = gck_json_parse(text, size, &err);
	free(text);
	must(!value == !plain && err.code == (value ? 0 : EBADMSG));
	if (value) {
		same(value, plain);
		same_text(value, plain);
	}
	json_decref(value);
	json_decref(plain);
	return 0;
}
