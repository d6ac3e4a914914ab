/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "coordinator/daemon/objects/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/base/log.h"
#include "coordinator/core/retention/take_over.h"
#include "coordinator/daemon/slurm/slurm.h"
#include "storage/store/commit.h"
#include "storage/store/store.h"

#define INFO_MOST (64u << 10) /* bytes of what a commit says of itself */
#define STEP_MOST (1u << 20)  /* bytes of the report of a step */
#define BATCH 64              /* steps for which Slurm is asked at once */
#define WAITING_MOST 4096     /* steps of jobs that run */

static struct {
	struct gck_daemon *d;
	bool under_way;
	bool done;      /* every store was read */
	bool told;      /* it was logged which could not be */
	json_t *found;  /* steps that Slurm is asked about */
	json_t *waiting; /* steps of jobs that run */
	ev_io io;       /* the process's report: a line for each step */
	char *text;
	size_t size;
} scan;

/* ---- the process: one step ----------------------------------------------------------------- */

/* Users' directories are read with their rights alone: no link of a user shows what is another's,
 * and a file system that gives root nothing is read too. */
static int act_as(uid_t uid, struct gck_error *err)
{
	const struct passwd *pw = getpwuid(uid);
	gid_t gid = pw ? pw->pw_gid : (gid_t)65534;

	if ((pw ? initgroups(pw->pw_name, gid) : setgroups(1, &gid)) || setegid(gid) ||
	    seteuid(uid))
		return gck_fail(err, errno, "cannot read as user %u: %s", (unsigned)uid,
				strerror(errno));
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of the user clears it */
	return 0;
}

