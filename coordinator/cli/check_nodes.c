/* SPDX-License-Identifier: Apache-2.0
 * check: does gpuckpt find all that it needs, here (check/) or, by srun, on all nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "coordinator/cli/check/check.h"
#include "coordinator/cli/cli.h"
#include "coordinator/cli/print.h"

#define ANSWER_S 10

/* ---- this node ------------------------------------------------------------------------------ */

/* Milliseconds would suffice: clocks that differ by seconds are reported. */
static double wall_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* No steps are asked for, so that the answer is small. */
static json_t *ask_status(const struct cli *c, struct gck_error *err)
{
	json_t *request = cli_request(c, "status");

	json_object_set_new(request, "from", json_integer(UINT32_MAX));
	return cli_ask(c, request, ANSWER_S, err);
}

static json_t *check_here(struct cli *c)
{
	static struct checks checks;
	struct gck_error conf_error = { 0 }, status_error = { 0 };
	json_t *status = NULL, *findings;

	checks = (struct checks){ .conf = &c->conf, .conf_path = c->conf_path,
				  .conf_error = &conf_error, .status_error = &status_error };
	if (gck_conf_load(&c->conf, c->conf_path, &conf_error) == 0)
		status = ask_status(c, &status_error);
	checks.status = status;
	checks.clock_s = wall_clock() -
			 (double)json_integer_value(json_object_get(status, "time"));
	findings = checks_run(&checks);
	json_decref(status);
	return findings;
}

/* ---- all nodes ------------------------------------------------------------------------------ */

struct nodes {
	char list[65536]; /* nodes that srun can use now */
	unsigned n;
};

/* The partition of srun: the user's choice, or the default one, which sinfo marks. */
static bool is_chosen(const char *partition)
{
	const char *choice = getenv("SLURM_PARTITION");
	size_t n = strlen(partition);

	if (choice && *choice) {
		if (n && partition[n - 1] == '*')
			n--;
		return strlen(choice) == n && !strncmp(choice, partition, n);
	}
	return n && partition[n - 1] == '*';
}

static void leave_out(json_t *findings, const char *nodes, const char *state)
{
	char text[128];

	snprintf(text, sizeof text, "Slurm has it as %s", state);
	json_array_append_new(findings, json_pack("{s:s, s:s, s:s, s:s, s:s}", "node", nodes,
						  "check", "node", "state", "warning", "text", text,
						  "remedy", "check it when it can run a step"));
}

/* A line of sinfo: partition, state, number, names. */
static void take_nodes(struct nodes *to, char *line, json_t *findings)
{
	char *partition = strtok(line, " "), *state = strtok(NULL, " ");
	char *number = strtok(NULL, " "), *names = strtok(NULL, " ");
	size_t used = strlen(to->list);

	if (!names || !is_chosen(partition))
		return;
	if (strcmp(state, "idle") != 0 && strcmp(state, "mixed") != 0) {
		leave_out(findings, names, state);
		return;
	}
	snprintf(to->list + used, sizeof to->list - used, "%s%s", used ? "," : "", names);
	to->n += (unsigned)atoi(number);
}

static int list_nodes(struct nodes *to, json_t *findings, struct gck_error *err)
{
	static const char *const argv[] = { "sinfo", "--noheader", "--format=%P %T %D %N", NULL };
	static char text[131072];
	char *rest = text, *line;

	*to = (struct nodes){ 0 };
	if (program_run(argv, NULL, text, sizeof text) != 0)
		return gck_fail(err, EIO, "sinfo: %.300s", *text ? text : "it cannot be executed");
	while ((line = strsep(&rest, "\n")))
		take_nodes(to, line, findings);
	if (to->n == 0)
		return gck_fail(err, EAGAIN, "no node of the partition can run a step now; "
				"SLURM_PARTITION chooses another than the default one");
	return 0;
}

/* The lines of nodes are findings; others are srun's. It also reports the exit status 1 of each
 * node that has an error. */
static void read_findings(FILE *f, json_t *findings)
{
	char *line = NULL;
	size_t capacity = 0;

	while (getline(&line, &capacity, f) >= 0) {
		json_t *one = json_loads(line, 0, NULL);

		if (!json_is_object(one) && !strstr(line, "Exited with exit code 1"))
			fputs(line, stderr);
		if (json_is_object(one))
			json_array_append(findings, one);
		json_decref(one);
	}
	free(line);
}

static int run_there(const struct cli *c, const struct nodes *nodes, json_t *findings,
		     struct gck_error *err)
{
	char number[16], list[sizeof nodes->list + 16];
	const char *const argv[] = { "srun", "--quiet", number, list, "--ntasks-per-node=1",
				     "--immediate=60", "--time=10", "--kill-on-bad-exit=0",
				     "--mpi=none", "--export=ALL", "gpuckpt", "check", "--json",
				     "-f", c->conf_path, NULL };
	pid_t pid;
	FILE *f;
	int fd;

