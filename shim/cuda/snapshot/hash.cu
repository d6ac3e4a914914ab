/* SPDX-License-Identifier: Apache-2.0
 * XXH3-128 (seed 0, the default secret) of page groups of device memory, as the store hashes
 * chunks: unchanged data are recognized without leaving the device. It follows the algorithm's
 * description in xxHash/doc/xxhash_spec.md. `make hash-ptx` makes hash.ptx. Each page group has
 * eight lanes, one for each of the algorithm's eight accumulators. The blocks of a page group are
 * hashed one after the other, many page groups at once. Page groups consist of whole pages, so only
 * the long form is needed, and the last stripe is the end of the last block. */
#include <stdint.h>

#define PAGE_GROUP (256u * 1024)
#define BLOCK 1024u /* bytes between two scrambles */
#define STRIPE 64u
#define LANES 8u

#define P32_1 0x9E3779B1ull
#define P32_2 0x85EBCA77ull
#define P32_3 0xC2B2AE3Dull
#define P64_1 0x9E3779B185EBCA87ull
#define P64_2 0xC2B2AE3D27D4EB4Full
#define P64_3 0x165667B19E3779F9ull
#define P64_4 0x85EBCA77C2B2AE63ull
#define P64_5 0x27D4EB2F165667C5ull

/* The default secret's 192 bytes, as little-endian words. */
__constant__ uint64_t secret[24] = {
	0xbe4ba423396cfeb8ull, 0x1cad21f72c81017cull, 0xdb979083e96dd4deull, 0x1f67b3b7a4a44072ull,
	0x78e5c0cc4ee679cbull, 0x2172ffcc7dd05a82ull, 0x8e2443f7744608b8ull, 0x4c263a81e69035e0ull,
	0xcb00c391bb52283cull, 0xa32e531b8b65d088ull, 0x4ef90da297486471ull, 0xd8acdea946ef1938ull,
	0x3f349ce33f76faa8ull, 0x1d4f0bc7c7bbdcf9ull, 0x3159b4cd4be0518aull, 0x647378d9c97e9fc8ull,
	0xc3ebd33483acc5eaull, 0xeb6313faffa081c5ull, 0x49daf0b751dd0d17ull, 0x9e68d429265516d3ull,
	0xfca1477d58be162bull, 0xce31d07ad1b8f88full, 0x280416958f3acb45ull, 0x7e404bbbcafbd7afull,
};
__constant__ uint64_t begin[LANES] = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};

/* Eight bytes of the secret from any offset on. */
static __device__ uint64_t secret_at(unsigned byte)
{
	unsigned shift = byte % 8 * 8;
	uint64_t low = secret[byte / 8] >> shift;

	return shift ? low | secret[byte / 8 + 1] << (64 - shift) : low;
}

static __device__ uint64_t fold(uint64_t a, uint64_t b)
{
	return a * b ^ __umul64hi(a, b);
}

static __device__ uint64_t avalanche(uint64_t h)
{
	h ^= h >> 37;
	h *= 0x165667919E3779F9ull;
	return h ^ h >> 32;
}

/* Merge the eight accumulators into one word, with the secret from an offset on. All lanes have
 * the result. */
static __device__ uint64_t merge(uint64_t acc, unsigned lane, unsigned byte, uint64_t start,
				 unsigned mask)
{
	uint64_t other, sum;

	acc ^= secret_at(byte + 8 * lane);
	other = __shfl_xor_sync(mask, acc, 1, LANES);
	sum = fold(acc, other); /* the same in both lanes of a pair */
	sum += __shfl_xor_sync(mask, sum, 2, LANES);
	sum += __shfl_xor_sync(mask, sum, 4, LANES);
	return avalanche(start + sum);
}

/* A stripe's word adds this to its own lane; the word itself is added to the neighbour's. */
static __device__ uint64_t product(uint64_t word, uint64_t key)
{
	uint64_t mixed = word ^ key;

	return (mixed & 0xffffffff) * (mixed >> 32);
}

/* The hash of a page group, low word first as XXH3 names them. `data` is this lane's word of the
 * first stripe. */
static __device__ void hash(const uint64_t *data, uint64_t size, unsigned lane, unsigned mask,
			    uint64_t out[2])
{
	const unsigned per_block = BLOCK / STRIPE, blocks = (unsigned)(size / BLOCK);
	uint64_t acc = begin[lane], key[BLOCK / STRIPE];

#pragma unroll
	for (unsigned i = 0; i < per_block; i++)
		key[i] = secret[i + lane];
	for (unsigned b = 0; b < blocks; b++) {
		bool last = b + 1 == blocks;
		uint64_t word[BLOCK / STRIPE], words = 0;

#pragma unroll
		for (unsigned i = 0; i < per_block; i++)
			word[i] = __ldcs(data + (b * per_block + i) * LANES);
		if (last)
			key[per_block - 1] = secret_at(192 - STRIPE - 7 + 8 * lane);
#pragma unroll
		for (unsigned i = 0; i < per_block; i++) {
			acc += product(word[i], key[i]);
			words += word[i];
		}
		acc += __shfl_xor_sync(mask, words, 1, LANES);
		if (!last)
			acc = (acc ^ acc >> 47 ^ secret[16 + lane]) * P32_1;
	}
	out[0] = merge(acc, lane, 11, size * P64_1, mask);
	out[1] = merge(acc, lane, 192 - STRIPE - 11, ~(size * P64_2), mask);
}

/* A hash for each multiple of PAGE_GROUP that [address, address + size) touches, of the part inside
 * the range: high word, low word. address and size are multiples of 4096. */
extern "C" __global__ void gck_hash_kernel(uint64_t address, uint64_t size, uint64_t *out)
{
	uint64_t n = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) / LANES;
	unsigned lane = threadIdx.x % LANES, mask = 0xffu << (threadIdx.x % 32 / LANES * LANES);
	uint64_t start = (address / PAGE_GROUP + n) * PAGE_GROUP, end = start + PAGE_GROUP, h[2];

	start = start < address ? address : start;
	end = end > address + size ? address + size : end;
	if (start >= end)
		return;
	hash((const uint64_t *)start + lane, end - start, lane, mask, h);
	if (lane == 0) {
		out[2 * n] = h[1];
		out[2 * n + 1] = h[0];
	}
}
