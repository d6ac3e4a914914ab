/* SPDX-License-Identifier: Apache-2.0
 * What gpuckpt prints about itself, from the tables of verbs and options. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "coordinator/cli/cli.h"

/* ---- all verbs ----------------------------------------------------------------------------- */

void cli_print_usage(void)
{
	fputs("usage: gpuckpt VERB [JOBID[.STEPID]...] [OPTION...]\nverbs:", stderr);
	for (const struct verb *v = cli_verbs; v->name; v++)
		fprintf(stderr, " %s", v->name);
	fputs("\n\"gpuckpt help\" explains them, \"gpuckpt help VERB\" one of them.\n", stderr);
}

void cli_takers(const struct cli_option *option, char names[CLI_NAMES_MAX])
{
	size_t used = 0;

	*names = '\0';
	for (const struct verb *v = cli_verbs; v->name && used < CLI_NAMES_MAX; v++)
		if (v->takes & option->takes)
			used += (size_t)snprintf(names + used, CLI_NAMES_MAX - used, "%s%s",
						 used ? ", " : "", v->name);
}

/* Several verbs' options are explained with the names of the verbs, unless nearly all take them. */
static void print_option(const struct cli_option *o, bool of_verb)
{
	bool named = !of_verb && o->takes && !(o->takes & (VERB_JSON | VERB_TABLE));
	char names[CLI_NAMES_MAX], left[40], letter[5] = "    ";

	cli_takers(o, names);
	if (o->letter)
		snprintf(letter, sizeof letter, "-%c, ", o->letter);
	snprintf(left, sizeof left, "%s--%s%s%s", letter, o->name, o->value ? " " : "",
		 o->value ? o->value : "");
	printf("  %-19s %s%s%s\n", left, named ? names : "", named ? ": " : "", o->help);
}

static void print_all(void)
{
	printf("usage: gpuckpt VERB [JOBID[.STEPID]...] [OPTION...]\n\nverbs:\n");
	for (const struct verb *v = cli_verbs; v->name; v++)
		printf("  %-8s %-27s %s\n", v->name, v->operands, v->help);
	printf("\noptions:\n");
	for (const struct cli_option *o = cli_options; o->name; o++)
		print_option(o, false);
	printf("\ngpuckpt help VERB has more about a verb, and an example; gpuckpt(1) has all.\n");
}

/* ---- one verb ------------------------------------------------------------------------------ */

static void print_operands(const struct verb *v)
{
	if (!(v->takes & VERB_CHECK))
		printf("\narguments:\n");
	if (v->takes & (VERB_JOB | VERB_JOB_MAY | VERB_EXPORT))
		printf("  JOBID            a job: all its steps that run with --gpu-ckpt\n"
		       "  JOBID.STEPID     one step, as squeue -s shows it\n"
		       "  JOBID_TASK       a task of an array; JOBID_[2-4,7]: several of them\n");
	if (v->takes & (VERB_SEQ | VERB_SEQS | VERB_EXPORT))
		printf("  SEQ              a commit's number, as gpuckpt list shows it\n");
	if (v->takes & (VERB_EXPORT | VERB_IMPORT))
		printf("  FILE             the file that holds the commit\n");
}

static void print_verb(const struct verb *v)
{
	printf("usage: gpuckpt %s%s%s [OPTION...]\n\n%c%s.\n", v->name,
	       *v->operands ? " " : "", v->operands, v->help[0] - 'a' + 'A', v->help + 1);
	print_operands(v);
	printf("\noptions:\n");
	for (const struct cli_option *o = cli_options; o->name; o++)
		if (!o->takes || (o->takes & v->takes))
			print_option(o, true);
	printf("\nexample:\n  %s\n", v->example);
}

void cli_print_help(const struct cli *c)
{
	if (c->verb)
		print_verb(c->verb);
	else
		print_all();
}

/* ---- names that are not quite right -------------------------------------------------------- */

#define NAME_MAX_SIZE 32
#define FAR 3

static size_t least(size_t a, size_t b, size_t c)
{
	size_t n = a < b ? a : b;

	return n < c ? n : c;
}

/* Levenshtein's distance: letters to insert, to delete and to replace. b is a verb. */
static size_t distance(const char *a, const char *b)
{
	size_t row[NAME_MAX_SIZE + 1], n = strlen(b), diagonal;

	for (size_t k = 0; k <= n; k++)
		row[k] = k;
	for (size_t i = 0; a[i]; i++) {
		diagonal = row[0];
		row[0] = i + 1;
		for (size_t k = 1; k <= n; k++) {
			size_t above = row[k];

			row[k] = least(above + 1, row[k - 1] + 1, diagonal + (a[i] != b[k - 1]));
			diagonal = above;
		}
	}
	return row[n];
}

const char *cli_nearest(const char *name)
{
	const char *nearest = NULL;
	size_t best = FAR;

	for (const struct verb *v = cli_verbs; *name && v->name; v++) {
		size_t d = distance(name, v->name);

		if (d < best && d < strlen(v->name)) {
			best = d;
			nearest = v->name;
		}
	}
	return nearest;
}
