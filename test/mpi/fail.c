/* SPDX-License-Identifier: Apache-2.0 */
#include "traffic.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

void tr_fail(const struct tr_run *r, const char *format, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	fprintf(stderr, "traffic: seed %" PRIu64 " step %d rank %d of %d thread %d: %s\n",
		r->opt->seed, r->step, r->me, r->n, r->thread, text);
	fflush(stderr);
	MPI_Abort(MPI_COMM_WORLD, 3);
	__builtin_unreachable();
}

void tr_equal(const struct tr_run *r, const char *what, long long got, long long want)
{
	tr_need(r, got == want, "%s is %lld, expected %lld", what, got, want);
}
