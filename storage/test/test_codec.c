/* SPDX-License-Identifier: Apache-2.0
 * Encoding of chunks: each level decodes to the same bytes; incompressible chunks are stored raw,
 * and slow levels do not search all of them for matches. */
#include "config.h"

#include "storage/image/codec.h"
#include "storage/test/util.h"
#include "test/support/tap.h"

#define SIZE GCK_CHUNK_MAX

static unsigned char in[SIZE], out[SIZE];

/* Encode and decode. Returns the stored bytes; 0: the decoded bytes differ. */
static size_t through(enum gck_compress method, int level, size_t size)
{
	static char buffer[SIZE + GCK_CODEC_EXTRA];
	struct gck_codec *c = gck_codec_new(method, level, NULL, NULL);
	struct gck_chunk chunk = { .size = (uint32_t)size };

	memcpy(buffer, in, size);
	memset(out, 0xee, sizeof out);
	if (gck_codec_encode(c, &chunk, buffer, NULL) < 0 ||
	    gck_codec_decode(c, &chunk, buffer, out, NULL) < 0 || memcmp(in, out, size) ||
	    (chunk.method == GCK_COMPRESS_NONE) != (chunk.stored == size))
		chunk.stored = 0;
	gck_codec_free(c);
	return chunk.stored;
}

static void text(size_t size)
{
	for (size_t i = 0; i < size; i++)
		in[i] = (unsigned char)("the same words again and again, "[rnd() % 32]);
}

/* Samples miss a repetition that is longer than they are, which shows that they are used. */
static void repeat_noise(void)
{
	fill(in, SIZE / 2, 7);
	memcpy(in + SIZE / 2, in, SIZE / 2);
}

static void test_levels(enum gck_compress method, const int *levels, size_t n, const char *name)
{
	const size_t sizes[] = { 1, 2, 100, 4096, 65535, 65536, 100001, SIZE };

	for (size_t i = 0; i < n; i++) {
		bool back = true, smaller = true;

		for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
			fill(in, sizes[k], k);
			back &= through(method, levels[i], sizes[k]) == sizes[k];
			text(sizes[k]);
			smaller &= through(method, levels[i],
					   sizes[k]) < sizes[k] || sizes[k] < 4096;
			back &= through(method, levels[i], sizes[k]) > 0;
		}
		ok(all_of(back, smaller), "%s level %d", name, levels[i]);
	}
}

int main(void)
{
	const int lz4[] = { 0, 1, 2, 3, 9, 12 }, zstd[] = { 0, 1, 3, 4, 9, 19 };

	test_levels(GCK_COMPRESS_LZ4, lz4, 6, "lz4");
	test_levels(GCK_COMPRESS_ZSTD, zstd, 6, "zstd");
	repeat_noise();
	ok(through(GCK_COMPRESS_ZSTD, 3, SIZE) < SIZE * 3 / 4, "a fast level compresses all bytes");
	is_int((long long)through(GCK_COMPRESS_ZSTD, 9, SIZE), SIZE,
	       "a slow level tries samples first: zstd");
	is_int((long long)through(GCK_COMPRESS_LZ4, 9, SIZE), SIZE,
	       "a slow level tries samples first: lz4");
	text(SIZE);
	fill(in, SIZE / 2, 9);
	ok(through(GCK_COMPRESS_ZSTD, 9, SIZE) < SIZE * 9 / 10,
	   "a chunk of which half shrinks is compressed");
	return tap_done();
}
