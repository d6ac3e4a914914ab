/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/test/records_look.h"

#include <string.h>

#include "shim/cuda/records/records.h"

int records_count(const char *kind)
{
	int n = 0;

	gck_records_lock();
	for (const struct gck_record *r = gck_records_first(); r; r = r->next)
		n += r->uses && !r->died && !strcmp(gck_record_kinds[r->kind], kind) &&
		     !(r->kind == GCK_RECORD_MODULE && gck_record_is_library_part(r));
	gck_records_unlock();
	return n;
}

uint64_t records_now(const char *kind, uint64_t handle)
{
	int i = 0;

	while (strcmp(gck_record_kinds[i], kind))
		i++;
	return gck_record_now((enum gck_record_kind)i, handle);
}
