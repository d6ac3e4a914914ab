/* SPDX-License-Identifier: Apache-2.0
 * Verbs that act on a running step: create, vacate, requeue, disable, enable. */
#include "coordinator/cli/cli.h"
#include "coordinator/cli/print.h"

static const struct column columns[] = {
	{ "STEP", "", KIND_STEP },	       { "SEQ", "seq", KIND_NUMBER },
	{ "QUIESCE", "quiesce_ms", KIND_MS },  { "STALL", "stall_ms", KIND_MS },
	{ "WRITE", "write_s", KIND_SECONDS },  { "IMAGE", "put", KIND_BYTES },
	{ "STORED", "stored", KIND_BYTES },    { 0 },
};

int cli_checkpoint(struct cli *c, struct gck_error *err)
{
	json_t *request = cli_request(c, c->verb->name);
	json_t *data;

	json_object_set_new(request, "wait", json_boolean(!c->no_wait));
	data = cli_ask(c, request, c->no_wait ? CLI_QUERY_S : CLI_WAIT_S, err);
	if (!data)
		return -1;
	if (c->json)
		cli_print_json(data);
	else
		print_table(json_object_get(data, "steps"), columns);
	json_decref(data);
	return CLI_DONE;
}

int cli_switch(struct cli *c, struct gck_error *err)
{
	json_t *data = cli_ask(c, cli_request(c, c->verb->name), CLI_QUERY_S, err);

	json_decref(data);
	return data ? CLI_DONE : -1;
}
