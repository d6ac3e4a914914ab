/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt: checkpoints of steps that run with --gpu-ckpt, from the command line. */
#include "config.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "coordinator/cli/cli.h"
#include "coordinator/cli/print.h"

#define SHOWS (VERB_JOB_MAY | VERB_IDS | VERB_JSON | VERB_TABLE | VERB_USER)
#define ACTS (VERB_JOB | VERB_IDS | VERB_JSON | VERB_TABLE)

const struct verb cli_verbs[] = {
	{ "able", "JOBID[.STEPID]...", ACTS | VERB_VERBOSE, cli_able,
	  "say what prevents a checkpoint", "gpuckpt able 4711" },
	{ "create", "JOBID[.STEPID]...", ACTS | VERB_WAIT | VERB_VERIFY, cli_checkpoint,
	  "take a checkpoint; the step goes on", "gpuckpt create 4711.0 4712" },
	{ "vacate", "JOBID[.STEPID]...", ACTS | VERB_WAIT, cli_checkpoint,
	  "take a checkpoint and end the step; the job's script goes on",
	  "gpuckpt vacate 4711.0" },
	{ "requeue", "JOBID[.STEPID]...", ACTS | VERB_WAIT, cli_checkpoint,
	  "take a checkpoint and requeue the job", "gpuckpt requeue 4711 4720_[2-4]" },
	{ "disable", "JOBID[.STEPID]...", VERB_JOB | VERB_IDS, cli_switch,
	  "take no checkpoints of the job or step", "gpuckpt disable 4711" },
	{ "enable", "JOBID[.STEPID]...", VERB_JOB | VERB_IDS, cli_switch,
	  "take checkpoints again", "gpuckpt enable 4711" },
	{ "list", "[JOBID[.STEPID]...]", SHOWS, cli_list, "list the commits of your steps",
	  "gpuckpt list 4711 --noheader" },
	{ "show", "JOBID[.STEPID[:SEQ]]...", VERB_JOB | VERB_IDS | VERB_SEQ | VERB_JSON, cli_show,
	  "show a commit, the newest by default", "gpuckpt show 4711.0:7" },
	{ "status", "[JOBID[.STEPID]...]", SHOWS, cli_status,
	  "show the coordinator and its steps", "gpuckpt status 4711 4720_2" },
	{ "watch", "[JOBID[.STEPID]...]", SHOWS, cli_watch, "show the same again and again",
	  "gpuckpt watch 4711" },
	{ "verify", "JOBID[.STEPID[:SEQ]]...", ACTS | VERB_SEQ | VERB_QUICK, cli_verify,
	  "read everything that commits need and check it", "gpuckpt verify 4711.0:7" },
	{ "export", "JOBID[.STEPID]:SEQ FILE", VERB_EXPORT, cli_export,
	  "put a commit into a file", "gpuckpt export 4711.0:7 solver.image" },
	{ "import", "FILE", VERB_IMPORT, cli_import, "put a commit from a file into a store",
	  "gpuckpt import solver.image --store=file:/scratch/me" },
	{ "remove", "JOBID[.STEPID] SEQ...|--all", VERB_JOB | VERB_SEQS | VERB_JSON | VERB_TABLE,
	  cli_remove, "remove commits and their images", "gpuckpt remove 4711.0 5 6" },
	{ "check", "[--all]", VERB_CHECK | VERB_JSON | VERB_TABLE, cli_check,
	  "check that gpuckpt finds all that it needs on this node", "gpuckpt check --all" },
	{ 0 },
};

/* The job or step of a verb that takes only one. */
static int use_only(struct cli *c, struct gck_error *err)
{
	if (c->nids > 1)
		return gck_fail(err, EINVAL, "these are several jobs of an array: name one, "
				"such as %s", c->ids[0].name);
	cli_use(c, &c->ids[0]);
	return 0;
}

static int run_verb(struct cli *c, struct gck_error *err)
{
	if (c->nids > 0 && cli_resolve(c, err) < 0)
		return -1;
	if (c->status && c->nids == 0)
		return c->status;
	if (c->nids > 0 && !(c->verb->takes & VERB_IDS) && use_only(c, err) < 0)
		return -1;
	return c->verb->run(c, err);
}

static int run(struct cli *c)
{
	struct gck_error err = { 0 };
	int rc;

	print_titles(!c->noheader);
	gck_conf_init(&c->conf);
	rc = c->verb->takes & VERB_CHECK ? 0 : gck_conf_load(&c->conf, c->conf_path, &err);
	if (rc == 0)
		rc = run_verb(c, &err);
	if (rc == 0 && fflush(stdout) != 0)
		rc = gck_fail(&err, errno, "standard output cannot be written");
	if (rc >= 0)
		return rc;
	cli_complain(c, &err);
	return CLI_FAILED;
}

int main(int argc, char **argv)
{
	const char *conf = getenv("GPUCKPT_CONF");
	struct cli c = { .conf_path = conf && *conf ? conf : GCK_CONF_PATH };
	struct gck_error err;

	setlocale(LC_CTYPE, "");
	if (argc < 2) {
		cli_print_usage();
		return CLI_USAGE;
	}
	if (cli_parse(&c, argc, argv, &err) < 0) {
		fprintf(stderr, "gpuckpt: %s; see gpuckpt help%s%s\n", err.text, c.verb ? " " : "",
			c.verb ? c.verb->name : "");
		return CLI_USAGE;
	}
	if (c.version)
		printf("gpuckpt %s\n", PACKAGE_VERSION);
	else if (c.help)
		cli_print_help(&c);
	else
		return run(&c);
	return fflush(stdout) ? CLI_FAILED : CLI_DONE;
}
