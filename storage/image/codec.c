/* SPDX-License-Identifier: Apache-2.0
 * The stored bytes of a chunk: raw, an lz4 block or a zstd frame, each of them possibly
 * encrypted.
 *
 * lz4 and zstd up to level 3 process incompressible data at 5 to 13 GB/s. The slower levels
 * search it for matches at 10 to 270 MB/s; there zstd level 1 on samples decides first whether
 * compression is worth it. (The decision depends on the bytes alone: equal chunks are stored
 * equally.) */
#include <stdlib.h>
#include <string.h>

#include <lz4.h>
#include <lz4hc.h>
#include <zstd.h>

#include "storage/image/codec.h"

#define SAMPLES 8u
#define SAMPLE 2048u
#define SAMPLED_MIN (4 * SAMPLES * SAMPLE)
#define ZSTD_QUICK 3

struct gck_codec {
	enum gck_compress method;
	int level;
	const struct gck_job_key *seal;
	bool slow;           /* the method is slow: samples decide first */
	ZSTD_CCtx *zstd_out; /* NULL: neither the method nor samples need it */
	ZSTD_DCtx *zstd_in;  /* made when first needed */
	char buffer[GCK_CHUNK_MAX + GCK_CODEC_EXTRA];
};

struct gck_codec *gck_codec_new(enum gck_compress method, int level, const struct gck_job_key *seal,
				struct gck_error *err)
{
	struct gck_codec *c = calloc(1, sizeof *c);

	if (c) {
		c->method = method;
		c->level = level;
		c->seal = seal;
		c->slow = level > (method == GCK_COMPRESS_ZSTD ? ZSTD_QUICK : LZ4HC_CLEVEL_MIN - 1);
		if (c->slow || method == GCK_COMPRESS_ZSTD)
			c->zstd_out = ZSTD_createCCtx();
	}
	if (c && (c->zstd_out || (!c->slow && method != GCK_COMPRESS_ZSTD)))
		return c;
	free(c);
	gck_fail(err, ENOMEM, "no memory to compress");
	return NULL;
}

void gck_codec_free(struct gck_codec *c)
{
	if (!c)
		return;
	ZSTD_freeCCtx(c->zstd_out);
	ZSTD_freeDCtx(c->zstd_in);
	free(c);
}

/* Compress into the buffer. Returns the bytes there (less than size), or 0: not smaller. */
static size_t encode_lz4(struct gck_codec *c, const void *data, size_t size)
{
	int n;

	if (c->level < LZ4HC_CLEVEL_MIN)
		n = LZ4_compress_default(data, c->buffer, (int)size, (int)size - 1);
	else
		n = LZ4_compress_HC(data, c->buffer, (int)size, (int)size - 1, c->level);
	return n > 0 ? (size_t)n : 0;
}

static size_t encode_zstd(struct gck_codec *c, const void *data, size_t size)
{
	size_t n = ZSTD_compressCCtx(c->zstd_out, c->buffer, size - 1, data, size, c->level);

	return ZSTD_isError(n) ? 0 : n;
}

/* Do the samples shrink by at least 1/32? */
static bool pays(struct gck_codec *c, const char *data, size_t size)
{
	char samples[SAMPLES * SAMPLE], out[sizeof samples - sizeof samples / 32];

	if (!c->slow || size < SAMPLED_MIN)
		return true;
	for (size_t i = 0; i < SAMPLES; i++)
		memcpy(samples + i * SAMPLE, data + (size - SAMPLE) / (SAMPLES - 1) * i, SAMPLE);
	return !ZSTD_isError(ZSTD_compressCCtx(c->zstd_out, out, sizeof out, samples,
					       sizeof samples,
					       1));
}

/* Compress into the buffer. Returns the bytes there, or 0: the chunk stays uncompressed. */
static size_t compress(struct gck_codec *c, const void *data, size_t size)
{
	size_t n = 0;

	if (size > 1 && pays(c, data, size)) {
		if (c->method == GCK_COMPRESS_LZ4)
			n = encode_lz4(c, data, size);
		else if (c->method == GCK_COMPRESS_ZSTD)
			n = encode_zstd(c, data, size);
	}
	return n;
}

static uint32_t extra(const struct gck_codec *c)
{
	return c->seal ? GCK_CODEC_EXTRA : 0;
}

int gck_codec_encode(struct gck_codec *c, struct gck_chunk *chunk, void *at, struct gck_error *err)
{
	char *data = (char *)at + (c->seal ? GCK_CODEC_BEFORE : 0);
	size_t n = compress(c, data, chunk->size), size = n ? n : chunk->size;

	if (n)
		memcpy(data, c->buffer, n);
	chunk->stored = (uint32_t)size + extra(c);
	chunk->method = n ? (uint32_t)c->method : GCK_COMPRESS_NONE;
	return c->seal ? gck_chunk_encrypt(c->seal, chunk, at, size, err) : 0;
}

void *gck_codec_buffer(struct gck_codec *c)
{
	return c->buffer;
}

static size_t decode_zstd(struct gck_codec *c, const void *in, size_t stored, void *data,
			  size_t size)
{
	size_t n;

	if (!c->zstd_in && !(c->zstd_in = ZSTD_createDCtx()))
		return 0;
	n = ZSTD_decompressDCtx(c->zstd_in, data, size, in, stored);
	return ZSTD_isError(n) ? 0 : n;
}

static int decompress(struct gck_codec *c, const struct gck_chunk *chunk, const void *in,
		      size_t stored,
		      void *data, struct gck_error *err)
{
	size_t n = 0;
	int got;

	switch (chunk->method) {
	case GCK_COMPRESS_NONE:
		n = stored;
		if (in != data)
			memcpy(data, in, n);
		break;
	case GCK_COMPRESS_LZ4:
		got = LZ4_decompress_safe(in, data, (int)stored, (int)chunk->size);
		n = got > 0 ? (size_t)got : 0;
		break;
	case GCK_COMPRESS_ZSTD:
		n = decode_zstd(c, in, stored, data, chunk->size);
		break;
	}
	if (n != chunk->size)
		return gck_fail(err, EBADMSG, "damaged: it does not decompress");
	return 0;
}

/* A raw chunk is decrypted directly to data, a compressed one in place. */
int gck_codec_decode(struct gck_codec *c, const struct gck_chunk *chunk, void *in, void *data,
		     struct gck_error *err)
{
	void *to = chunk->method == GCK_COMPRESS_NONE ? data : (char *)in + GCK_CODEC_BEFORE;

	if (!c->seal)
		return decompress(c, chunk, in, chunk->stored, data, err);
	if (gck_chunk_decrypt(c->seal, chunk, in, to, err) < 0)
		return -1;
	return decompress(c, chunk, to, chunk->stored - GCK_CODEC_EXTRA, data, err);
}
