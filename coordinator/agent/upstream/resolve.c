/* SPDX-License-Identifier: Apache-2.0
 * The coordinator's address and user. */
#include "coordinator/agent/upstream/upstream.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pwd.h>
#include <string.h>

#include "common/base/conf.h"
#include "coordinator/agent/base/packet.h"

static json_t *numeric(const struct addrinfo *all)
{
	json_t *list = json_array();
	char text[INET6_ADDRSTRLEN + 32];

	for (const struct addrinfo *ai = all; ai; ai = ai->ai_next)
		if (getnameinfo(ai->ai_addr, ai->ai_addrlen, text, sizeof text, NULL, 0,
				NI_NUMERICHOST) == 0)
			json_array_append_new(list, json_string(text));
	return list;
}

json_t *resolve(const void *arg, struct gck_error *err)
{
	const struct gck_conf *c = arg;
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };
	const struct passwd *pw = getpwnam(c->user);
	struct addrinfo *all;
	json_t *list;
	int rc;

	if (!pw) {
		gck_fail(err, ENOENT, "CoordinatorUser %s is not known on this node", c->user);
		return NULL;
	}
	rc = getaddrinfo(c->host, NULL, &hints, &all);
	if (rc) {
		gck_fail(err, EHOSTUNREACH, "CoordinatorHost %s: %s", c->host, gai_strerror(rc));
		return NULL;
	}
	list = numeric(all);
	freeaddrinfo(all);
	return json_pack("{s:I, s:I, s:o}", "uid", (json_int_t)pw->pw_uid, "port",
			 (json_int_t)c->port, "addresses", list);
}

int resolve_take(const json_t *result, unsigned attempt, struct resolved *out)
{
	const json_t *list = json_object_get(result, "addresses");
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST };
	struct addrinfo *ai;
	const char *text;
	uint16_t port = htons((uint16_t)packet_int(result, "port", 0));

	if (!json_array_size(list))
		return -1;
	text = json_string_value(json_array_get(list, attempt % json_array_size(list)));
	if (getaddrinfo(text, NULL, &hints, &ai))
		return -1;
	memcpy(&out->address, ai->ai_addr, ai->ai_addrlen);
	out->len = ai->ai_addrlen;
	out->uid = (uid_t)packet_int(result, "uid", 0);
	freeaddrinfo(ai);
	if (out->address.ss_family == AF_INET6)
		((struct sockaddr_in6 *)&out->address)->sin6_port = port;
	else
		((struct sockaddr_in *)&out->address)->sin_port = port;
	return 0;
}