	snprintf(number, sizeof number, "-N%u", nodes->n);
	snprintf(list, sizeof list, "--nodelist=%s", nodes->list);
	fd = program_start(argv, NULL, &pid);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f)
		return gck_fail(err, errno, "srun: %s", strerror(errno));
	read_findings(f, findings);
	fclose(f);
	if (program_end(pid) < 0)
		return gck_fail(err, EIO, "srun cannot be executed, or was killed");
	return 0;
}

static bool has_answered(const json_t *findings, const char *node)
{
	json_t *f;
	size_t i;

	json_array_foreach(findings, i, f)
		if (!strcmp(cli_text(f, "node"), node))
			return true;
	return false;
}

static void name_silent(const struct nodes *nodes, json_t *findings)
{
	const char *const argv[] = { "scontrol", "show", "hostnames", nodes->list, NULL };
	static char text[sizeof nodes->list * 4];
	char *rest = text, *name;

	if (program_run(argv, NULL, text, sizeof text) != 0)
		return;
	while ((name = strsep(&rest, "\n")))
		if (*name && !has_answered(findings, name))
			json_array_append_new(findings, json_pack("{s:s, s:s, s:s, s:s, s:s}",
					      "node", name, "check", "node", "state", "error",
					      "text", "it has not answered", "remedy",
					      "gpuckpt must be in PATH there, as it is here"));
}

static json_t *check_all(const struct cli *c, struct gck_error *err)
{
	static struct nodes nodes;
	json_t *findings = json_array();

	if (list_nodes(&nodes, findings, err) == 0 &&
	    run_there(c, &nodes, findings, err) == 0) {
		name_silent(&nodes, findings);
		return findings;
	}
	json_decref(findings);
	return NULL;
}

/* ---- output --------------------------------------------------------------------------------- */

/* A list of nodes as Slurm writes it: n[1-3]. */
static json_t *hostlist(const json_t *nodes)
{
	static char names[131072], text[CELL_MAX];
	const char *const argv[] = { "scontrol", "show", "hostlistsorted", names, NULL };
	size_t used = 0, i;
	json_t *node;

	json_array_foreach(nodes, i, node)
		if (used < sizeof names)
			used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
						 i ? "," : "", json_string_value(node));
	if (program_run(argv, NULL, text, sizeof text) != 0)
		return json_string(names);
	text[strcspn(text, "\n")] = '\0';
	return json_string(text);
}

/* Nodes with the same finding share a row. */
static json_t *fold(const json_t *findings)
{
	json_t *rows = json_object(), *f, *row;
	size_t i;

	json_array_foreach(findings, i, f) {
		char key[1024];

		snprintf(key, sizeof key, "%s %s %s", cli_text(f, "check"), cli_text(f, "state"),
			 cli_text(f, "text"));
		row = json_object_get(rows, key);
		if (!row) {
			row = json_pack("{s:s, s:s, s:s++, s:[]}", "state", cli_text(f, "state"),
					"check", cli_text(f, "check"), "what", cli_text(f, "text"),
					*cli_text(f, "remedy") ? "; " : "", cli_text(f, "remedy"),
					"nodes");
			json_object_set_new(rows, key, row);
		}
		json_array_append(json_object_get(row, "nodes"), json_object_get(f, "node"));
	}
	return rows;
}

static int print_findings(const struct cli *c, const json_t *findings)
{
	static const struct column columns[] = {
		{ "STATE", "state", KIND_TEXT }, { "NODES", "nodes", KIND_TEXT },
		{ "CHECK", "check", KIND_TEXT }, { "WHAT", "what", KIND_TEXT }, { 0 },
	};
	json_t *folded = fold(findings), *rows = json_array(), *row;
	const char *key;
	int rc = CLI_DONE;

	json_object_foreach(folded, key, row) {
		if (c->all)
			json_object_set_new(row, "nodes", hostlist(json_object_get(row, "nodes")));
		else
			json_object_del(row, "nodes");
		if (!strcmp(cli_text(row, "state"), "error"))
			rc = CLI_FAILED;
		json_array_append(rows, row);
	}
	if (!c->json)
		print_table(rows, columns);
	json_decref(rows);
	json_decref(folded);
	return rc;
}

/* One object a line: srun passes lines whole. */
static void print_json_lines(const json_t *findings)
{
	json_t *f;
	size_t i;

	json_array_foreach(findings, i, f) {
		json_dumpf(f, stdout, JSON_COMPACT);
		putchar('\n');
	}
}

int cli_check(struct cli *c, struct gck_error *err)
{
	json_t *findings = c->all ? check_all(c, err) : check_here(c);
	int rc;

	if (!findings)
		return -1;
	if (c->json)
		print_json_lines(findings);
	rc = print_findings(c, findings);
	json_decref(findings);
	return rc;
}
