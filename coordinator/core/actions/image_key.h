/* SPDX-License-Identifier: Apache-2.0
 * The key that a step's images are encrypted with. */
#ifndef GCK_IMAGE_KEY_H
#define GCK_IMAGE_KEY_H

#include "coordinator/core/model/core.h"

/* Has the step's job the key that its options ask for? It gets one, and the journal has it, before the
 * first checkpoint; and the same one wrapped anew when another key wraps by now. */
int gck_encrypt_ready(struct gck_core *core, struct gck_step *step, struct gck_error *err);

/* Can it have one? What stands in the way is for `able`, which changes nothing. */
int gck_encrypt_able(struct gck_core *core, const struct gck_step *step, struct gck_error *err);

/* Add the member "key" to what is said to agents, if images are encrypted. */
void gck_encrypt_tell(const struct gck_step *step, json_t *body);

#endif
