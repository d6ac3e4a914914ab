/* SPDX-License-Identifier: Apache-2.0
 * URLs and keys from gpuckptd over a connection of one's own: the CLI's, and that of an agent's process that
 * needs one before the agent is connected. */
#include <pwd.h>
#include <string.h>

#include "common/wire/wire.h"
#include "coordinator/sign/signer.h"

#define CONNECT_MS 5000

struct link {
	const struct gck_conf *conf;
	struct gck_wire *wire; /* NULL: none */
};

static int open_link(struct link *l, struct gck_error *err)
{
	const struct passwd *pw = getpwnam(l->conf->user);

	if (!pw)
		return gck_fail(err, ENOENT, "CoordinatorUser=%s: there is no such user",
				l->conf->user);
	l->wire = gck_wire_connect(l->conf->host, l->conf->port, l->conf->munge_socket, pw->pw_uid,
				   CONNECT_MS, err);
	return l->wire ? 0 : -1;
}

/* "sign" is answered by "signed", "unwrap" by "unwrapped". */
static bool answers(const json_t *body, const json_t *answer)
{
	const char *asked = json_string_value(json_object_get(body, "op"));
	const char *op = json_string_value(json_object_get(answer, "op"));

	return op && !strncmp(op, asked, strlen(asked)) &&
	       json_equal(json_object_get(body, "id"), json_object_get(answer, "id"));
}

static json_t *say(struct link *l, const json_t *body, int timeout_ms,
		   struct gck_error *err)
{
	json_t *answer;

	if (!l->wire && open_link(l, err))
		return NULL;
	if (gck_wire_put(l->wire, body, timeout_ms, err))
		return NULL;
	answer = gck_wire_get(l->wire, timeout_ms, err);
	if (!answer || answers(body, answer))
		return answer;
	gck_fail(err, EPROTO, "the coordinator answers something else; is it of another release?");
	json_decref(answer);
	return NULL;
}

/* Whatever breaks the connection may be over soon. */
static json_t *exchange(void *arg, const json_t *body, int timeout_ms, struct gck_error *err)
{
	struct link *l = arg;
	struct gck_error why = { 0 };
	json_t *answer = say(l, body, timeout_ms, &why);

	if (answer)
		return answer;
	gck_wire_free(l->wire);
	l->wire = NULL;
	gck_fail(err, why.code == EPROTO || why.code == ENOENT ? why.code : EAGAIN, "%s", why.text);
	return NULL;
}

void gck_signer_use_link(const struct gck_conf *conf, int limit_ms)
{
	static struct link link;
	static struct gck_signer signer;

	link = (struct link){ .conf = conf };
	signer = (struct gck_signer){ .exchange = exchange, .arg = &link, .conf = conf,
				      .limit_ms = limit_ms };
	gck_signer_use(&signer);
}
