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

/* The arguments and options of a verb, beside -f, --help and --version. */
#define VERB_JOB 1u      /* JOBID[.STEPID] must be given */
#define VERB_JOB_MAY 2u  /* ... may be given */
#define VERB_SEQ 4u      /* one SEQ may follow JOBID.STEPID */
#define VERB_SEQS 8u     /* SEQs or --all must follow */
#define VERB_JSON 16u    /* prints, so takes --json */
#define VERB_WAIT 32u    /* takes --no-wait */
#define VERB_QUICK 64u   /* takes --quick and --restore */
#define VERB_EXPORT 128u /* JOBID[.STEPID]:SEQ FILE */
#define VERB_IMPORT 256u /* FILE, takes --store */
#define VERB_VERIFY 512u /* takes --verify */
#define VERB_CHECK 1024u /* takes --all, and reads gpuckpt.conf itself */

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
	bool json, no_wait, all, quick, restore, verify;
	bool has_job, has_step;
	uint32_t job, step;
	uint32_t seqs[CLI_MAX_SEQS];
	size_t nseqs;
	const char *file, *store; /* NULL: not given */
};

/* args.c: parse the verb and all that follows. -1 with the reason. help and version are set if
 * requested; then nothing else was checked. */
int cli_parse(struct cli *c, int argc, char **argv, bool *help, bool *version,
	      struct gck_error *err) GCK_MUST_CHECK;

/* main.c */
extern const struct verb cli_verbs[];

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

/* verify.c: verify the commits that c names: a new array [{"job","step","commits":[..]}]. Then
 * print them, unless it was --json, and fail if one is not whole. */
json_t *cli_verify_commits(const struct cli *c, struct gck_error *err) GCK_MUST_CHECK;
int cli_verify_end(const struct cli *c, const json_t *steps, struct gck_error *err) GCK_MUST_CHECK;

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
