/* SPDX-License-Identifier: Apache-2.0
 * Keys that gpuckptd has unwrapped for this agent: all its ranks' processes ask for the same one, at each
 * checkpoint, and gpuckptd need not be asked for each. */
#ifndef AGENT_KEY_CACHE_H
#define AGENT_KEY_CACHE_H

#include <jansson.h>

/* What was answered to this before, or NULL. */
const json_t *known_answer(const json_t *ask);

/* Remember what was answered; if it has no key this does nothing. */
void known_keep(const json_t *ask, const json_t *answer);

#endif
