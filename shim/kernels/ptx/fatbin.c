/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/kernels/ptx/fatbin.h"

#include <dlfcn.h>
#include <errno.h>
#include <lz4.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define FATBIN 0xba55ed50
#define WRAPPER 0x466243b1 /* a compiled program's */
#define WRAPPER_VERSION 1  /* later ones point to several fatbins to be linked */

/* Flags of an entry. */
#define LZ4 0x2000
#define ZSTD 0x8000

#define TEXT_MOST ((uint64_t)1 << 30)

struct wrapper {
	uint32_t magic, version;
	const void *fatbin;
};

struct head {
	uint32_t magic;
	uint16_t version, size;
	uint64_t entries_size;
};

static uint32_t magic_of(const void *image, size_t size)
{
	uint32_t magic = 0;

	if (size >= sizeof magic)
		memcpy(&magic, image, sizeof magic);
	return magic;
}

static bool is_wrapper(const void *image, size_t size)
{
	return size == SIZE_MAX && magic_of(image, size) == WRAPPER;
}

bool gck_fatbin_is(const void *image, size_t size)
{
	return magic_of(image, size) == FATBIN || is_wrapper(image, size);
}

/* ---- decompression -------------------------------------------------------------------------- */

/* The libraries are opened when they are needed: each is one more in a program's address space. */
static void *library_function(const char *library, const char *name, struct gck_error *err)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	void *function = handle ? dlsym(handle, name) : NULL;

	if (!function)
		gck_fail(err, ENOENT, "a fatbin is compressed, and %s cannot be opened",
			 library);
	return function;
}

static int by_lz4(const char *in, size_t n, char *text, size_t size, struct gck_error *err)
{
	__typeof__(&LZ4_decompress_safe) decompress;

	*(void **)&decompress = library_function("liblz4.so.1", "LZ4_decompress_safe", err);
	if (!decompress)
		return -1;
	if (decompress(in, text, (int)n, (int)size) != (int)size)
		return gck_fail(err, EINVAL, "a compressed part of a fatbin is damaged");
	return 0;
}

static int by_zstd(const char *in, size_t n, char *text, size_t size, struct gck_error *err)
{
	__typeof__(&ZSTD_decompress) decompress;

	*(void **)&decompress = library_function("libzstd.so.1", "ZSTD_decompress", err);
	if (!decompress)
		return -1;
	if (decompress(text, size, in, n) != size)
		return gck_fail(err, EINVAL, "a compressed part of a fatbin is damaged");
	return 0;
}

char *gck_fatbin_content(const struct gck_fatbin_entry *e, const char *content,
			 struct gck_error *err)
{
	bool is_compressed = e->flags & (LZ4 | ZSTD);
	size_t n = is_compressed ? e->compressed_size : e->content_size;
	size_t size = is_compressed ? e->text_size : n;
	char *text;

	if (n > e->content_size || n > TEXT_MOST || size > TEXT_MOST) {
		gck_fail(err, EINVAL, "sizes in a fatbin do not fit");
		return NULL;
	}
	text = malloc(size + 1);
	if (!text) {
		gck_fail(err, ENOMEM, "no memory");
		return NULL;
	}
	text[size] = '\0';
	if (!is_compressed)
		memcpy(text, content, n);
	else if (e->flags & ZSTD ? by_zstd(content, n, text, size, err)
				 : by_lz4(content, n, text, size, err)) {
		free(text);
		return NULL;
	}
	return text;
}

/* ---- entries -------------------------------------------------------------------------------- */

const void *gck_fatbin_find(const void *image, size_t *size, struct gck_error *err)
{
	struct wrapper wrapper;
	struct head head;

	if (is_wrapper(image, *size)) {
		memcpy(&wrapper, image, sizeof wrapper);
		image = wrapper.version == WRAPPER_VERSION ? wrapper.fatbin : NULL;
	}
	if (image && *size >= sizeof head)
		memcpy(&head, image, sizeof head);
	if (!image || *size < sizeof head || head.magic != FATBIN || head.version != 1 ||
	    head.size < sizeof head || head.size > *size ||
	    head.entries_size > *size - head.size) {
		gck_fail(err, EINVAL, "a fatbin of an unknown kind, or a part of one");
		return NULL;
	}
	*size = head.size + head.entries_size;
	return image;
}

int gck_fatbin_next(const void *fatbin, size_t size, size_t *at, struct gck_fatbin_entry *e,
		    const char **content, struct gck_error *err)
{
	struct head head;

	memcpy(&head, fatbin, sizeof head);
	if (!*at)
		*at = head.size;
	if (size - *at < sizeof *e)
		return 0;
	memcpy(e, (const char *)fatbin + *at, sizeof *e);
	if (e->size < sizeof *e || e->size > size - *at ||
	    e->content_size > size - *at - e->size)
		return gck_fail(err, EINVAL, "sizes in a fatbin do not fit");
	*content = (const char *)fatbin + *at + e->size;
	*at += e->size + e->content_size;
	return 1;
}

/* ---- choosing ------------------------------------------------------------------------------- */

static bool fits(const struct gck_fatbin_entry *e, unsigned capability)
{
	const uint64_t only = GCK_FATBIN_THIS_GPU | GCK_FATBIN_THIS_FAMILY;

	return e->kind == GCK_FATBIN_PTX && e->capability <= capability &&
	       (e->capability == capability || !(e->flags & only));
}

/* Of the same capability that for no other GPU is the better one, as for the driver. */
static bool is_better(const struct gck_fatbin_entry *e, const struct gck_fatbin_entry *best)
{
	return e->capability > best->capability ||
	       (e->capability == best->capability && e->flags & GCK_FATBIN_THIS_GPU);
}

/* A compiled program's structure of a later kind is no error. */
static bool is_linked_later(const void *image, size_t size)
{
	struct wrapper wrapper = {.version = WRAPPER_VERSION};

	if (is_wrapper(image, size))
		memcpy(&wrapper, image, sizeof wrapper);
	return wrapper.version != WRAPPER_VERSION;
}

char *gck_fatbin_ptx(const void *image, size_t size, unsigned capability, struct gck_error *err)
{
	struct gck_fatbin_entry e, best = {.size = 0};
	const char *content = NULL, *chosen = NULL;
	const void *fatbin;
	size_t at = 0;
	int more;

	if (is_linked_later(image, size))
		return NULL;
	fatbin = gck_fatbin_find(image, &size, err);
	if (!fatbin)
		return NULL;
	while ((more = gck_fatbin_next(fatbin, size, &at, &e, &content, err)) > 0)
		if (fits(&e, capability) && (!chosen || is_better(&e, &best))) {
			best = e;
			chosen = content;
		}
	return more == 0 && chosen ? gck_fatbin_content(&best, chosen, err) : NULL;
}
