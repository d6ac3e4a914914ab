/* SPDX-License-Identifier: Apache-2.0
 * An agent's `register`: its members, and the check that the job belongs to the agent's user. */
#ifndef GCK_REGISTRATION_H
#define GCK_REGISTRATION_H

#include "coordinator/core/model/live.h"

struct gck_registration {
	json_int_t job, step, node_id, nodes, ntasks, restarts, seq;
	const char *node, *options, *store, *state_name;
	json_t *fingerprint;
	enum gck_agent_state state;
	const json_t *body;
};

/* Read and check the members. Strings and JSON are borrowed from body. */
int gck_registration_parse(struct gck_registration *r, const json_t *body, struct gck_error *err)
	GCK_MUST_CHECK;

/* Must Slurm confirm the job's owner and incarnation before the registration is believed? Not if
 * the journal knows both and the ranks run: they must not wait for a slurmctld that is down. Ranks
 * that are held for a requeue do: Slurm's word decides whether anything may let them go. */
bool gck_registration_needs_slurm(const struct gck_core *core, const json_t *registration,
				  uid_t uid);

/* -1, ESTALE, if the registration is from an earlier incarnation than this one. */
int gck_registration_current(const struct gck_registration *r, json_int_t restarts,
			     struct gck_error *err) GCK_MUST_CHECK;

/* Check that the job belongs to this user, and journal its incarnation. info: Slurm's description
 * of the job, or NULL if the journal's is sufficient. GCK_COUNTED_AGAIN: Slurm counts this start as
 * it did one before, which cannot be told from it. */
#define GCK_COUNTED_AGAIN 1
int gck_registration_job(struct gck_core *core, const struct gck_registration *r, uid_t uid,
			 const json_t *info, struct gck_error *err) GCK_MUST_CHECK;

#endif
