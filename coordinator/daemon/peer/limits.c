/* SPDX-License-Identifier: Apache-2.0
 * Limits per user, and per address before the user is known. */
#include "coordinator/daemon/peer/limits.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

/* At a hundred a second all are answered within an agent's time limit. */
#define MAX_QUESTIONS 1024

struct gck_user_limit {
	struct gck_user_limit *next;
	uid_t uid;
	unsigned connections, questions;
	struct gck_bucket bucket;
};

unsigned gck_bucket_take(struct gck_bucket *b, unsigned rate, int64_t now_ms)
{
	if (!b->last_ms)
		b->tokens = rate;
	else if (now_ms > b->last_ms)
		b->tokens += (double)(now_ms - b->last_ms) * rate / 1000;
	if (b->tokens > rate)
		b->tokens = rate;
	b->last_ms = now_ms;
	if (b->tokens < 1)
		return (unsigned)((1 - b->tokens) * 1000 / rate) + 1;
	b->tokens -= 1;
	return 0;
}

static struct gck_user_limit **find(struct gck_limits *l, uid_t uid)
{
	struct gck_user_limit **p = &l->users;

	while (*p && (*p)->uid != uid)
		p = &(*p)->next;
	return p;
}

bool gck_limits_enter(struct gck_limits *l, uid_t uid, unsigned most)
{
	struct gck_user_limit **p = find(l, uid);

	if (!*p) {
		*p = calloc(1, sizeof **p);
		if (!*p)
			return false;
		(*p)->uid = uid;
	}
	if ((*p)->connections >= most)
		return false;
	(*p)->connections++;
	return true;
}

static void drop_unused(struct gck_user_limit **p)
{
	struct gck_user_limit *u = *p;

	if (u->connections || u->questions)
		return;
	*p = u->next;
	free(u);
}

/* The entry is freed with the user's last connection, and with it an empty bucket. That gains the
 * user nothing: connecting again costs as much. */
void gck_limits_leave(struct gck_limits *l, uid_t uid)
{
	struct gck_user_limit **p = find(l, uid);
	struct gck_user_limit *u = *p;

	if (!u)
		return;
	u->connections--;
	drop_unused(p);
}

bool gck_limits_ask(struct gck_limits *l, uid_t uid)
{
	struct gck_user_limit *u = *find(l, uid);

	if (!u || u->questions >= MAX_QUESTIONS)
		return false;
	u->questions++;
	return true;
}

void gck_limits_asked(struct gck_limits *l, uid_t uid)
{
	struct gck_user_limit **p = find(l, uid);

	if (!*p)
		return;
	(*p)->questions--;
	drop_unused(p);
}

struct gck_bucket *gck_limits_bucket(struct gck_limits *l, uid_t uid)
{
	struct gck_user_limit *u = *find(l, uid);

	return u ? &u->bucket : NULL;
}

/* ---- addresses ------------------------------------------------------------------------------ */

struct gck_address_limit {
	struct gck_address_limit *next;
	unsigned connections;
	bool logged; /* that one was refused */
	char host[];
};

static struct gck_address_limit **find_address(struct gck_limits *l, const char *host)
{
	struct gck_address_limit **p = &l->addresses;

	while (*p && strcmp((*p)->host, host))
		p = &(*p)->next;
	return p;
}

bool gck_limits_arrive(struct gck_limits *l, const char *host, unsigned most)
{
	struct gck_address_limit **p = find_address(l, host), *a = *p;

	if (!a) {
		a = *p = calloc(1, sizeof *a + strlen(host) + 1);
		if (!a)
			return false;
		strcpy(a->host, host);
	}
	if (a->connections < most) {
		a->connections++;
		return true;
	}
	if (!a->logged)
		gck_warn("%s has MaxNewConnections=%u connections of unknown users; more are "
			 "refused", host, most);
	a->logged = true;
	return false;
}

void gck_limits_identified(struct gck_limits *l, const char *host)
{
	struct gck_address_limit **p = find_address(l, host), *a = *p;

	if (!a || --a->connections)
		return;
	*p = a->next;
	free(a);
}
