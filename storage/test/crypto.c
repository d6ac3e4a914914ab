/* SPDX-License-Identifier: Apache-2.0
 * XAES-256-GCM with its published vectors, and encrypted texts that must be refused. */
#include <stdio.h>
#include <string.h>

#include "common/base/encoding.h"
#include "storage/crypto/crypto.h"
#include "test/support/tap.h"

/* c2sp.org/XAES-256-GCM, "Test Vectors". */
static void test_vectors(void)
{
	static const struct {
		int key;
		const char *bound, *sealed;
	} v[] = {
		{ 0x01, "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271" },
		{ 0x03, "c2sp.org/XAES-256-GCM",
		  "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d" },
	};
	static const char text[] = "XAES-256-GCM";

	for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
		unsigned char key[GCK_CRYPTO_KEY], out[sizeof text - 1 + GCK_CRYPTO_TAG];
		char said[2 * sizeof out + 1], back[sizeof text] = "";
		const unsigned char *nonce = (const unsigned char *)"ABCDEFGHIJKLMNOPQRSTUVWX";
		struct gck_associated_data bound = { v[i].bound, strlen(v[i].bound) };

		memset(key, v[i].key, sizeof key);
		ok(gck_crypto_encrypt(key, nonce, bound, text, sizeof text - 1, out, NULL) == 0,
		   "vector %zu is encrypted", i);
		gck_hex(out, sizeof out, said);
		ok(!strcmp(said, v[i].sealed), "%s", said);
		ok(all_of(gck_crypto_decrypt(key, nonce, bound, out, sizeof text - 1, back,
					     NULL) == 0,
			  !strcmp(back, text)), "and decrypted: %s", back);
	}
}

static bool opens(const unsigned char *key, const unsigned char *nonce, const char *bound,
		  const unsigned char *in, size_t size)
{
	unsigned char out[256];
	struct gck_error err = { 0 };
	int rc = gck_crypto_decrypt(key, nonce, (struct gck_associated_data){ bound,
				    strlen(bound) }, in, size, out,
				 &err);

	return rc == 0 || err.code != EBADMSG;
}

static void test_wrong(void)
{
	unsigned char key[GCK_CRYPTO_KEY] = {7}, nonce[GCK_CRYPTO_NONCE],
		      sealed[100 + GCK_CRYPTO_TAG];
	bool any = false;

	must(gck_crypto_random(nonce, sizeof nonce, NULL));
	memset(sealed, 'x', 100);
	ok(all_of(gck_crypto_encrypt(key, nonce, (struct gck_associated_data){"it", 2}, sealed, 100,
				     sealed, NULL) == 0,
		  opens(key, nonce, "it", sealed, 100)),
	   "encrypted in place");
	for (size_t i = 0; i < sizeof sealed * 8; i++) {
		sealed[i / 8] ^= (unsigned char)(1u << i % 8);
		any |= opens(key, nonce, "it", sealed, 100);
		sealed[i / 8] ^= (unsigned char)(1u << i % 8);
	}
	ok(!any, "a changed bit of it is refused");
	for (size_t i = 0; i < sizeof nonce * 8; i++) {
		nonce[i / 8] ^= (unsigned char)(1u << i % 8);
		any |= opens(key, nonce, "it", sealed, 100);
		nonce[i / 8] ^= (unsigned char)(1u << i % 8);
	}
	ok(!any, "a changed bit of the nonce too");
	key[31] ^= 1;
	ok(!opens(key, nonce, "it", sealed, 100), "another key does not decrypt it");
	key[31] ^= 1;
	ok(all_of(!opens(key, nonce, "is", sealed, 100), !opens(key, nonce, "", sealed, 100)),
	   "nor do other associated data");
	ok(!opens(key, nonce, "it", sealed, 99), "nor a shorter text");
	ok(opens(key, nonce, "it", sealed, 100), "unchanged it is decrypted");
}

int main(void)
{
	test_vectors();
	test_wrong();
	return tap_done();
}
