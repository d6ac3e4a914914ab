/* SPDX-License-Identifier: Apache-2.0
 * A gpuckptd of the test's own, with munge and TCP but without Slurm, and connections to it that
 * play agents and clients word by word. */
#ifndef GCK_TEST_LAB_H
#define GCK_TEST_LAB_H

#include <jansson.h>
#include <stdbool.h>

#include "common/wire/wire.h"

/* Make the directory and start munged; false, after a TAP skip, if that cannot be here. */
bool lab_begin(void);
void lab_end(void);

extern char lab_dir[], lab_conf[];

/* Slurm's answers: the file's text. */
void lab_slurm(const char *text);
bool lab_was_requeued(void); /* since the last lab_slurm */
unsigned lab_was_asked(const char *op); /* how often, since then */

/* How many files the daemon may open when it starts next; 0: as many as the test. */
extern unsigned lab_files;

/* The daemon's group when it starts next; 0: the test's. */
extern gid_t lab_group;

/* May other processes of its user read the memory of the daemon, or of a child process of it? The
 * kernel shows their files in /proc as root's if not; lab_group must be another one. */
bool lab_is_open(void);
bool lab_child_is_open(void);

/* From the next start on: a systemd credential of that name, and no such line in the
 * configuration. */
void lab_credential(const char *line, const char *name, const char *text, mode_t mode);

/* The daemon in the foreground: up until it answers; killed with SIGKILL; ended with SIGTERM. */
bool lab_up(void);
double lab_cpu_seconds(void); /* that it has used */
void lab_kill(void);
int lab_term(void);
void lab_stand_still(unsigned seconds); /* the machine sleeps, by its clock (clock.h) */

/* Run it with these arguments until it ends: its exit status, what it said in out. */
int lab_run(char *out, size_t size, const char *const *args);

/* Is the text, in capitals or not, in a line of this file of lab_dir? */
bool lab_in_file(const char *name, const char *text);

/* Another user, of whom nothing here is, does it: 0 if it returned that. Only root can ask for
 * it. */
#define LAB_STRANGER 65534
int lab_as_stranger(int (*what)(void));
#define ok_as_stranger(what, name)                  \
	(geteuid() ? skip(name, "this is not root") \
		   : (void)ok(lab_as_stranger(what) == 0, "%s", name))

/* Connections. Text is JSON in which ' stands for ". */
struct gck_wire *lab_connect(void);
int lab_knock(const char *from); /* a socket of this address: nothing is said or heard */
#define LAB_NEW_CONNECTIONS 30u  /* MaxNewConnections */
bool lab_say(struct gck_wire *w, const char *text, ...) __attribute__((format(printf, 2, 3)));

/* The next message but `say`, within 5 seconds, or NULL; lab_hear wants this op (and seq, if not
 * 0). */
json_t *lab_next(struct gck_wire *w);
bool lab_hear(struct gck_wire *w, const char *op, unsigned seq);
bool lab_closed(struct gck_wire *w); /* the other side ends it */

/* With which agents register; lab_epoch: further members. */
extern const char *lab_options, *lab_epoch;

/* Register as the agent of node n of 2, one rank a node, of step 7.0. */
struct gck_wire *lab_agent(int node, const char *state, unsigned seq, unsigned restarts,
			   const char *commits);

/* Answer the phase that was asked. */
bool lab_done(struct gck_wire *w, const char *phase, unsigned seq, const char *data);

#endif
