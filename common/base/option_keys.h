/* SPDX-License-Identifier: Apache-2.0
 * The table of keys behind options.c. */
#ifndef GCK_OPTION_KEYS_H
#define GCK_OPTION_KEYS_H

#include "common/base/options.h"

struct gck_option_key {
	const char *name;
	/* Keep a value. On failure err says what is allowed; the caller names the key. */
	int (*read)(struct gck_options *o, const char *value, struct gck_error *err);
	/* The value as read takes it back, or "" to leave the key out. */
	void (*write)(const struct gck_options *o, char *value, size_t size);
};

extern const struct gck_option_key gck_option_keys[];
extern const size_t gck_option_nkeys;

#endif
