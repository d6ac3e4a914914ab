/* SPDX-License-Identifier: Apache-2.0
 * URLs and keys for the processes that the agent forks: each asks over a socket of its own (signer.h of
 * coordinator/sign); what is asked while an answer is awaited goes to gpuckptd in one message. What a
 * lost connection leaves unanswered is asked again on the next. */
#ifndef AGENT_PROXY_H
#define AGENT_PROXY_H

#include <ev.h>
#include <jansson.h>
#include <stdbool.h>

#include "coordinator/agent/base/step.h"

struct proxy_line;

/* Says a message (stolen) to gpuckptd. */
typedef void proxy_send(void *arg, json_t *body);

/* One process is one agent; before this nobody is served. */
void proxy_start(struct ev_loop *loop, const struct step *s, proxy_send *send, void *arg);
bool proxy_serves(void);

/* Serve a socket (taken over; without memory NULL, and its other side sees the end); stop, and close
 * it. */
struct proxy_line *proxy_open(int fd);
void proxy_close(struct proxy_line *line); /* NULL: nothing */

/* In the forked process: URLs and keys come over fd from now on. */
void proxy_use(int fd);

/* gpuckptd's "signed" or "unwrapped"; it is there (again), or lost. */
void proxy_answer(const json_t *body);
void proxy_connection(bool there);

/* The keys that gpuckptd has unwrapped: all ranks' processes ask for the same one at each checkpoint. The answer to an
 * earlier ask for this key, or NULL; keep an answer, if it has a key. */
const json_t *known_answer(const json_t *ask);
void known_keep(const json_t *ask, const json_t *answer);

#endif
