/* SPDX-License-Identifier: Apache-2.0
 * Slurm, the SPANK plugin and the coordinator, played by a test: a step with ranks under the real
 * preload, the real agent, and a scripted coordinator. */
#ifndef AGENT_TEST_PLUGIN_H
#define AGENT_TEST_PLUGIN_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#define PLUGIN_RANKS 2

struct plugin {
	char dir[64];            /* copies of the programs, configuration, store, output */
	unsigned restarts;
	const char *options;     /* of --gpu-ckpt, after store= */
	const char *store;       /* another directory than "store"; NULL: that one */
	const char *limit;       /* of rank 1's counter; NULL: none */
	const char *keeps;       /* a file in dir that ranks keep open for writing ("+name": for
				  * appending; "2name": as descriptor 2); NULL: none */
	unsigned keepers;        /* how many ranks do */
	const char *shares;      /* COUNTER_SHARES of the ranks; NULL: none */
	const char *fault;       /* GPUCKPT_FAULT for the agent; NULL: none */
	bool no_forks;           /* the agent cannot fork */
	char report[512];        /* the agent's report at its start */
	int control;             /* the plugin's end; -1: closed */
	pid_t agent;             /* the supervisor */
	pid_t rank[PLUGIN_RANKS];
};

/* What outlives a step: directory, munged, coordinator's socket. -1 and *why if that is not
 * possible here. */
int plugin_open(struct plugin *p, const char **why);
void plugin_close(struct plugin *p);

/* Start the ranks and the agent (incarnation p->restarts). */
void plugin_start(struct plugin *p);

/* The same with these options. A first start empties the ranks' output. */
void plugin_begin(struct plugin *p, const char *options, unsigned restarts);

/* End the step as Slurm does: SIGKILL to the ranks, EXIT, END. */
void plugin_end(struct plugin *p);

/* The same; then wait for the agent. Returns its wait status. */
int plugin_stop(struct plugin *p);

/* Start a process of the job's script, or of another step of the job. */
pid_t plugin_start_process(bool of_step);

/* Reap a rank that has ended or is to end; told: report it to the agent. Returns its wait
 * status, -1 if it runs on. */
int plugin_reap(struct plugin *p, unsigned rank, bool told);

/* Is the rank still there after ms? */
bool plugin_stays(struct plugin *p, unsigned rank, int ms);

/* Send a signal to the process that the supervisor forked; false if there is none. */
bool plugin_signal_agent(const struct plugin *p, int sig);

/* The oldest child of the agent: rank 0's worker; -1: none. */
pid_t plugin_worker(const struct plugin *p);

/* This process connects to the agent as ranks do: the socket. */
int plugin_connect(void);

/* The last line that a rank wrote: its count, 0 if there is none; lines: how many there are. */
unsigned long plugin_count(const struct plugin *p, unsigned rank, unsigned long *lines);

/* Does the count grow; does it not, for a second? */
bool plugin_counts(const struct plugin *p, unsigned rank);
bool plugin_stands(const struct plugin *p, unsigned rank);

/* The state of a rank's main thread, as in /proc/PID/status; 0: it has ended. */
char plugin_state(const struct plugin *p, unsigned rank);

/* Do both count? Does none, in the same second? */
bool plugin_both_count(const struct plugin *p);
bool plugin_both_stand(const struct plugin *p);

/* Are a rank's lines in order, without gaps or repetitions? */
bool plugin_sound(const struct plugin *p, unsigned rank);

/* Does a line with this text come on the standard error of this step's ranks? */
bool plugin_said(const struct plugin *p, const char *text);

/* Does it come in the agent's log? */
bool plugin_logged(const struct plugin *p, const char *text);

/* Change the mode of a file in dir; put a scontrol there. */
void plugin_set_mode(const struct plugin *p, const char *name, mode_t mode);
void plugin_write_scontrol(const struct plugin *p, const char *script);

/* The ranks write from line 1 again. */
void plugin_new_output(const struct plugin *p);

/* ---- the coordinator ----------------------------------------------------------------------- */

/* Take a connection and its `register`, and answer `welcome` with action and more (dropped).
 * Returns the register (new reference), or NULL. */
json_t *coord_welcome(const char *action, json_t *more);

/* Send {"op", "seq", ...more}. */
void coord_tell(const char *op, unsigned seq, json_t *more);

/* The next message of this op (and phase, unless NULL); others are skipped. Returns a new
 * reference; NULL if none comes, or the connection ended. */
json_t *coord_await(const char *op, const char *phase);

/* Tell, and await `done`: its "ok"; the message in *answer (may be NULL). */
bool coord_ask(const char *op, unsigned seq, json_t *more, json_t **answer);

/* Drop the connection; stop listening, or start again. */
void coord_drop(void);
void coord_deaf(bool deaf);

/* Members of a `prepare` that bounds how long ranks are held. */
json_t *coord_bounds(bool keep_held, int hold_ms);

/* A whole checkpoint, from prepare to committed. hash gets its commit's hash. */
bool coord_checkpoint(unsigned seq, char hash[40]);

/* For plugin.c: starts munged and listens. Returns munge's socket, or NULL and *why. */
const char *coord_open(const char **why);
void coord_close(void);
unsigned coord_port(void);
const char *coord_user(void);

#endif
