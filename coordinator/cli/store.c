/* SPDX-License-Identifier: Apache-2.0
 * What the verbs have in common that touch the store, as the user who calls. */
#include "coordinator/cli/cli.h"
#include "coordinator/sign/signer.h"
#include "storage/store/store.h"

#define SIGNER_WAIT_MS 30000 /* for a gpuckptd that is started anew */

const char *cli_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

void cli_use_signer(const struct cli *c)
{
	gck_signer_use_link(&c->conf, SIGNER_WAIT_MS);
}

struct gck_store *cli_open_store(const struct cli *c, const json_t *step, struct gck_error *err)
{
	const char *url = cli_text(step, "store"), *cluster = cli_text(step, "cluster");
	uint32_t job, id;

	if (cli_step_ids(step, &job, &id, err) < 0)
		return NULL;
	if (!*url) {
		gck_fail(err, EPROTO, "the coordinator does not say where step %u.%u has its store",
			 job, id);
		return NULL;
	}
	cli_use_signer(c);
	return gck_store_open(url, *cluster ? cluster : c->conf.cluster, job, id, false, err);
}
