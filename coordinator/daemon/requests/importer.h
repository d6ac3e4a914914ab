/* SPDX-License-Identifier: Apache-2.0
 * The connections of those who import: one, from "import" to "imported", is an import (import.h). When it
 * ends before, or nothing is signed for it for longer than a URL is good, the import is given up. */
#ifndef GCK_IMPORTER_H
#define GCK_IMPORTER_H

#include "coordinator/daemon/peer/peer.h"

struct gck_importer;

/* Requests of the CLI: may it, and it begins. Slurm is asked whether the job is somebody's. */
void gck_importer_ask(struct gck_peer *peer, const json_t *body);
void gck_importer_begin(struct gck_peer *peer, const json_t *body);
void gck_importer_end(struct gck_peer *peer, const json_t *body);

/* Something is signed for a step that is imported. */
void gck_importer_heard(const struct gck_daemon *d, const struct gck_step *step);

/* Its connection is closed. */
void gck_importer_closed(struct gck_importer *i);

#endif
