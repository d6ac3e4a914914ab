/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt: a verb with its arguments and options, and what the verbs share. */
#ifndef CLI_H
#define CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/conf.h"
#include "common/base/error.h"

#define CLI_DONE 0
#define CLI_FAILED 1
#define CLI_USAGE 2

#define CLI_MAX_SEQS 64
#define CLI_QUERY_S 60 /* for an answer that comes at once */
#define CLI_WAIT_S (7 * 86400) /* for a checkpoint: the coordinator has its own time limits */

struct cli;
struct gck_store;
struct gck_wire;

/* The arguments and options of a verb, beside those that all take. */
#define VERB_JOB 1u      /* JOBID[.STEPID] must be given */
#define VERB_JOB_MAY 2u  /* ... may be given */
#define VERB_SEQ 4u      /* ... with :SEQ; one SEQ may follow instead */
#define VERB_SEQS 8u     /* SEQs or --all must follow */
#define VERB_JSON 16u    /* takes --json */
#define VERB_WAIT 32u    /* takes --no-wait */
#define VERB_QUICK 64u   /* takes --quick and --restore */
#define VERB_EXPORT 128u /* JOBID[.STEPID]:SEQ FILE */
#define VERB_IMPORT 256u /* FILE, takes --store */
#define VERB_VERIFY 512u /* takes --verify */
#define VERB_IDS 1024u   /* several JOBID[.STEPID] may be given */
#define VERB_TABLE 2048u /* prints a table: takes --noheader */
#define VERB_USER 4096u  /* takes --user */
#define VERB_VERBOSE 8192u /* takes --verbose */
#define VERB_CHECK 16384u /* takes --all, and reads gpuckpt.conf itself */

struct verb {
	const char *name, *operands;
	unsigned takes;
	int (*run)(struct cli *c, struct gck_error *err); /* -1 with err, or the exit status */
	const char *help, *example;
};

struct cli_option {
	const char *name;   /* without "--" */
	const char *value;  /* the name of what it takes; NULL: nothing */
	int letter;         /* 0: none */
	unsigned takes;     /* VERB_...: the verbs that take it; 0: all */
	size_t member;      /* of struct cli: a const char * if it takes a value, or a bool */
	const char *help;
};

/* A job or a step. An array's tasks are one until cli_resolve(). */
struct cli_id {
	uint32_t job, step, seq; /* seq 0: none was given */
	bool has_step;
	char tasks[64];          /* "2" or "2-4,7"; "": not of an array, or all of it */
	char name[40];           /* as in messages */
	struct gck_wire *wire;   /* where its request waits for an answer; NULL: none does */
	bool failed;             /* and was reported */
};

struct cli {
	struct gck_conf conf;
	const char *conf_path;
	const struct verb *verb;
	bool help, version;
	bool json, no_wait, all, quick, restore, verify, noheader, verbose;
	const char *file, *store, *users; /* NULL: not given */
	struct cli_id *ids;
	size_t nids;
	/* The one that a request is about, with the SEQs that were given. */
	bool has_job, has_step;
	uint32_t job, step;
	struct gck_wire *wire;
	uint32_t seqs[CLI_MAX_SEQS];
	size_t nseqs;
	int status; /* the exit status, CLI_FAILED after a failure that was reported */
};

/* args.c: parse the verb and all that follows. -1 with the reason. If c->help or c->version is set,
 * only the verb was checked, if there is one (c->verb, or NULL). */
int cli_parse(struct cli *c, int argc, char **argv, struct gck_error *err) GCK_MUST_CHECK;
extern const struct cli_option cli_options[];

/* main.c */
extern const struct verb cli_verbs[];

/* help.c: the help of c->verb or, if it is NULL, of gpuckpt; the short usage; the verb whose name
 * is nearest, or NULL; the names of the verbs that take an option, separated by commas. */
#define CLI_NAMES_MAX 160
void cli_print_help(const struct cli *c);
void cli_print_usage(void);
const char *cli_nearest(const char *name);
void cli_takers(const struct cli_option *option, char names[CLI_NAMES_MAX]);

/* ids.c: parse one JOBID[_TASKS][.STEPID][:SEQ]. */
int cli_parse_id(struct cli_id *id, const char *text, struct gck_error *err) GCK_MUST_CHECK;

/* Parse an unsigned decimal number below 2^32 that extends to end. */
int cli_number(const char *text, const char *end, uint32_t *value) GCK_MUST_CHECK;

/* Print a failure's line. */
void cli_complain(const struct cli *c, const struct gck_error *err);

