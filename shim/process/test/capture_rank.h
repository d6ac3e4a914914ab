/* SPDX-License-Identifier: Apache-2.0
 * One rank running capture_program, and what the capture tests do with it. */
#ifndef GCK_TEST_CAPTURE_RANK_H
#define GCK_TEST_CAPTURE_RANK_H

#include "shim/process/process.h"
#include "test/support/shim_agent.h"

extern char rank_directory[];  /* the program's; the store's too */
extern struct agent agent;
extern struct rank rank;
extern struct gck_link_hello hello;
extern struct gck_options options;
extern struct gck_store *store;
extern int helper_link;

/* Make directory, store and agent; remove them. What fails here ends the test. */
void tests_begin(void);
void tests_end(void);

/* Start the rank; end it: its exit status. */
void start(void);
int stop(void);

/* "do NAME" or "undo NAME": did it answer ok? */
bool tell(const char *verb, const char *name);

/* Does able refuse with this text? NULL: is nothing refused? */
bool refuses(const char *reason);

/* Does able name this object for this reason without refusing? */
bool is_noted(const char *object, const char *reason);

/* One whole checkpoint: the image as it can be read back, or NULL. */
struct gck_image *checkpoint(json_t **manifest, struct gck_error *err);

/* Does a checkpoint fail with this text? */
bool fails(const char *reason);

#endif
