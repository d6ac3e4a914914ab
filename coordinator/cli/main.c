/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt: checkpoints of steps that run with --gpu-ckpt, from the command line. */
#include "config.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>

#include "coordinator/cli/cli.h"

static void print_help(void)
{
	printf("usage: gpuckpt VERB [JOBID[.STEPID]] [SEQ...] [OPTION...]\n\nverbs:\n");
	for (const struct verb *v = cli_verbs; v->name; v++) {
		const char *what = v->takes & VERB_EXPORT  ? "JOBID[.STEPID]:SEQ FILE" :
				   v->takes & VERB_IMPORT  ? "FILE" :
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
	       "      --store URL   import: the store (DefaultStore of the configuration file)\n"
	       "      --all         remove: every commit of the job or step\n"
	       "  -h, --help        this text\n"
	       "  -V, --version     the version\n", GCK_CONF_PATH);
}

static int run(struct cli *c)
{
	struct gck_error err = { 0 };
	int rc;

	gck_conf_init(&c->conf);
	rc = gck_conf_load(&c->conf, c->conf_path, &err);
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
