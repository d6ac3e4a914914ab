/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt's arguments: options anywhere, then VERB [JOBID[.STEPID]] [SEQ...]; files for two
 * verbs. */
#include <getopt.h>
#include <string.h>

#include "coordinator/cli/cli.h"

enum { OPT_JSON = 256, OPT_NO_WAIT, OPT_ALL, OPT_QUICK, OPT_STORE, OPT_RESTORE,
       OPT_VERIFY };

static const struct option options[] = {
	{ "conf", required_argument, NULL, 'f' },  { "json", no_argument, NULL, OPT_JSON },
	{ "no-wait", no_argument, NULL, OPT_NO_WAIT }, { "all", no_argument, NULL, OPT_ALL },
	{ "quick", no_argument, NULL, OPT_QUICK },  { "store", required_argument, NULL, OPT_STORE },
	{ "restore", no_argument, NULL, OPT_RESTORE },
	{ "verify", no_argument, NULL, OPT_VERIFY },
	{ "help", no_argument, NULL, 'h' },	   { "version", no_argument, NULL, 'V' },
	{ 0 },
};

static int bad_option(char *const *argv, int opt, struct gck_error *err)
{
	const char *arg = argv[optind - 1];

	if (opt == ':')
		return gck_fail(err, EINVAL, "option %s needs a value", arg);
	if (optopt > 0 && optopt < 256)
		return gck_fail(err, EINVAL, "there is no option -%c", optopt);
	if (optopt)
		return gck_fail(err, EINVAL, "option %.80s takes no value", arg);
	return gck_fail(err, EINVAL, "there is no option %.80s (or it is cut too short)", arg);
}

static int parse_options(struct cli *c, int argc, char **argv, bool *help, bool *version,
			 struct gck_error *err)
{
	int opt;

	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":f:hV", options, NULL)) != -1) {
		switch (opt) {
		case 'f':
			c->conf_path = optarg;
			break;
		case OPT_JSON:
			c->json = true;
			break;
		case OPT_NO_WAIT:
			c->no_wait = true;
			break;
		case OPT_ALL:
			c->all = true;
			break;
		case OPT_STORE:
			c->store = optarg;
			break;
		case OPT_QUICK:
			c->quick = true;
			break;
		case OPT_RESTORE:
			c->restore = true;
			break;
		case OPT_VERIFY:
			c->verify = true;
			break;
		case 'h':
			*help = true;
			return 0;
		case 'V':
			*version = true;
			return 0;
		default:
			return bad_option(argv, opt, err);
		}
	}
	return 0;
}

static int find_verb(struct cli *c, const char *name, struct gck_error *err)
{
	for (const struct verb *v = cli_verbs; v->name; v++) {
		if (!strcmp(v->name, name)) {
			c->verb = v;
			return 0;
		}
	}
	return gck_fail(err, EINVAL, "there is no verb \"%.40s\"", name);
}

/* Parse an unsigned decimal number below 2^32 that extends to end. */
static int number(const char *text, const char *end, uint32_t *value)
{
	uint64_t v = 0;

	if (text == end || end - text > 10)
		return -1;
	for (; text < end; text++) {
		if (*text < '0' || *text > '9')
			return -1;
		v = v * 10 + (uint64_t)(*text - '0');
	}
	*value = (uint32_t)v;
	return v > UINT32_MAX ? -1 : 0;
}

static int parse_job(struct cli *c, const char *text, struct gck_error *err)
{
	const char *dot = strchr(text, '.');
	const char *end = dot ? dot : text + strlen(text);

	if (strpbrk(text, "_+"))
		return gck_fail(err, EINVAL, "\"%.80s\" is a part of an array or heterogeneous "
				"job: use its own number (squeue -O JobID)", text);
	if (number(text, end, &c->job) < 0 || c->job == 0)
		return gck_fail(err, EINVAL, "\"%.80s\" is not JOBID[.STEPID]", text);
	c->has_job = true;
	if (!dot)
		return 0;
	if (!strcmp(dot, ".batch") || !strcmp(dot, ".extern") || !strcmp(dot, ".interactive"))
		return gck_fail(err, EINVAL,
				"\"%.80s\": only srun's numbered steps have checkpoints", text);
	if (number(dot + 1, dot + strlen(dot), &c->step) < 0)
		return gck_fail(err, EINVAL, "\"%.80s\" is not JOBID[.STEPID]", text);
	c->has_step = true;
	return 0;
}

