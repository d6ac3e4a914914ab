/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt: checkpoints of steps that run with --gpu-ckpt, from the command line. */
#include "config.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "coordinator/cli/cli.h"

const struct verb cli_verbs[] = {
	{ "able", VERB_JOB | VERB_JSON, cli_able, "say what stands in the way of a checkpoint" },
	{ "create", VERB_JOB | VERB_JSON | VERB_WAIT | VERB_VERIFY, cli_checkpoint,
	  "take a checkpoint; the step goes on" },
	{ "vacate", VERB_JOB | VERB_JSON | VERB_WAIT, cli_checkpoint,
	  "take a checkpoint and end the step; the job's script goes on" },
	{ "requeue", VERB_JOB | VERB_JSON | VERB_WAIT, cli_checkpoint,
	  "take a checkpoint and requeue the job" },
	{ "disable", VERB_JOB, cli_switch, "take no checkpoints of the job or step" },
	{ "enable", VERB_JOB, cli_switch, "take checkpoints again" },
	{ "list", VERB_JOB_MAY | VERB_JSON, cli_list, "list the commits of your steps" },
	{ "show", VERB_JOB | VERB_SEQ | VERB_JSON, cli_show,
	  "show a commit, the newest by default" },
	{ "status", VERB_JOB_MAY | VERB_JSON, cli_status,
	  "show the coordinator and its steps" },
	{ "watch", VERB_JOB_MAY | VERB_JSON, cli_watch,
	  "show the same again and again" },
	{ "verify", VERB_JOB | VERB_SEQ | VERB_JSON | VERB_QUICK, cli_verify,
	  "read everything that commits need and check it" },
	{ "export", VERB_EXPORT, cli_export, "put a commit into a file" },
	{ "import", VERB_IMPORT, cli_import, "put a commit from a file into a store" },
	{ "remove", VERB_JOB | VERB_SEQS | VERB_JSON, cli_remove,
	  "remove commits and their images" },
	{ "check", VERB_CHECK | VERB_JSON, cli_check,
	  "check that gpuckpt finds all that it needs on this node" },
	{ 0 },
};

static void print_help(void)
{
	printf("usage: gpuckpt VERB [JOBID[.STEPID]] [SEQ...] [OPTION...]\n\nverbs:\n");
	for (const struct verb *v = cli_verbs; v->name; v++) {
		const char *what = v->takes & VERB_EXPORT  ? "JOBID[.STEPID]:SEQ FILE" :
				   v->takes & VERB_IMPORT  ? "FILE" :
				   v->takes & VERB_CHECK   ? "[--all]" :
				   v->takes & VERB_SEQS	   ? "JOBID[.STEPID] SEQ...|--all" :
				   v->takes & VERB_SEQ	   ? "JOBID[.STEPID] [SEQ]" :
				   v->takes & VERB_JOB_MAY ? "[JOBID[.STEPID]]" :
							     "JOBID[.STEPID]";

		printf("  %-8s %-28s %s\n", v->name, what, v->help);
	}
	printf("\noptions:\n"
	       "  -f, --conf FILE   configuration file (%s)\n"
	       "      --json        print JSON\n"
	       "      --no-wait     create, vacate, requeue: return when it has begun\n"
	       "      --quick       verify: do not read the data\n"
	       "      --restore     verify: build the ranks here, without running them\n"
	       "      --verify      create: then do the same with the new commit\n"
	       "      --store URL   import: the store (DefaultStore of the configuration file)\n"
	       "      --all         remove: every commit of the job or step; check: all nodes\n"
	       "  -h, --help        this text\n"
	       "  -V, --version     the version\n", GCK_CONF_PATH);
}

static int run(struct cli *c)
{
	struct gck_error err = { 0 };
	int rc;

	gck_conf_init(&c->conf);
	rc = c->verb->takes & VERB_CHECK ? 0 : gck_conf_load(&c->conf, c->conf_path, &err);
	if (rc == 0)
		rc = c->verb->run(c, &err);
	if (rc == 0 && fflush(stdout) != 0)
		rc = gck_fail(&err, errno, "standard output cannot be written");
	if (rc >= 0)
		return rc;
	fprintf(stderr, "gpuckpt: %s: %s\n", c->verb->name, err.text);
	return CLI_FAILED;
}

int main(int argc, char **argv)
{
	const char *conf = getenv("GPUCKPT_CONF");
	struct cli c = { .conf_path = conf && *conf ? conf : GCK_CONF_PATH };
	bool help = false, version = false;
	struct gck_error err;

	setlocale(LC_CTYPE, "");
	if (cli_parse(&c, argc, argv, &help, &version, &err) < 0) {
		fprintf(stderr, "gpuckpt: %s; see gpuckpt --help\n", err.text);
		return CLI_USAGE;
	}
	if (help)
		print_help();
	else if (version)
		printf("gpuckpt %s\n", PACKAGE_VERSION);
	else
		return run(&c);
	return fflush(stdout) ? CLI_FAILED : CLI_DONE;
}
