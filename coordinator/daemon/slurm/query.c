/* SPDX-License-Identifier: Apache-2.0
 * Requests to Slurm. This is the only file that knows libslurm; it runs in a child that ends after
 * one answer, so that nothing of libslurm's is freed here. */
#include "coordinator/daemon/slurm/query.h"

#include <pwd.h>
#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/encoding.h"

#define OURS "gpuckpt: " /* the beginning of an AdminComment that we may replace */

/* ENOENT: no such job; EPERM: slurmctld refuses; EIO: unknown. */
static int meaning(int code)
{
	if (code == ESLURM_INVALID_JOB_ID)
		return ENOENT;
	return code == ESLURM_DISABLED || code == ESLURM_ACCESS_DENIED ||
	       code == ESLURM_NOT_SUPPORTED ? EPERM : EIO;
}

static json_t *failed(struct gck_error *err, const char *what)
{
	int code = errno;

	gck_fail(err, meaning(code), "%s: %s", what, slurm_strerror(code));
	return NULL;
}

static json_t *query_conf(const json_t *request, struct gck_error *err)
{
	slurm_conf_t *conf = NULL;

	(void)request;
	if (slurm_load_ctl_conf(0, &conf))
		return failed(err, "slurm_load_ctl_conf");
	return json_pack("{s:s, s:I, s:s, s:I}", "cluster",
			 conf->cluster_name ? conf->cluster_name : "", "slurm_user",
			 (json_int_t)conf->slurm_user_id, "slurm_user_name",
			 conf->slurm_user_name ? conf->slurm_user_name : "", "slurmd_timeout",
			 (json_int_t)conf->slurmd_timeout);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

static bool is_taken_back(const job_info_t *job)
{
	return job->job_state & (JOB_REQUEUE | JOB_REQUEUE_HOLD | JOB_SPECIAL_EXIT | JOB_REVOKED);
}

static bool runs(const job_info_t *job)
{
	uint32_t base = job->job_state & JOB_STATE_BASE;

	return (base == JOB_RUNNING || base == JOB_SUSPENDED) && !is_taken_back(job) &&
	       !(job->job_state & JOB_COMPLETING);
}

/* Cancelled, preempted, out of time, its node lost: somebody else ended it. */
static bool ends_itself(const job_info_t *job)
{
	uint32_t base = job->job_state & JOB_STATE_BASE;

	return !is_taken_back(job) && (base == JOB_RUNNING || base == JOB_SUSPENDED ||
				       base == JOB_COMPLETE || base == JOB_FAILED);
}

static job_info_t *load_job(uint32_t id, struct gck_error *err)
{
	job_info_msg_t *jobs = NULL;

	if (slurm_load_job(&jobs, id, SHOW_ALL)) {
		failed(err, "slurm_load_job");
		return NULL;
	}
	for (uint32_t i = 0; i < jobs->record_count; i++)
		if (jobs->job_array[i].job_id == id)
			return &jobs->job_array[i];
	gck_fail(err, ENOENT, "Slurm has no job %u", id);
	return NULL;
}

static uint32_t job_of(const json_t *request)
{
	return (uint32_t)json_integer_value(json_object_get(request, "job"));
}

static const char *name_of(uid_t uid)
{
	struct passwd *pw = getpwuid(uid);

	return pw ? pw->pw_name : "";
}

/* A component of a heterogeneous job is not requeued without the others. */
static bool can_be_requeued(const job_info_t *job)
{
	return job->batch_flag && job->requeue && !job->het_job_id;
}

static const job_info_t *find_job(const job_info_msg_t *all, uint32_t id)
{
	for (uint32_t i = 0; i < all->record_count; i++)
		if (all->job_array[i].job_id == id)
			return &all->job_array[i];
	return NULL;
}

static json_t *query_job(const json_t *request, struct gck_error *err)
{
	job_info_t *job = load_job(job_of(request), err);
	json_t *out;

	if (!job)
		return NULL;
	out = json_pack("{s:I, s:I, s:s, s:I, s:I, s:b, s:b, s:I, s:b, s:b}", "job",
			(json_int_t)job->job_id, "uid", (json_int_t)job->user_id, "user",
			name_of(job->user_id), "restarts", (json_int_t)job->restart_cnt, "submit",
			(json_int_t)job->submit_time, "batch", can_be_requeued(job), "no_requeue",
			job->batch_flag && !job->requeue, "nodes", (json_int_t)job->num_nodes,
			"runs", runs(job), "ends_itself", ends_itself(job));
	if (job->array_job_id) {
		json_object_set_new(out, "array", json_integer(job->array_job_id));
		json_object_set_new(out, "task", json_integer(job->array_task_id));
	}
	return out;
}

static json_t *query_jobs(const json_t *request, struct gck_error *err)
{
	json_t *out = json_array(), *id;
	job_info_msg_t *all = NULL;
	size_t i;

	if (slurm_load_jobs(0, &all, SHOW_ALL))
		return failed(err, "slurm_load_jobs");
	json_array_foreach(json_object_get(request, "jobs"), i, id) {
		const job_info_t *job = find_job(all, (uint32_t)json_integer_value(id));

		if (job)
			json_array_append_new(
				out, json_pack("{s:O, s:I, s:s, s:I, s:I, s:b, s:b}", "job", id,
					       "uid", (json_int_t)job->user_id, "user",
					       name_of(job->user_id), "restarts",
					       (json_int_t)job->restart_cnt, "submit",
					       (json_int_t)job->submit_time, "batch",
					       can_be_requeued(job), "busy", runs(job) ||
					       (job->job_state & JOB_COMPLETING)));
	}
	return json_pack("{s:o}", "jobs", out);
}

static json_t *query_import(const json_t *request, struct gck_error *err)
{
	uid_t uid = (uid_t)json_integer_value(json_object_get(request, "uid"));
	struct gck_error why = {0};

	if (load_job(job_of(request), &why)) {
		gck_fail(err, EEXIST,
			 "Slurm has a job %u on this cluster: import when it has forgotten that "
			 "(MinJobAge after its end)",
			 job_of(request));
		return NULL;
	}
	if (why.code == ENOENT)
		return json_pack("{s:s}", "user", name_of(uid));
	*err = why;
	return NULL;
}

/* Sites use comments for themselves: replace only an empty AdminComment or our own. */
static void leave_comment(const job_info_t *job, const char *why)
{
	const char *there = job->admin_comment;
	char text[512];
	job_desc_msg_t change;

	if (there && *there && strncmp(there, OURS, strlen(OURS)) != 0)
		return;
	snprintf(text, sizeof text, OURS "%s", why);
	slurm_init_job_desc_msg(&change);
	change.job_id = job->job_id;
	change.admin_comment = text;
	(void)slurm_update_job(&change); /* worth a try */
}

static json_t *query_requeue(const json_t *request, struct gck_error *err)
{
	bool hold = json_is_true(json_object_get(request, "hold")) ||
		    json_integer_value(json_object_get(request, "hold"));
	const char *comment = json_string_value(json_object_get(request, "comment"));
	job_info_t *job = load_job(job_of(request), err);

	if (!job)
		return NULL;
	if (!runs(job)) {
		gck_fail(err, EALREADY, "the job is ending already");
		return NULL;
	}
	if (slurm_requeue(job->job_id, hold ? JOB_REQUEUE_HOLD : 0))
		return failed(err, "slurm_requeue");
	if (comment)
		leave_comment(job, comment);
	return json_object();
}

/* ---- nodes --------------------------------------------------------------------------------- */

/* The reason, by its state, why jobs must leave a node; false if they need not. */
static bool state_says(const node_info_t *node, char *why, size_t size)
{
	const char *reason = node->reason && *node->reason ? node->reason : "no reason given";

	if (node->node_state & (NODE_STATE_REBOOT_REQUESTED | NODE_STATE_REBOOT_ISSUED))
		snprintf(why, size, "node %s is to reboot: %s", node->name, reason);
	else if (node->node_state & NODE_STATE_DRAIN)
		snprintf(why, size, "node %s is draining: %s", node->name, reason);
	else
		return false;
	return true;
}

struct loaded {
	uint32_t id;
	const job_info_t *job;
};

/* A job may be on many such nodes; it is loaded once. */
static const job_info_t *find_loaded(uint32_t id)
{
	static struct loaded *all;
	static size_t n;
	struct loaded *more;

	for (size_t i = 0; i < n; i++)
		if (all[i].id == id)
			return all[i].job;
	more = realloc(all, (n + 1) * sizeof *all);
	if (!more)
		return NULL;
	all = more;
	all[n] = (struct loaded){id, load_job(id, NULL)};
	return all[n++].job;
}

/* A job that runs in the reservation may stay. why may contain text that was typed in any encoding,
 * and may be truncated. */
static void add_leaving(json_t *out, const json_t *jobs, const char *node, char *why,
			const char *reservation)
{
	json_t *id;
	size_t i;

	gck_utf8_sanitize(why);
	json_array_foreach(json_object_get(jobs, node), i, id) {
		const job_info_t *job = find_loaded((uint32_t)json_integer_value(id));

		if (!job || !runs(job) || (reservation && job->resv_name &&
					   !strcmp(job->resv_name, reservation)))
			continue;
		json_array_append_new(
			out, json_pack("{s:O, s:s, s:s}", "job", id, "node", node, "why", why));
	}
}

static int check_nodes(json_t *out, const json_t *jobs, struct gck_error *err)
{
	node_info_msg_t *nodes = NULL;
	char why[320];

	if (slurm_load_node(0, &nodes, SHOW_ALL)) {
		failed(err, "slurm_load_node");
		return -1;
	}
	for (uint32_t i = 0; i < nodes->record_count; i++) {
		const node_info_t *node = &nodes->node_array[i];

		if (node->name && json_object_get(jobs, node->name) &&
		    state_says(node, why, sizeof why))
			add_leaving(out, jobs, node->name, why, NULL);
	}
	return 0;
}

static void check_reservation(json_t *out, const json_t *jobs, const reserve_info_t *resv)
{
	__auto_type hosts = slurm_hostlist_create(resv->node_list);
	char why[320];
	char *node;

	while (hosts && (node = slurm_hostlist_shift(hosts))) {
		snprintf(why, sizeof why, "node %s is in the maintenance reservation %s", node,
			 resv->name);
		add_leaving(out, jobs, node, why, resv->name);
	}
}

static int check_reservations(json_t *out, const json_t *jobs, time_t lead, struct gck_error *err)
{
	reserve_info_msg_t *all = NULL;
	time_t now = time(NULL);

	if (slurm_load_reservations(0, &all)) {
		failed(err, "slurm_load_reservations");
		return -1;
	}
	for (uint32_t i = 0; i < all->record_count; i++) {
		const reserve_info_t *resv = &all->reservation_array[i];

		if ((resv->flags & RESERVE_FLAG_MAINT) && resv->node_list &&
		    resv->start_time <= now + lead && resv->end_time > now)
			check_reservation(out, jobs, resv);
	}
	return 0;
}

static int check_jobs(json_t *gone, json_t *ended, const json_t *check, struct gck_error *err)
{
	job_info_msg_t *all = NULL;
	json_t *id;
	size_t i;

	if (!json_array_size(check))
		return 0;
	if (slurm_load_jobs(0, &all, SHOW_ALL)) {
		failed(err, "slurm_load_jobs");
		return -1;
	}
	json_array_foreach(check, i, id) {
		const job_info_t *job = find_job(all, (uint32_t)json_integer_value(id));

		if (!job)
			json_array_append(gone, id);
		else if (!runs(job) && !(job->job_state & JOB_COMPLETING))
			json_array_append(ended, id);
	}
	return 0;
}

static json_t *query_nodes(const json_t *request, struct gck_error *err)
{
	const json_t *jobs = json_object_get(request, "jobs");
	json_t *leaving = json_array(), *gone = json_array(), *ended = json_array();
	time_t lead = (time_t)json_integer_value(json_object_get(request, "lead"));

	if (check_nodes(leaving, jobs, err) || check_reservations(leaving, jobs, lead, err) ||
	    check_jobs(gone, ended, json_object_get(request, "check"), err))
		return NULL;
	return json_pack("{s:o, s:o, s:o}", "leaving", leaving, "gone", gone, "ended", ended);
}

/* ---- all of them --------------------------------------------------------------------------- */

static const struct {
	const char *op;
	json_t *(*query)(const json_t *request, struct gck_error *err);
} queries[] = {
	{"conf", query_conf},
	{"job", query_job},
	{"jobs", query_jobs},
	{"import", query_import},
	{"requeue", query_requeue},
	{"nodes", query_nodes},
};

json_t *gck_query(const json_t *request, struct gck_error *err)
{
	const char *op = json_string_value(json_object_get(request, "op"));

	slurm_init(NULL);
	for (size_t i = 0; op && i < sizeof queries / sizeof *queries; i++)
		if (!strcmp(queries[i].op, op))
			return queries[i].query(request, err);
	gck_fail(err, EINVAL, "nothing of the name %s is asked of Slurm", op ? op : "?");
	return NULL;
}
