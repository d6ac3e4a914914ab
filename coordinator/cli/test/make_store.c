/* SPDX-License-Identifier: Apache-2.0
 * make_store DIRECTORY JOB STEP N: a store of cluster "test" with N commits, for tests of gpuckpt.
 * Prints [{"seq","hash"},...]. */
#include "config.h"

#include "storage/store/commit.h"
#include "storage/store/store.h"
#include "storage/test/util.h"

int main(int argc, char **argv)
{
	uint64_t seeds[2] = { 1, 0 };
	struct gck_error err = { 0 };
	json_t *out = json_array();
	struct gck_store *s;
	char url[4096], hash[GCK_HASH_TEXT];
	int n;

	if (argc != 5)
		return 2;
	n = atoi(argv[4]);
	snprintf(url, sizeof url, "file:%s", argv[1]);
	s = gck_store_open(url, "test", (uint32_t)atoi(argv[2]), (uint32_t)atoi(argv[3]), true,
			   &err);
	for (int i = 1; s && i <= n; i++) {
		json_t *commit;

		seeds[1] = (uint64_t)i + 1;
		if (checkpoint(s, (uint32_t)i, "a", GCK_COMPRESS_NONE, (uint32_t)i - 1, seeds, 2,
			       5000, &err) < 0)
			break;
		commit = gck_store_read_commit(s, (uint32_t)i, NULL, hash, &err);
		json_array_append_new(out, json_pack("{s:i, s:s}", "seq", i, "hash", hash));
		json_decref(commit);
	}
	if (err.code)
		fprintf(stderr, "make_store: %s\n", err.text);
	json_dumpf(out, stdout, JSON_COMPACT);
	json_decref(out);
	gck_store_close(s);
	return err.code != 0;
}
