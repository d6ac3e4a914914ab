/* SPDX-License-Identifier: Apache-2.0
 * URLs and keys for the processes that the agent forks. Each asks over a socket of its own
 * (signer.h of coordinator/sign). Questions that come while an answer is awaited go to gpuckptd
 * in one message. Questions that a lost connection leaves unanswered are sent again on the next. */
#ifndef AGENT_PROXY_H
#define AGENT_PROXY_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>

#include "coordinator/agent/base/step.h"

struct proxy_line;

/* Sends a message (stolen) to gpuckptd. */
typedef void proxy_send(void *arg, json_t *body);

/* Start serving. There is one proxy in a process. */
void proxy_start(struct ev_loop *loop, const struct step *s, proxy_send *send, void *arg);
bool proxy_serves(void);

/* Serves a socket (taken over). NULL without memory: the socket is closed. proxy_close stops and
 * closes it. */
struct proxy_line *proxy_open(int fd);
void proxy_close(struct proxy_line *line); /* NULL: nothing */

/* In the forked process: get URLs and keys over fd from now on. */
void proxy_use(int fd);

/* gpuckptd sent "signed" or "unwrapped"; it is connected, or the connection was lost. */
void proxy_answer(const json_t *body);
void proxy_connection(bool there);

/* The keys that gpuckptd has unwrapped: all ranks' processes ask for the same one at each
 * checkpoint. The answer to an earlier ask for this key, or NULL; keep an answer, if it has a
 * key. */
const json_t *proxy_cached_answer(const json_t *ask);
void proxy_cache_answer(const json_t *ask, const json_t *answer);

#endif
