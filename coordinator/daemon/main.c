/* SPDX-License-Identifier: Apache-2.0
 * gpuckptd: the coordinator. */
#include "config.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/boot_clock.h"
#include "common/base/log.h"
#include "coordinator/core/agents/epoch.h"
#include "coordinator/core/machine/machine.h"
#include "coordinator/core/model/live.h"
#include "coordinator/core/model/record.h"
#include "coordinator/core/operations/operation.h"
#include "coordinator/daemon/daemon.h"
#include "coordinator/daemon/objects/objects.h"
#include "coordinator/daemon/requests/requests.h"

struct arguments {
	const char *conf;
	const char *log; /* NULL: stderr, or StateDir/gpuckptd.log in the background */
	bool foreground;
	bool verbose;
	bool test;
};

static struct gck_daemon the_daemon;

static void usage(FILE *to)
{
	fprintf(to, "usage: gpuckptd [-D] [-v] [-f FILE] [-L FILE]\n"
		"       gpuckptd -t [-f FILE]\n"
		"  -f FILE  configuration [" GCK_CONF_PATH "]\n"
		"  -D       stay in the foreground, log to stderr\n"
		"  -L FILE  log to this file [StateDir/gpuckptd.log; with -D stderr]\n"
		"  -v       log more\n"
		"  -t       test the configuration: print each problem, start nothing\n"
		"  -h, -V   this help, the version\n");
}

static int parse_arguments(struct arguments *a, int argc, char **argv)
{
	int c;

	*a = (struct arguments){.conf = GCK_CONF_PATH};
	while ((c = getopt(argc, argv, "f:L:DvthV")) != -1) {
		switch (c) {
		case 'f':
			a->conf = optarg;
			break;
		case 'L':
			a->log = optarg;
			break;
		case 'D':
			a->foreground = true;
			break;
		case 'v':
			a->verbose = true;
			break;
		case 't':
			a->test = true;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		case 'V':
			printf("gpuckptd %s\n", PACKAGE_VERSION);
			exit(0);
		default:
			usage(stderr);
			return -1;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "gpuckptd: unexpected argument \"%s\"\n", argv[optind]);
		usage(stderr);
		return -1;
	}
	return 0;
}

static int open_log(const struct arguments *a, const struct gck_conf *conf, struct gck_error *err)
{
	char path[PATH_MAX + 16];
	const char *to = a->log;

	snprintf(path, sizeof path, "%s/gpuckptd.log", conf->state_dir);
	if (!to && !a->foreground)
		to = path;
	if (gck_log_open("gpuckptd", to, a->verbose ? GCK_LOG_DEBUG : GCK_LOG_INFO))
		return gck_fail(err, errno, "cannot open the log %s: %s", to ? to : "stderr",
				strerror(errno));
	return 0;
}

static int take_record(void *arg, const json_t *record, struct gck_error *err)
{
	return gck_record_apply(arg, record, err);
}

static void begin_core(struct gck_daemon *d)
{
	d->core.conf = &d->conf;
	d->core.slurmd_timeout_s = -1;
	d->core.world = &gck_real_world;
	d->core.transition = gck_machine_step;
	d->ops = &gck_request_ops;
	d->core.since = time(NULL);
	d->started_ms = gck_boot_ms();
}

static int open_journal(struct gck_daemon *d, struct gck_error *err)
{
	bool torn = false;

	if (gck_journal_lock(d->conf.state_dir, err))
		return -1;
	d->journal = gck_journal_open(d->conf.state_dir, take_record, &d->core.state, &torn, err);
	if (!d->journal)
		return -1;
	if (torn)
		gck_warn("the last line of the journal was torn by a crash and is dropped");
	gck_epoch_begin(&d->core, gck_journal_was_current(d->journal));
	if (d->core.state.doubt == d->core.since)
		gck_warn("the journal is new, or not as gpuckptd has left it: a job that Slurm "
			 "starts again now may wait for ranks that are not in it");
	return gck_daemon_compact(d, err);
}

static void on_stop(struct ev_loop *loop, ev_signal *w, int events)
{
	(void)events;
	gck_info("stopped by signal %d; steps run on without checkpoints", w->signum);
	ev_break(loop, EVBREAK_ALL);
}

/* A connection is a file descriptor. */
static void allow_connections(const struct gck_conf *conf)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_max < conf->max_connections + 64)
		gck_warn("MaxConnections=%u, but this process may open %lu files only",
			 conf->max_connections, (unsigned long)limit.rlim_max);
}

static void catch_signals(struct gck_daemon *d)
{
	static const int signals[] = {SIGTERM, SIGINT};

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
		ev_signal_init(&d->stop[i], on_stop, signals[i]);
		ev_signal_start(d->loop, &d->stop[i]);
	}
}

static int make_loop(struct gck_daemon *d, struct gck_error *err)
{
	d->loop = ev_default_loop(0);
	if (!d->loop)
		return gck_fail(err, ENOSYS, "libev found no way to wait for events");
	d->slurm.loop = d->loop;
	catch_signals(d);
	gck_grace_begin(d);
	gck_watch_start(d);
	return 0;
}

/* Keep keys out of core files, and out of reach of other processes of this user. Child processes
 * that are forked from here on keep them so as well. */
static int keep_secret(const struct gck_daemon *d, struct gck_error *err)
{
	if ((*d->keys.file.path || *d->wrapping.file.path) && prctl(PR_SET_DUMPABLE, 0))
		return gck_fail(err, errno, "keys cannot be kept secret here: %s", strerror(errno));
	return 0;
}

static void announce(const struct gck_daemon *d)
{
	gck_info("gpuckptd %s, epoch %u, listens at port %u", PACKAGE_VERSION, d->core.state.epoch,
		 d->conf.port);
}

/* Connections are closed without telling the core: what is under way continues after the next
 * start. */
static void close_down(struct gck_daemon *d)
{
	for (struct gck_job *job = d->core.state.jobs; job; job = job->next)
		for (struct gck_step *step = job->steps; step; step = step->next) {
			for (enum gck_timer t = 0; t < GCK_TIMERS; t++)
				d->core.world->timer(&d->core, step, t, 0);
			gck_live_free(step);
		}
	gck_operation_free_all(&d->core);
	gck_server_close(d);
	gck_slurm_close(&d->slurm);
	gck_state_clear(&d->core.state);
	gck_journal_close(d->journal);
	ev_loop_destroy(d->loop);
}

static int fail(const struct gck_error *err)
{
	fprintf(stderr, "gpuckptd: %s\n", err->text);
	return 1;
}

int main(int argc, char **argv)
{
	struct gck_daemon *d = &the_daemon;
	struct gck_error err = {0};
	struct arguments a;

	if (parse_arguments(&a, argc, argv))
		return 2;
	umask(077);
	if (a.test)
		return gck_configure_test(d, a.conf);
	if (gck_configure(d, a.conf, &err) || keep_secret(d, &err))
		return fail(&err);
	if (!a.foreground && gck_background_begin(&err))
		return fail(&err);
	begin_core(d);
	if (open_log(&a, &d->conf, &err) || open_journal(d, &err))
		return fail(&err);
	gck_probe_start(d);
	if (make_loop(d, &err) || gck_server_listen(d, &err))
		return fail(&err);
	allow_connections(&d->conf);
	announce(d);
	if (gck_background_done(&err))
		return fail(&err);
	ev_run(d->loop, 0);
	close_down(d);
	return 0;
}
