/* SPDX-License-Identifier: Apache-2.0
 * kernels_fatbin: the PTX of fatbins that are made here. kernels_fatbin FILE CAPABILITY prints that
 * of a file, for a GPU of this capability. */
#include <lz4.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "shim/kernels/ptx/fatbin.h"
#include "test/support/tap.h"

#define LZ4 0x2000
#define ZSTD 0x8000
#define THIS_GPU 0x100000

/* ---- making them ---------------------------------------------------------------------------- */

static char made[1 << 16];
static size_t made_size;

static void put(const void *bytes, size_t n)
{
	must(made_size + n <= sizeof made ? 0 : -1);
	memcpy(made + made_size, bytes, n);
	made_size += n;
}

static void put_head(void)
{
	uint16_t words[] = {1, 16};
	uint64_t size = made_size ? made_size - 16 : 0;

	must(made_size == 0 || made_size >= 16 ? 0 : -1);
	memcpy(made, &(uint32_t){0xba55ed50}, 4);
	memcpy(made + 4, words, 4);
	memcpy(made + 8, &size, 8);
}

static void begin(void)
{
	made_size = 0;
	put_head();
	made_size = 16;
}

static void add(uint16_t kind, uint32_t capability, uint64_t flags, const char *text)
{
	char content[4096] = "";
	uint64_t size = strlen(text) + 1, n = size, padded;
	uint16_t kinds[] = {kind, 0x101};
	uint32_t head_size = 80;
	bool is_compressed = flags & (ZSTD | LZ4);

	if (flags & ZSTD)
		n = ZSTD_compress(content, sizeof content, text, size, 3);
	else if (flags & LZ4)
		n = (uint64_t)LZ4_compress_default(text, content, (int)size, sizeof content);
	else
		memcpy(content, text, size);
	padded = (n + 7) / 8 * 8;
	put(kinds, 4);
	put(&head_size, 4);
	put(&padded, 8);
	put((uint32_t[]){is_compressed ? (uint32_t)n : 0, 64, 0x90000, capability, 0, 0}, 24);
	put(&flags, 8);
	put(&(uint64_t){0}, 8);
	put((uint64_t[]){is_compressed ? size : 0, 0, 0}, 24);
	put(content, padded);
	put_head();
}

/* ---- reading them --------------------------------------------------------------------------- */

static void gives(unsigned capability, const char *wanted, const char *name)
{
	struct gck_error err = {0};
	char *text = gck_fatbin_ptx(made, made_size, capability, &err);

	ok(all_of(wanted ? text && !strcmp(text, wanted) : !text, !*err.text), "%s", name);
	free(text);
}

static void fails(const void *image, size_t size, const char *why, const char *name)
{
	struct gck_error err = {0};
	char *text = gck_fatbin_ptx(image, size, 90, &err);

	ok(all_of(!text, !strcmp(err.text, why)), "%s", name);
	free(text);
}

static void check_choice(void)
{
	begin();
	add(2, 90, 0, "compiled");
	add(1, 75, 0, "for 75");
	add(1, 90, 0, "for 90");
	add(1, 90, THIS_GPU, "for 90a");
	add(1, 100, THIS_GPU, "for 100a");
	add(1, 100, 0, "for 100");
	gives(70, NULL, "none: all are for later GPUs");
	gives(80, "for 75", "the highest that is not above");
	gives(90, "for 90a", "that of this GPU alone");
	gives(100, "for 100a", "that of this GPU alone, before the other");
	gives(103, "for 100", "not that of another GPU alone");
	begin();
	gives(90, NULL, "none: it is empty");
}

static void check_compressed(void)
{
	char text[2048] = "";

	for (int i = 0; i < 100; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "mov.u32 %%r%d;\n", i);
	begin();
	add(1, 80, LZ4, text);
	gives(90, text, "LZ4");
	add(1, 90, ZSTD, text);
	gives(90, text, "zstd");
	made[made_size - 20] ^= 0x55;
	fails(made, made_size, "a compressed part of a fatbin is damaged", "damaged text");
}

