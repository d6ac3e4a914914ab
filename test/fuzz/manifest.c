/* SPDX-License-Identifier: Apache-2.0
 * Manifests: a table of chunks that is taken has each chunk within an object that it names. */
#include <stdint.h>
#include <stdlib.h>

#include "storage/document/document.h"
#include "storage/document/json.h"
#include "storage/store/chunks.h"

/* In place of document.c, which has all of encryption. */
bool gck_document_is_encrypted(const json_t *document)
{
	return json_object_get(document, "sealed") != NULL;
}

static void check_chunks(const json_t *manifest, const struct gck_chunks *c)
{
	size_t objects = json_array_size(gck_manifest_objects(manifest, NULL));
	uint64_t *reach = calloc(objects + 1, sizeof *reach);

	for (size_t i = 0; i < c->rows.n; i++) {
		const struct gck_chunk x = gck_chunks_at(c, i);

		if (x.object >= objects || !x.size || x.size > GCK_CHUNK_MAX)
			abort();
	}
	gck_chunks_reach(c, reach);
	for (size_t i = 0; i < objects; i++)
		if (reach[i] > GCK_OBJECT_STORED_MAX)
			abort();
	free(reach);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = calloc(1, size + 1);
	struct gck_error err = { 0 };
	struct gck_chunks c;
	json_t *manifest;

	for (size_t i = 0; i < size; i++)
		text[i] = (char)data[i];
	manifest = gck_json_parse(text, size, NULL);
	if (manifest && gck_chunks_load(manifest, &c, &err) == 0) {
		check_chunks(manifest, &c);
		gck_chunks_clear(&c);
	}
	json_decref(manifest);
	free(text);
	return 0;
}
