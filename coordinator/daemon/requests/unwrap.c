/* SPDX-License-Identifier: Apache-2.0
 * "unwrap": jobs' data keys for their owners. What is answered is a credential that munge encrypts for
 * that user. */
#include "coordinator/daemon/requests/requests.h"

#include <string.h>

#include "common/base/hex.h"
#include "common/base/log.h"

static void answer(struct gck_peer *peer, json_int_t id, json_t *rest)
{
	json_t *body = json_pack("{s:s, s:I}", "op", "unwrapped", "id", id);

	json_object_update(body, rest);
	json_decref(rest);
	gck_peer_send(peer, body);
	json_decref(body);
}

static json_t *unwrap(const struct gck_peer *peer, const char *wrapped, struct gck_error *err)
{
	unsigned char key[GCK_CRYPTO_KEY];
	char text[2 * sizeof key + 1];
	json_t *out;

	if (gck_wrapping_unwrap(&peer->daemon->wrapping, wrapped, peer->uid, key, err) < 0)
		return json_pack("{s:s, s:i}", "error", err->text, "code", err->code);
	gck_hex(key, sizeof key, text);
	out = json_pack("{s:s}", "data", text);
	explicit_bzero(text, sizeof text);
	explicit_bzero(key, sizeof key);
	return out;
}

void gck_unwrap_message(struct gck_peer *peer, const json_t *body)
{
	struct gck_error err = {0};
	const char *wrapped = "";
	json_int_t id = 0;

	gck_wrapping_renew(&peer->daemon->wrapping);
	if (json_unpack((json_t *)body, "{s:I, s:s}", "id", &id, "key", &wrapped))
		gck_fail(&err, EINVAL, "unwrap is malformed");
	answer(peer, id, err.code ? json_pack("{s:s, s:i}", "error", err.text, "code", err.code) :
				    unwrap(peer, wrapped, &err));
	if (err.code)
		gck_info("unwrap by user %u is refused: %s", (unsigned)peer->uid, err.text);
}