/* The contents of all parts, and how it ended. */
static void list(size_t size, char found[200], struct gck_error *err)
{
	const void *fatbin = gck_fatbin_find(made, &size, err);
	struct gck_fatbin_entry e;
	const char *content;
	size_t at = 0;
	int more = fatbin ? 1 : -1;

	found[0] = '\0';
	while (more > 0 && (more = gck_fatbin_next(fatbin, size, &at, &e, &content, err)) > 0) {
		char *part = gck_fatbin_content(&e, content, err);

		sprintf(found + strlen(found), "%d %.40s,", e.kind, part ? part : "?");
		free(part);
	}
	sprintf(found + strlen(found), "%d", more);
}

static void check_each(void)
{
	struct gck_error err = {0};
	char found[200];

	begin();
	add(2, 90, ZSTD, "compiled");
	add(1, 75, 0, "for 75");
	add(4, 90, 0, "of another kind");
	add(1, 90, LZ4, "for 90");
	list(made_size, found, &err);
	is_str(found, "2 compiled,1 for 75,4 of another kind,1 for 90,0", "all parts");
	list(made_size - 9, found, &err);
	ok(!strcmp(found, "-1") && *err.text, "a cut one: %s", err.text);
}

static void check_wrapper(void)
{
	struct {
		uint32_t magic, version;
		const void *fatbin, *more;
	} w = {0x466243b1, 1, made, NULL};
	struct gck_error err = {0};
	char *text;

	begin();
	add(1, 80, 0, "text");
	text = gck_fatbin_ptx(&w, SIZE_MAX, 90, &err);
	ok(all_of(gck_fatbin_is(&w, SIZE_MAX), text && !strcmp(text, "text")),
	   "the structure of a compiled program");
	free(text);
	ok(!gck_fatbin_is(&w, sizeof w), "not in a file, where it is no address");
	w.version = 2;
	ok(!gck_fatbin_ptx(&w, SIZE_MAX, 90, &err) && !*err.text, "not one of several fatbins");
}

/* Under a sanitizer nothing beside the bytes is read. */
static void check_damage(void)
{
	char *copy, *text;
	unsigned found = 0;

	begin();
	add(1, 75, LZ4, "some text some text some text");
	add(1, 80, ZSTD, "more text more text more text");
	for (size_t cut = 0; cut < made_size; cut++) {
		copy = malloc(cut);
		if (cut)
			memcpy(copy, made, cut);
		text = gck_fatbin_ptx(copy, cut, 90, &(struct gck_error){0});
		found += text != NULL;
		free(text);
		free(copy);
	}
	is_int((long)found, 0, "a part of one gives no text");
	for (size_t i = 0; i < 8 * made_size; i++) {
		copy = malloc(made_size);
		memcpy(copy, made, made_size);
		copy[i / 8] ^= (char)(1 << i % 8);
		free(gck_fatbin_ptx(copy, made_size, 90, &(struct gck_error){0}));
		free(copy);
	}
	ok(true, "no bit that is flipped does harm");
	fails("\x50\xed\x55\xba\2", 5, "a fatbin of an unknown kind, or a part of one",
	      "another version");
}

static int print(const char *path, const char *capability)
{
	FILE *in = fopen(path, "r");
	struct gck_error err = {0};
	char *text;

	if (!in)
		return 99;
	made_size = fread(made, 1, sizeof made, in);
	fclose(in);
	text = gck_fatbin_ptx(made, made_size, (unsigned)atoi(capability), &err);
	if (!text)
		return fprintf(stderr, "%s\n", *err.text ? err.text : "none"), 1;
	fputs(text, stdout);
	free(text);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return print(argv[1], argv[2]);
	check_choice();
	check_compressed();
	check_each();
	check_wrapper();
	check_damage();
	return tap_done();
}
