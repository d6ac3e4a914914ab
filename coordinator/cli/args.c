/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt's arguments: options anywhere, then VERB and its operands. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/cli/cli.h"

#define MEMBER(name) offsetof(struct cli, name)
#define FIRST 256 /* getopt's number of the first option */

const struct cli_option cli_options[] = {
	{ "conf", "FILE", 'f', 0, MEMBER(conf_path), "the configuration file" },
	{ "user", "USERS", 'u', VERB_USER, MEMBER(users),
	  "only of USER[,USER...], names or numbers" },
	{ "json", NULL, 0, VERB_JSON, MEMBER(json), "print JSON" },
	{ "noheader", NULL, 0, VERB_TABLE, MEMBER(noheader), "print tables without titles" },
	{ "verbose", NULL, 'v', VERB_VERBOSE, MEMBER(verbose),
	  "name also what does not prevent a checkpoint" },
	{ "no-wait", NULL, 0, VERB_WAIT, MEMBER(no_wait), "return when it has begun" },
	{ "verify", NULL, 0, VERB_VERIFY, MEMBER(verify),
	  "then build the new commit's ranks, as verify --restore" },
	{ "quick", NULL, 0, VERB_QUICK, MEMBER(quick), "do not read the data" },
	{ "restore", NULL, 0, VERB_QUICK, MEMBER(restore),
	  "build the ranks here, without running them" },
	{ "store", "URL", 0, VERB_IMPORT, MEMBER(store), "the store, if not DefaultStore" },
	{ "all", NULL, 0, VERB_SEQS | VERB_CHECK, MEMBER(all),
	  "every commit of the job or step; every node" },
	{ "help", NULL, 'h', 0, MEMBER(help), "this text" },
	{ "version", NULL, 'V', 0, MEMBER(version), "the version" },
	{ 0 },
};
#define NOPTIONS (sizeof cli_options / sizeof *cli_options - 1)

/* ---- options ------------------------------------------------------------------------------- */

static int bad_option(char *const *argv, int opt, struct gck_error *err)
{
	const char *arg = argv[optind - 1];

	if (opt == ':')
		return gck_fail(err, EINVAL, "option %s needs a value", arg);
	if (optopt > 0 && optopt < FIRST)
		return gck_fail(err, EINVAL, "there is no option -%c", optopt);
	if (optopt)
		return gck_fail(err, EINVAL, "option %.80s takes no value", arg);
	return gck_fail(err, EINVAL, "there is no option %.80s (or it is cut too short)", arg);
}

static void set(struct cli *c, const struct cli_option *o)
{
	char *member = (char *)c + o->member;

	if (o->value)
		*(const char **)(void *)member = optarg;
	else
		*(bool *)member = true;
}

static bool is_set(const struct cli *c, const struct cli_option *o)
{
	const char *member = (const char *)c + o->member;

	return o->value ? *(const char *const *)(const void *)member != NULL :
			  *(const bool *)member;
}

/* getopt's tables. Long options' numbers are above all letters. */
static void fill(struct option longs[NOPTIONS + 1], char letters[2 * NOPTIONS + 2])
{
	*letters++ = ':';
	for (size_t i = 0; i < NOPTIONS; i++) {
		const struct cli_option *o = &cli_options[i];

		longs[i] = (struct option){ o->name, o->value ? required_argument : no_argument,
					    NULL, FIRST + (int)i };
		if (o->letter)
			*letters++ = (char)o->letter;
		if (o->letter && o->value)
			*letters++ = ':';
	}
	longs[NOPTIONS] = (struct option){ 0 };
	*letters = '\0';
}

