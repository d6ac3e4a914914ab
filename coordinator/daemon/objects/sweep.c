/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/daemon/objects/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/core/retention/removal.h"
#include "coordinator/daemon/slurm/slurm.h"
#include "storage/retention/retention.h"
#include "storage/store/store.h"

#define STEPS_MOST 64 /* steps of one process; its reports about them fit into a pipe */

/* The process's report of a step that is swept. */
struct done {
	uint32_t job, step, removals;
};

static struct {
	struct gck_daemon *d;
	bool under_way;
	int64_t began_ms;
	int fd; /* the process's reports */
	uint32_t job, step; /* the last that was ordered; the next process begins behind it */
	ev_child child;
} sweep;

static bool is_behind_last(const struct gck_step *s)
{
	return s->job->id != sweep.job ? s->job->id > sweep.job : s->id > sweep.step;
}

static void add_orders(json_t *all, const struct gck_daemon *d, bool behind_last)
{
	for (const struct gck_job *j = d->core.state.jobs; j; j = j->next)
		for (const struct gck_step *s = j->steps; s; s = s->next)
			if (gck_step_unswept(s) && gck_s3_is(s->store) && !s->intent.import &&
			    is_behind_last(s) == behind_last && json_array_size(all) < STEPS_MOST)
				json_array_append_new(all, json_pack("{s:I, s:o}", "uid",
						      (json_int_t)s->uid, "order",
						      gck_sweep_order(s)));
}

static json_t *orders_of(const struct gck_daemon *d)
{
	json_t *all = json_array();

	add_orders(all, d, true);
	add_orders(all, d, false);
	return all;
}

static uint32_t number_of(const json_t *order, const char *name)
{
	return (uint32_t)json_integer_value(json_object_get(order, name));
}

/* ---- the process --------------------------------------------------------------------------- */

static int remove_of(const struct gck_daemon *d, const json_t *order, struct gck_error *err)
{
	const char *url = json_string_value(json_object_get(order, "store"));
	struct gck_store *s;
	int rc;

	/* S3Store may have changed: its keys are not valid for this store. */
	if (gck_conf_allows(&d->conf, url, err))
		return -1;
	s = gck_store_open(url, d->conf.cluster, number_of(order, "job"), number_of(order, "step"),
			   false, err);
	if (!s)
		return err->code == ENOENT ? 0 : -1; /* nothing is stored there */
	rc = gck_store_prune_listed(s, json_object_get(order, "keep"), number_of(order, "busy"),
				    err);
	gck_store_close(s);
	return rc;
}

static void remove_all(struct gck_daemon *d, const json_t *orders)
{
	struct gck_error err = {0};
	json_t *one;
	size_t i;

	json_array_foreach(orders, i, one) {
		const json_t *order = json_object_get(one, "order");
		const struct done done = {.job = number_of(order, "job"),
					  .step = number_of(order, "step"),
					  .removals = number_of(order, "removals")};

		gck_probe_signer(d, (uid_t)json_integer_value(json_object_get(one, "uid")));
		if (remove_of(d, order, &err))
			gck_warn("step %u.%u: what was removed is still in the store: %s", done.job,
				 done.step, err.text);
		else if (write(STDOUT_FILENO, &done, sizeof done) != (ssize_t)sizeof done)
			return; /* gpuckptd is gone */
	}
}

static void child(struct gck_daemon *d, const json_t *orders, int fd, pid_t parent)
{
	gck_log_as_stderr();
	gck_child_become(parent, fd, STDERR_FILENO);
	signal(SIGPIPE, SIG_IGN); /* a server may close a connection at any time */
	remove_all(d, orders);
	_exit(0);
}

/* ---- gpuckptd ------------------------------------------------------------------------------ */

/* No object of a lost import can arrive any more; until then the step is swept again. */
static bool is_final(const struct done *done)
{
	const struct gck_step *s = gck_state_step(&sweep.d->core.state, done->job, done->step);

	return s && sweep.began_ms >= s->landing_ms;
}

/* Failures are tried again; removing twice is harmless. */
static void on_end(struct ev_loop *loop, ev_child *w, int events)
{
	struct done done;

	(void)events;
	ev_child_stop(loop, w);
	while (read(sweep.fd, &done, sizeof done) == (ssize_t)sizeof done)
		if (is_final(&done))
			gck_swept(&sweep.d->core, done.job, done.step, done.removals);
	close(sweep.fd);
	sweep.under_way = false;
}

static void launch(struct gck_daemon *d, const json_t *orders)
{
	const json_t *last = json_array_get(orders, json_array_size(orders) - 1);
	pid_t parent = getpid(), pid;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return;
	pid = fork();
	if (pid == 0)
		child(d, orders, fds[1], parent);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return;
	}
	sweep.d = d;
	sweep.under_way = true;
	sweep.began_ms = d->core.world->now_ms();
	sweep.fd = fds[0];
	sweep.job = number_of(json_object_get(last, "order"), "job");
	sweep.step = number_of(json_object_get(last, "order"), "step");
	ev_child_init(&sweep.child, on_end, pid, 0);
	ev_child_start(d->loop, &sweep.child);
}

void gck_sweep_start(struct gck_daemon *d)
{
	json_t *orders;

	if (sweep.under_way || !*d->keys.file.path || !*d->conf.cluster)
		return;
	orders = orders_of(d);
	if (json_array_size(orders))
		launch(d, orders);
	json_decref(orders);
}