/* Ask the coordinator for the jobs of arrays and of their tasks, and put them in the place of c's
 * ids. Ids of tasks that it does not know are reported and left out. -1: it cannot be asked. */
int cli_resolve(struct cli *c, struct gck_error *err) GCK_MUST_CHECK;

/* Make id the one that requests of c are about. */
void cli_use(struct cli *c, const struct cli_id *id);

/* Call ask for each of c's ids, or once if none was given, and join the answers: arrays are
 * concatenated, other members are the first answer's. A failure is reported with its id and sets
 * c->status. begin, if not NULL, sends the request before, of several ids at once, and ask finds
 * the connection in c->wire. NULL: nothing was answered (all of that is reported). */
typedef struct gck_wire *cli_begin_fn(const struct cli *c, struct gck_error *err);
typedef json_t *cli_ask_fn(const struct cli *c, struct gck_error *err);
json_t *cli_ask_each(struct cli *c, cli_begin_fn *begin, cli_ask_fn *ask);

/* connection.c: a new request {"op": op, "job":.., "step":..} from c; and a request with its
 * answer's data (new reference, JSON null if there is none). Events are shown on a terminal.
 * timeout_s holds for each answer. request is stolen. */
json_t *cli_request(const struct cli *c, const char *op);
json_t *cli_ask(const struct cli *c, json_t *request, int timeout_s, struct gck_error *err)
	GCK_MUST_CHECK;

/* The same over a connection that stays open, for several requests. */
struct gck_wire *cli_connect(const struct cli *c, struct gck_error *err) GCK_MUST_CHECK;
json_t *cli_say(struct gck_wire *w, json_t *request, int timeout_s, struct gck_error *err)
	GCK_MUST_CHECK;

/* The two halves of cli_ask, for requests that are answered late. */
struct gck_wire *cli_begin(const struct cli *c, json_t *request, struct gck_error *err)
	GCK_MUST_CHECK;
json_t *cli_await(struct gck_wire *w, int timeout_s, struct gck_error *err) GCK_MUST_CHECK;

/* Ask, and fail if the answer's data lacks the step that was named. */
json_t *cli_ask_known(const struct cli *c, const char *op, struct gck_error *err) GCK_MUST_CHECK;

/* The same; returns "steps" of the answer's data. */
json_t *cli_ask_steps(const struct cli *c, const char *op, struct gck_error *err) GCK_MUST_CHECK;

/* Fail: the step that c names has no commit (with that number). */
int cli_no_commit(const struct cli *c, struct gck_error *err);

/* The ids of a step in an answer. */
int cli_step_ids(const json_t *step, uint32_t *job, uint32_t *id, struct gck_error *err)
	GCK_MUST_CHECK;

/* A text member of an answer; "" if there is none. */
const char *cli_text(const json_t *object, const char *key);

/* Get URLs and keys from gpuckptd, over a connection that is opened for the first. */
void cli_use_signer(const struct cli *c);

/* Open the store of a step from the answer to list. */
struct gck_store *cli_open_store(const struct cli *c, const json_t *step, struct gck_error *err)
	GCK_MUST_CHECK;

/* publish.c: give a complete file its name, durably and without replacing an existing file
 * (EEXIST), by whatever means the file system has. The temporary name, in the same directory, may
 * stay. */
int give_name(const char *temporary, const char *path, struct gck_error *err) GCK_MUST_CHECK;

/* verify.c: verify the commits that c names, at least one: a new array
 * [{"job","step","commits":[..]}]. Then print them, unless it was --json, and report those that are
 * not whole (c->status). */
json_t *cli_verify_commits(const struct cli *c, struct gck_error *err) GCK_MUST_CHECK;
void cli_verify_end(struct cli *c, const json_t *steps);

/* print.c: print JSON unchanged, for --json. */
void cli_print_json(const json_t *data);

/* checkpoint.c, query.c, verify.c, remove.c, export.c, import.c, check_nodes.c: the
 * verbs */
int cli_able(struct cli *c, struct gck_error *err);
int cli_checkpoint(struct cli *c, struct gck_error *err);
int cli_switch(struct cli *c, struct gck_error *err);
int cli_list(struct cli *c, struct gck_error *err);
int cli_show(struct cli *c, struct gck_error *err);
int cli_status(struct cli *c, struct gck_error *err);
int cli_watch(struct cli *c, struct gck_error *err);
int cli_verify(struct cli *c, struct gck_error *err);
int cli_export(struct cli *c, struct gck_error *err);
int cli_import(struct cli *c, struct gck_error *err);
int cli_remove(struct cli *c, struct gck_error *err);
int cli_check(struct cli *c, struct gck_error *err);

#endif