static void act_as_root(void)
{
	if (seteuid(0) || setegid(0))
		_exit(1);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static json_t *info_of(const json_t *commit)
{
	json_t *info = json_deep_copy(json_object_get(commit, "info"));

	if (!json_is_object(info) || json_dumpb(info, NULL, 0, JSON_COMPACT) > INFO_MOST ||
	    json_integer_value(json_object_get(info, "stored")) < 0) {
		json_decref(info);
		info = json_object();
	}
	json_object_set(info, "nodes", json_object_get(commit, "nodes"));
	json_object_set_new(info, "ranks", json_integer((json_int_t)json_array_size(
					json_object_get(commit, "ranks"))));
	return info;
}

static json_t *entry_of(const json_t *commit, uint32_t seq, const char *hash, const char *cluster)
{
	json_t *e = gck_commit_entry(commit, seq, hash, cluster), *info = info_of(commit);

	json_object_update(info, json_object_get(e, "info"));
	json_object_set_new(e, "info", info);
	return e;
}

struct place {
	const struct gck_daemon *d;
	const char *url;
	uid_t uid;
	uint32_t job, step;
	bool complete; /* whatever could be read was */
};

static void report(const struct place *p, const json_t *newest, json_t *commits, json_t *kept)
{
	const struct passwd *pw = getpwuid(p->uid);
	size_t nodes = json_array_size(json_object_get(newest, "nodes"));
	json_t *line = json_pack("{s:I, s:s, s:I, s:I, s:s, s:I, s:I, s:O, s:O, s:O}", "uid",
				 (json_int_t)p->uid, "user", pw ? pw->pw_name : "", "job",
				 (json_int_t)p->job, "step", (json_int_t)p->step, "store", p->url,
				 "ntasks", (json_int_t)json_array_size(
					json_object_get(newest, "ranks")),
				 "nodes", (json_int_t)(nodes ? nodes : 1), "fingerprint",
				 json_object_get(newest, "fingerprint"), "commits", commits,
				 "kept", kept);

	if (line && json_dumpf(line, stdout, JSON_COMPACT) == 0)
		putchar('\n');
	json_decref(line);
}

/* A commit that lies in its own place; NULL: it does not, or cannot be read. */
static json_t *read_commit(const struct place *p, struct gck_store *s, uint32_t seq,
			   char hash[GCK_HASH_TEXT])
{
	struct gck_error err = {0};
	json_t *commit = gck_store_read_commit(s, seq, NULL, hash, &err);

	if (!commit)
		gck_warn("step %u.%u: commit %u, which the journal lacks, is left: %s", p->job,
			 p->step, seq, err.text);
	if (commit && json_integer_value(json_object_get(commit, "job")) == p->job &&
	    json_integer_value(json_object_get(commit, "step")) == p->step &&
	    json_is_object(json_object_get(commit, "fingerprint")))
		return commit;
	json_decref(commit);
	return NULL;
}

/* Append an entry before the others; returns its size. */
static size_t add_entry(const struct place *p, json_t *commits, const json_t *commit, uint32_t seq,
			const char *hash)
{
	json_t *entry = entry_of(commit, seq, hash, p->d->conf.cluster);

	json_array_insert_new(commits, 0, entry);
	return json_dumpb(entry, NULL, 0, JSON_COMPACT);
}

/* From the newest on. Those that do not fit into the report of a step are left. */
static void look_at(const struct place *p, struct gck_store *s, const uint32_t *seqs, size_t n)
{
	const struct gck_step *known = gck_state_step(&p->d->core.state, p->job, p->step);
	json_t *commits = json_array(), *kept = json_array(), *newest = NULL, *commit;
	char hash[GCK_HASH_TEXT];
	size_t bytes = 0;

	while (n-- > 0) {
		bool lacks = !known || gck_take_over_lacks(known, seqs[n], known->last_seq);
		bool fits = bytes < STEP_MOST && json_array_size(commits) < GCK_TAKE_OVER_MOST;

		if (known && gck_step_commit(known, seqs[n]))
			json_array_append_new(kept, json_integer(seqs[n]));
		commit = lacks && fits ? read_commit(p, s, seqs[n], hash) : NULL;
		if (!commit)
			continue;
		bytes += add_entry(p, commits, commit, seqs[n], hash);
		newest = newest ? newest : json_incref(commit);
		json_decref(commit);
	}
	if (newest)
		report(p, newest, commits, kept);
	json_decref(newest);
	json_decref(commits);
	json_decref(kept);
}

static int look_into(const struct place *p, struct gck_error *err)
{
	struct gck_store *s = gck_store_open(p->url, p->d->conf.cluster, p->job, p->step, false,
					     err);
	uint32_t *seqs = NULL;
	size_t n = 0;
	int rc;

	if (!s)
		return err->code == ENOENT ? 0 : -1;
	rc = gck_store_list(s, &seqs, &n, err);
	if (rc == 0)
		look_at(p, s, seqs, n);
	free(seqs);
	gck_store_close(s);
	return rc;
}

/* What one user has made must not keep the others' from being read. */
static int on_step(void *arg, uid_t uid, uint32_t job, uint32_t step)
{
	struct place *p = arg;
	const struct gck_step *known = gck_state_step(&p->d->core.state, job, step);
	bool switches = !gck_s3_is(p->url) && geteuid() == 0;
	struct gck_error err = {0};
	int rc;

	if (known && known->live)
		return 0;
	p->uid = uid;
	p->job = job;
	p->step = step;
	gck_probe_signer((struct gck_daemon *)p->d, uid);
	rc = switches ? act_as(uid, &err) : 0;
	if (rc == 0)
		rc = look_into(p, &err);
	if (switches)
		act_as_root();
	if (rc)
		gck_warn("step %u.%u in store=%s is not looked at: %s", job, step, p->url,
			 err.text);
	return 0;
}

/* ---- the process: all stores ---------------------------------------------------------------- */

static bool can_read(const struct gck_daemon *d, const char *url)
{
	return gck_s3_is(url) ? *d->keys.file.path && gck_conf_allows(&d->conf, url, NULL) == 0
			      : geteuid() == 0;
}

static void walk(struct place *p, const char *url)
{
	struct gck_error err = {0};

	p->url = url;
	if (!*url || !can_read(p->d, url) ||
	    gck_store_walk(url, p->d->conf.cluster, on_step, p, &err) == 0)
		return;
	p->complete = false;
	if (!scan.told)
		gck_warn("commits that the journal may lack are not looked for: %s", err.text);
}

/* The site's stores as a whole; in others, which users chose, the steps that the journal knows. */
static void walk_all(struct place *p)
{
	const struct gck_conf *c = &p->d->conf;

	walk(p, c->defaults.store);
	if (strcmp(c->s3_store, c->defaults.store) != 0)
		walk(p, c->s3_store);
	for (const struct gck_job *j = p->d->core.state.jobs; j; j = j->next)
		for (const struct gck_step *s = j->steps; s; s = s->next) {
			p->url = s->store;
			if (strcmp(p->url, c->defaults.store) && strcmp(p->url, c->s3_store) &&
			    can_read(p->d, p->url))
				on_step(p, s->uid, j->id, s->id);
		}
}

static int unwrap(void *arg, const char *wrapped, unsigned char key[GCK_CRYPTO_KEY],
		  struct gck_error *err)
{
	const struct place *p = arg;

	return gck_wrapping_unwrap(&p->d->wrapping, wrapped, p->uid, key, err);
}

static void child(struct gck_daemon *d, int fd, pid_t parent)
{
	struct place p = {.d = d, .complete = true};

	gck_log_as_stderr();
	gck_child_become(parent, fd, STDERR_FILENO);
	signal(SIGPIPE, SIG_IGN);
	gck_store_unwrapper(unwrap, &p);
	gck_probe_signer(d, 0);
	walk_all(&p);
	puts(p.complete ? "[true]" : "[false]");
	fflush(stdout);
	_exit(0);
}

/* ---- gpuckptd ------------------------------------------------------------------------------ */

static const json_t *slurm_of(const json_t *jobs, const json_t *found)
{
	json_t *one;
	size_t i;

	json_array_foreach(jobs, i, one)
		if (json_equal(json_object_get(one, "job"), json_object_get(found, "job")))
			return one;
	return NULL;
}

static bool wait_with(json_t *found)
{
	return json_array_size(scan.waiting) < WAITING_MOST &&
	       json_array_append(scan.waiting, found) == 0;
}

static void take_over(json_t *found, const json_t *jobs)
{
	struct gck_error err = {0};

	if (gck_take_over_step(&scan.d->core, found, slurm_of(jobs, found), &err) >= 0)
		return;
	if (err.code != EAGAIN || !wait_with(found))
		gck_warn("step %lld.%lld in store=%s is not taken over: %s",
			 (long long)json_integer_value(json_object_get(found, "job")),
			 (long long)json_integer_value(json_object_get(found, "step")),
			 json_string_value(json_object_get(found, "store")), err.text);
}

static void read_on(void);

/* Without Slurm's word the steps wait for the next call. */
static void on_slurm(void *arg, const struct gck_slurm_answer *answer)
{
	json_t *one;
	size_t i;

	(void)arg;
	json_array_foreach(scan.found, i, one)
		if (answer->ok)
			take_over(one, json_object_get(answer->data, "jobs"));
		else
			scan.done &= wait_with(one);
	json_array_clear(scan.found);
	read_on();
}

static void ask_slurm(void)
{
	json_t *jobs = json_array(), *one;
	size_t i;

	json_array_foreach(scan.found, i, one)
		json_array_append(jobs, json_object_get(one, "job"));
	gck_slurm_ask(&scan.d->slurm, json_pack("{s:s, s:o}", "op", "jobs", "jobs", jobs),
		      on_slurm, NULL);
}

static void take_line(const char *line)
{
	json_t *one = json_loads(line, 0, NULL);

	if (json_is_object(one))
		json_array_append(scan.found, one);
	else if (json_is_array(one))
		scan.done = json_is_true(json_array_get(one, 0));
	json_decref(one);
}

static void take_lines(void)
{
	char *line = scan.text, *end;

	while ((end = memchr(line, '\n', scan.size - (size_t)(line - scan.text)))) {
		*end = '\0';
		take_line(line);
		line = end + 1;
	}
	scan.size -= (size_t)(line - scan.text);
	memmove(scan.text, line, scan.size);
}

static void end_report(void)
{
	close(scan.io.fd);
	free(scan.text);
	scan.text = NULL;
	scan.size = 0;
	scan.io.fd = -1;
	scan.told = true;
}

/* Until the report is over and Slurm was asked about all of it. */
static void read_on(void)
{
	if (scan.io.fd >= 0 && json_array_size(scan.found) < BATCH)
		ev_io_start(scan.d->loop, &scan.io);
	else if (json_array_size(scan.found))
		ask_slurm();
	else
		scan.under_way = false;
}

static void on_report(struct ev_loop *loop, ev_io *w, int events)
{
	char *more = realloc(scan.text, scan.size + 65536);
	ssize_t n = more ? read(w->fd, more + scan.size, 65536) : 0;

	(void)events;
	scan.text = more ? more : scan.text;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	ev_io_stop(loop, w);
	if (n > 0) {
		scan.size += (size_t)n;
		take_lines();
	} else {
		end_report();
	}
	read_on();
}

/* libev waits for the process. */
static void launch(struct gck_daemon *d)
{
	pid_t parent = getpid(), pid;
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return;
	pid = fork();
	if (pid == 0)
		child(d, fds[1], parent);
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return;
	}
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	json_array_clear(scan.waiting);
	scan.under_way = true;
	ev_io_init(&scan.io, on_report, fds[0], EV_READ);
	ev_io_start(d->loop, &scan.io);
}

void gck_scan_start(struct gck_daemon *d)
{
	if (!scan.d) {
		scan.d = d;
		scan.found = json_array();
		scan.waiting = json_array();
		scan.io.fd = -1;
	}
	if (scan.under_way || !*d->conf.cluster)
		return;
	if (!scan.done) {
		launch(d);
	} else if (json_array_size(scan.waiting)) {
		json_array_extend(scan.found, scan.waiting);
		json_array_clear(scan.waiting);
		scan.under_way = true;
		ask_slurm();
	}
}