static int parse_options(struct cli *c, int argc, char **argv, struct gck_error *err)
{
	struct option longs[NOPTIONS + 1];
	char letters[2 * NOPTIONS + 2];
	int opt;

	fill(longs, letters);
	opterr = 0;
	while ((opt = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
		if (opt == '?' || opt == ':')
			return bad_option(argv, opt, err);
		for (size_t i = 0; i < NOPTIONS; i++)
			if (opt == cli_options[i].letter || opt == FIRST + (int)i)
				set(c, &cli_options[i]);
	}
	return 0;
}

static int check_takers(const struct cli *c, struct gck_error *err)
{
	char names[CLI_NAMES_MAX];

	for (const struct cli_option *o = cli_options; o->name; o++) {
		if (!o->takes || (o->takes & c->verb->takes) || !is_set(c, o))
			continue;
		cli_takers(o, names);
		return gck_fail(err, EINVAL, "--%s is for %s", o->name, names);
	}
	return 0;
}

static int check_options(const struct cli *c, struct gck_error *err)
{
	bool which = c->verb->takes & VERB_SEQS;

	if (check_takers(c, err) < 0)
		return -1;
	if (c->restore && c->quick)
		return gck_fail(err, EINVAL, "either --quick or --restore");
	if (c->verify && c->no_wait)
		return gck_fail(err, EINVAL, "either --no-wait or --verify");
	if (which && !c->all && c->nseqs == 0)
		return gck_fail(err, EINVAL, "say which: SEQ, or --all");
	if (which && c->all && c->nseqs > 0)
		return gck_fail(err, EINVAL, "either SEQ or --all");
	return 0;
}

/* ---- operands ------------------------------------------------------------------------------ */

static int find_verb(struct cli *c, const char *name, struct gck_error *err)
{
	const char *nearest;

	for (const struct verb *v = cli_verbs; v->name; v++) {
		if (!strcmp(v->name, name)) {
			c->verb = v;
			return 0;
		}
	}
	nearest = cli_nearest(name);
	return gck_fail(err, EINVAL, "there is no verb \"%.40s\"%s%s%s", name,
			nearest ? " (did you mean " : "", nearest ? nearest : "",
			nearest ? "?)" : "");
}

static int parse_seqs(struct cli *c, int argc, char **argv, struct gck_error *err)
{
	if (argc > CLI_MAX_SEQS)
		return gck_fail(err, EINVAL, "%d SEQs: %d at most", argc, CLI_MAX_SEQS);
	for (int i = 0; i < argc; i++) {
		uint32_t *seq = &c->seqs[c->nseqs++];

		if (cli_number(argv[i], argv[i] + strlen(argv[i]), seq) < 0 || *seq == 0)
			return gck_fail(err, EINVAL, "\"%.80s\" is not a sequence number", argv[i]);
	}
	return 0;
}

static int check_seqs(const struct cli *c, struct gck_error *err)
{
	for (size_t i = 0; i < c->nids; i++)
		if ((c->nseqs || c->ids[i].seq) && !c->ids[i].has_step &&
		    !(c->verb->takes & VERB_EXPORT))
			return gck_fail(err, EINVAL, "with a SEQ the step must be named: "
					"%u.STEPID", c->ids[i].job);
	return 0;
}

/* "show 7.0 2": the second is a SEQ. */
static bool is_seq(const struct cli *c, int argc, char *const *argv)
{
	return (c->verb->takes & VERB_SEQ) && argc == 2 && c->ids[0].has_step && !c->ids[0].seq &&
	       argv[1][strspn(argv[1], "0123456789")] == '\0';
}

/* Returns how many are ids. */
static int parse_ids(struct cli *c, int argc, char **argv, struct gck_error *err)
{
	unsigned takes = c->verb->takes;
	int most = takes & VERB_IDS ? argc : takes & VERB_CHECK ? 0 : 1, i;

	c->ids = calloc((size_t)argc + 1, sizeof *c->ids);
	if (!c->ids)
		return gck_fail(err, ENOMEM, "no memory for its arguments");
	for (i = 0; i < argc && i < most; i++) {
		if (i == 1 && is_seq(c, argc, argv))
			break;
		if (cli_parse_id(&c->ids[i], argv[i], err) < 0)
			return -1;
		if (c->ids[i].seq && !(takes & (VERB_SEQ | VERB_EXPORT)))
			return gck_fail(err, EINVAL, "\"%.80s\" is not JOBID[.STEPID]", argv[i]);
	}
	c->nids = (size_t)i;
	return i;
}

static int parse_jobs(struct cli *c, int argc, char **argv, struct gck_error *err)
{
	int n;

	if (argc == 0 && (c->verb->takes & VERB_JOB))
		return gck_fail(err, EINVAL, "JOBID[.STEPID] is missing");
	n = parse_ids(c, argc, argv, err);
	if (n < 0)
		return -1;
	if (n < argc && !(c->verb->takes & (VERB_SEQ | VERB_SEQS)))
		return gck_fail(err, EINVAL, "\"%.80s\" is one argument too many", argv[n]);
	if (parse_seqs(c, argc - n, argv + n, err) < 0)
		return -1;
	return check_seqs(c, err);
}

static int parse_export(struct cli *c, char **argv, struct gck_error *err)
{
	int rc = parse_ids(c, 1, argv, err);

	if (rc > 0 && c->ids[0].seq)
		return 0;
	return gck_fail(err, EINVAL, "\"%.80s\" is not JOBID[.STEPID]:SEQ", argv[0]);
}

/* [JOBID[.STEPID]:SEQ] FILE */
static int parse_file(struct cli *c, int argc, char **argv, struct gck_error *err)
{
	bool export = c->verb->takes & VERB_EXPORT;

	if (argc != 1 + export)
		return gck_fail(err, EINVAL, "it takes %sFILE",
				export ? "JOBID[.STEPID]:SEQ " : "");
	c->file = argv[argc - 1];
	return export ? parse_export(c, argv, err) : 0;
}

static int parse_operands(struct cli *c, int argc, char **argv, struct gck_error *err)
{
	bool file = c->verb->takes & (VERB_EXPORT | VERB_IMPORT);

	if ((file ? parse_file : parse_jobs)(c, argc, argv, err) < 0)
		return -1;
	return check_options(c, err);
}

/* "help VERB" and "VERB --help" are the same. */
int cli_parse(struct cli *c, int argc, char **argv, struct gck_error *err)
{
	if (parse_options(c, argc, argv, err) < 0)
		return -1;
	argc -= optind;
	argv += optind;
	if (argc > 0 && !strcmp(argv[0], "help")) {
		c->help = true;
		argc--;
		argv++;
	}
	if (argc == 0 && (c->help || c->version))
		return 0;
	if (argc == 0)
		return gck_fail(err, EINVAL, "a verb is missing");
	if (find_verb(c, argv[0], err) < 0)
		return -1;
	if (c->help || c->version)
		return 0;
	if (parse_operands(c, argc - 1, argv + 1, err) < 0)
		return gck_fail_in(err, "%s", c->verb->name);
	return 0;
}
