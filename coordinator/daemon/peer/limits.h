/* SPDX-License-Identifier: Apache-2.0
 * Limits for each user: connections, messages per second (a token bucket), questions to Slurm. A
 * connection whose user is not known yet counts for its address. */
#ifndef GCK_LIMITS_H
#define GCK_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct gck_bucket {
	double tokens;
	int64_t last_ms; /* 0: never used, full */
};

/* Take one token. A bucket holds one second's tokens. Returns 0, or milliseconds until one is
 * free. */
unsigned gck_bucket_take(struct gck_bucket *b, unsigned rate, int64_t now_ms);

struct gck_user_limit;
struct gck_address_limit;

struct gck_limits {
	struct gck_user_limit *users;
	struct gck_address_limit *addresses;
};

/* Count a connection of a user; false if the user has `most` already. */
bool gck_limits_enter(struct gck_limits *l, uid_t uid, unsigned most);
void gck_limits_leave(struct gck_limits *l, uid_t uid);

/* Count a connection whose user is not known; false, and one line in the log, if the address has
 * `most` already. It counts until it is identified (or closed before). */
bool gck_limits_arrive(struct gck_limits *l, const char *host, unsigned most);
void gck_limits_identified(struct gck_limits *l, const char *host);

/* Count a question to Slurm for a user's connection; false if there are too many. */
bool gck_limits_ask(struct gck_limits *l, uid_t uid);
void gck_limits_asked(struct gck_limits *l, uid_t uid);

/* The bucket of a user that has a connection. */
struct gck_bucket *gck_limits_bucket(struct gck_limits *l, uid_t uid);

#endif
