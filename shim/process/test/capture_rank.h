/* SPDX-License-Identifier: Apache-2.0
 * One rank running capture_program, and the capture tests' operations on it. */
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

/* Make directory, store and agent; remove them. A failure ends the test. */
void tests_begin(void);
void tests_end(void);

/* Start the rank; stop it and return its exit status. */
void start(void);
int stop(void);

/* Send "do NAME" or "undo NAME"; whether it answers ok. */
bool tell(const char *verb, const char *name);

/* Whether able refuses with this text. NULL: whether it refuses nothing. */
bool refuses(const char *reason);

/* Whether able reports this object with this reason, without refusing. */
bool is_noted(const char *object, const char *reason);

/* Whether able names no descriptor in two lines. */
bool named_once(void);

/* Whether this kernel can track written pages, and permits it. */
bool can_track(void);

/* One whole checkpoint. The image as read back, or NULL. */
struct gck_image *checkpoint(json_t **manifest, struct gck_error *err);

/* Whether a checkpoint fails with this text. */
bool fails(const char *reason);

#endif
