/* SPDX-License-Identifier: Apache-2.0
 * gpuckpt: one verb, its arguments and options; how verbs ask the coordinator. */
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
#define CLI_QUERY_S 60 /* for an answer that nothing has to be waited for */
#define CLI_WAIT_S (7 * 86400) /* for a checkpoint: the coordinator has its own time limits */

struct cli;
struct gck_store;
struct gck_wire;

/* What a verb takes beside -f, --help and --version. */
#define VERB_JOB 1u      /* JOBID[.STEPID] must be given */
#define VERB_JOB_MAY 2u  /* ... may be given */
#define VERB_SEQ 4u      /* one SEQ may follow JOBID.STEPID */
#define VERB_SEQS 8u     /* SEQs or --all must follow */
#define VERB_JSON 16u    /* prints, so takes --json */
#define VERB_WAIT 32u    /* takes --no-wait */
#define VERB_QUICK 64u   /* takes --quick */
#define VERB_EXPORT 128u /* JOBID[.STEPID]:SEQ FILE */
#define VERB_IMPORT 256u /* FILE, takes --store */

struct verb {
	const char *name;
	unsigned takes;
	int (*run)(struct cli *c, struct gck_error *err); /* -1 with err, or the exit status */
	const char *help;
};

struct cli {
	struct gck_conf conf;
	const char *conf_path;
	const struct verb *verb;
	bool json, no_wait, all, quick;
	bool has_job, has_step;
	uint32_t job, step;
	uint32_t seqs[CLI_MAX_SEQS];
	size_t nseqs;
	const char *file, *store; /* NULL: not given */
};

/* args.c: the verb and everything after it. -1 with one line that says what is wrong. help and
 * version are set when they were asked for; then nothing else was checked. */
int cli_parse(struct cli *c, int argc, char **argv, bool *help, bool *version,
	      struct gck_error *err);

/* main.c */
extern const struct verb cli_verbs[];

/* connection.c: {"op": op, "job":.., "step":..} with what c says; then the answer's data (new
 * reference, JSON null if it has none). Events show on a terminal. timeout_s is for each answer.
 * request is stolen. */
json_t *cli_request(const struct cli *c, const char *op);
json_t *cli_ask(const struct cli *c, json_t *request, int timeout_s, struct gck_error *err);

/* The same over a connection that stays, for requests that are one matter. */
struct gck_wire *cli_connect(const struct cli *c, struct gck_error *err);
json_t *cli_say(struct gck_wire *w, json_t *request, int timeout_s, struct gck_error *err);

/* Ask, and fail if a step was named that the answer's data does not have. */
json_t *cli_ask_known(const struct cli *c, const char *op, struct gck_error *err);

/* The same, and give "steps" of the answer's data, for verbs that go on with it. */
json_t *cli_ask_steps(const struct cli *c, const char *op, struct gck_error *err);

/* Fail: what c names has no commit (of that number). */
int cli_no_commit(const struct cli *c, struct gck_error *err);

/* A step of an answer: its ids. */
int cli_step_ids(const json_t *step, uint32_t *job, uint32_t *id, struct gck_error *err);

/* A member of an answer that is a text; "" if there is none. */
const char *cli_text(const json_t *object, const char *key);

/* connection.c: URLs and keys come from gpuckptd, over a connection that is made when the first is
 * wanted. */
void cli_use_signer(const struct cli *c);

/* Open the store of a step, as list answered it. */
struct gck_store *cli_open_store(const struct cli *c, const json_t *step, struct gck_error *err);

/* publish.c: give a complete file its name, durably and without replacing an existing file
 * (EEXIST), by whatever means the file system has. The temporary name, in the same directory, may
 * stay. */
int give_name(const char *temporary, const char *path, struct gck_error *err);

/* print.c: JSON as it is, for --json. */
void cli_print_json(const json_t *data);

/* checkpoint.c, query.c, verify.c, remove.c, export.c, import.c: the verbs */
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

#endif
