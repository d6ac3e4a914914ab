/* SPDX-License-Identifier: Apache-2.0
 * The table of verbs. */
#include "coordinator/cli/cli.h"

const struct verb cli_verbs[] = {
	{ "able", VERB_JOB | VERB_JSON, cli_able, "say what stands in the way of a checkpoint" },
	{ "create", VERB_JOB | VERB_JSON | VERB_WAIT, cli_checkpoint,
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
	{ 0 },
};