static int parse_seqs(struct cli *c, int argc, char **argv, struct gck_error *err)
{
	unsigned takes = c->verb->takes;

	if (argc > 0 && !(takes & (VERB_SEQ | VERB_SEQS)))
		return gck_fail(err, EINVAL, "\"%.80s\" is one argument too many", argv[0]);
	if (argc > 1 && (takes & VERB_SEQ))
		return gck_fail(err, EINVAL, "\"%.80s\": one SEQ at most", argv[1]);
	if (argc > CLI_MAX_SEQS)
		return gck_fail(err, EINVAL, "%d SEQs: %d at most", argc, CLI_MAX_SEQS);
	for (int i = 0; i < argc; i++) {
		uint32_t *seq = &c->seqs[c->nseqs++];

		if (number(argv[i], argv[i] + strlen(argv[i]), seq) < 0 || *seq == 0)
			return gck_fail(err, EINVAL, "\"%.80s\" is not a sequence number", argv[i]);
	}
	if (c->nseqs > 0 && !c->has_step)
		return gck_fail(err, EINVAL, "with a SEQ the step must be named: %u.STEPID",
				c->job);
	return 0;
}

static int check_options(const struct cli *c, struct gck_error *err)
{
	unsigned takes = c->verb->takes;

	if (c->json && !(takes & VERB_JSON))
		return gck_fail(err, EINVAL, "--json: nothing is printed");
	if (c->no_wait && !(takes & VERB_WAIT))
		return gck_fail(err, EINVAL, "--no-wait: there is nothing to wait for");
	if (c->store && !(takes & VERB_IMPORT))
		return gck_fail(err, EINVAL, "--store is for import");
	if (c->quick && !(takes & VERB_QUICK))
		return gck_fail(err, EINVAL, "--quick is for verify");
	if (c->restore && !(takes & VERB_QUICK))
		return gck_fail(err, EINVAL, "--restore is for verify");
	if (c->restore && c->quick)
		return gck_fail(err, EINVAL, "either --quick or --restore");
	if (c->verify && !(takes & VERB_VERIFY))
		return gck_fail(err, EINVAL, "--verify is for create");
	if (c->verify && c->no_wait)
		return gck_fail(err, EINVAL, "either --no-wait or --verify");
	if (c->all && !(takes & (VERB_SEQS | VERB_CHECK)))
		return gck_fail(err, EINVAL, "--all is for remove and check");
	if ((takes & VERB_SEQS) && !c->all && c->nseqs == 0)
		return gck_fail(err, EINVAL, "say which: SEQ, or --all");
	if ((takes & VERB_SEQS) && c->all && c->nseqs > 0)
		return gck_fail(err, EINVAL, "either SEQ or --all");
	return 0;
}

/* [JOBID[.STEPID]:SEQ] FILE */
static int parse_file(struct cli *c, int argc, char **argv, struct gck_error *err)
{
	bool export = c->verb->takes & VERB_EXPORT;
	char *colon = argc > 0 ? strchr(argv[0], ':') : NULL;

	if (argc != 1 + export)
		return gck_fail(err, EINVAL, "it takes %sFILE",
				export ? "JOBID[.STEPID]:SEQ " : "");
	c->file = argv[argc - 1];
	if (!export)
		return check_options(c, err);
	if (!colon || number(colon + 1, colon + strlen(colon), &c->seqs[0]) < 0 || !c->seqs[0])
		return gck_fail(err, EINVAL, "\"%.80s\" is not JOBID[.STEPID]:SEQ", argv[0]);
	*colon = '\0';
	c->nseqs = 1;
	return parse_job(c, argv[0], err) < 0 ? -1 : check_options(c, err);
}

static int parse_operands(struct cli *c, int argc, char **argv, struct gck_error *err)
{
	if (c->verb->takes & (VERB_EXPORT | VERB_IMPORT))
		return parse_file(c, argc, argv, err);
	if (argc > 0 && !(c->verb->takes & VERB_CHECK)) {
		if (parse_job(c, argv[0], err) < 0)
			return -1;
		argc--;
		argv++;
	} else if (c->verb->takes & VERB_JOB) {
		return gck_fail(err, EINVAL, "JOBID[.STEPID] is missing");
	}
	if (parse_seqs(c, argc, argv, err) < 0)
		return -1;
	return check_options(c, err);
}

int cli_parse(struct cli *c, int argc, char **argv, bool *help, bool *version,
	      struct gck_error *err)
{
	if (parse_options(c, argc, argv, help, version, err) < 0)
		return -1;
	if (*help || *version)
		return 0;
	argc -= optind;
	argv += optind;
	if (argc == 0)
		return gck_fail(err, EINVAL, "a verb is missing");
	if (find_verb(c, argv[0], err) < 0)
		return -1;
	if (parse_operands(c, argc - 1, argv + 1, err) < 0)
		return gck_fail_in(err, "%s", c->verb->name);
	return 0;
}
