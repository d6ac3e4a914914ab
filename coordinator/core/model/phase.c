/* SPDX-License-Identifier: Apache-2.0
 * The names of phases and events, and what a phase means for ranks. */
#include "coordinator/core/model/phase.h"

const char *gck_phase_name(enum gck_phase phase)
{
	static const char *const names[GCK_PHASES] = {
		"gathering", "building", "cutting files back", "starting", "doomed", "running",
		"over", "calling agents", "preparing", "quiescing MPI", "freezing", "resuming", "writing",
		"committing", "aborting", "held, writing", "held, committing", "held", "releasing",
		"ending", "recovering",
	};

	return names[phase];
}

const char *gck_event_name(enum gck_event event)
{
	static const char *const names[GCK_EVENTS] = {
		"start", "all",	      "all held", "all, with MPI", "failed",    "timeout", "lost",
		"back",	 "cancel",    "release",  "terminate", "taken",	  "restore",
		"runs",	 "none left", "refused",  "found",     "missing", "ended",
	};

	return names[event];
}

bool gck_phase_holds(enum gck_phase phase)
{
	return phase == GCK_FREEZING || phase == GCK_RESUMING ||
	       (phase >= GCK_HELD_WRITING && phase <= GCK_ENDING);
}
