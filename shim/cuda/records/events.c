/* SPDX-License-Identifier: Apache-2.0
 * When events were recorded. An event of a fresh driver has not been recorded, which for all
 * questions is the same as one that is done, but for the time between two of them: that is told
 * from wall-clock times here, with the pause. */
#include "shim/cuda/records/records.h"

#include <errno.h>
#include <time.h>

void gck_record_event_recorded(struct gck_record *r)
{
	if (!r)
		return;
	r->recorded = true;
	r->recorded_age = atomic_load(&gck_records_age);
}

static bool has_time(const struct gck_record *r)
{
	return r->recorded && !(r->made.words[1] & CU_EVENT_DISABLE_TIMING);
}

/* Whether the present driver knows nothing of the record. */
static bool is_old(const struct gck_record *r)
{
	return has_time(r) && r->recorded_age != atomic_load(&gck_records_age);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* When the context's events, which are done, were recorded: by one that is recorded now. only: one
 * of them; NULL: all. */
static CUresult find_times(const struct gck_record *context, const struct gck_record *only)
{
	CUevent base;
	double now;
	CUresult rc = gck_cuda_driver.cuEventCreate(&base, 0);

	if (rc)
		return rc;
	rc = gck_cuda_driver.cuEventRecord(base, CU_STREAM_LEGACY);
	rc = rc ? rc : gck_cuda_driver.cuEventSynchronize(base);
	now = now_ms();
	for (struct gck_record *r = gck_records_first(); r && !rc; r = r->next) {
		float before;

		if (r->kind != GCK_RECORD_EVENT || r->of != context || !has_time(r) ||
		    is_old(r) || (only && r != only))
			continue;
		/* One that a capture recorded last has no time. */
		r->recorded = !gck_cuda_driver.cuEventElapsedTime(
			&before, (CUevent)(uintptr_t)r->now, base);
		if (r->recorded)
			r->recorded_ms = now - (double)before;
	}
	gck_cuda_driver.cuEventDestroy_v2(base);
	return rc;
}

static CUresult find_times_in(const struct gck_record *context, const struct gck_record *only)
{
	CUcontext unused;
	CUresult rc = gck_cuda_driver.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)context->now);

	if (rc)
		return rc;
	rc = find_times(context, only);
	gck_cuda_driver.cuCtxPopCurrent_v2(&unused);
	return rc;
}

int gck_record_events_save(struct gck_error *err)
{
	for (const struct gck_record *r = gck_records_first(); r; r = r->next) {
		CUresult rc = r->kind == GCK_RECORD_CONTEXT && !r->died ? find_times_in(r, NULL)
									 : CUDA_SUCCESS;

		if (rc)
			return gck_fail(err, EIO, "the times of events: the driver's error %d",
					(int)rc);
	}
	return 0;
}

static CUresult time_of(struct gck_record *r, double *ms)
{
	CUresult rc = is_old(r) ? CUDA_SUCCESS
				: gck_cuda_driver.cuEventQuery((CUevent)(uintptr_t)r->now);

	if (!rc && !is_old(r))
		rc = find_times_in(r->of, r);
	*ms = r->recorded_ms;
	return rc;
}

CUresult gck_record_elapsed(float *ms, CUevent start, CUevent end, bool second)
{
	struct gck_record *a, *b;
	double from, to;
	CUresult rc;

	gck_records_lock();
	a = gck_record_find(GCK_RECORD_EVENT, (uintptr_t)start);
	b = gck_record_find(GCK_RECORD_EVENT, (uintptr_t)end);
	if (a && b && has_time(a) && has_time(b) && (is_old(a) || is_old(b)) && ms) {
		rc = time_of(a, &from);
		rc = rc ? rc : time_of(b, &to);
		if (!rc)
			*ms = (float)(to - from);
	} else {
		start = a ? (CUevent)(uintptr_t)a->now : start;
		end = b ? (CUevent)(uintptr_t)b->now : end;
		rc = second ? gck_cuda_driver.cuEventElapsedTime_v2(ms, start, end)
			    : gck_cuda_driver.cuEventElapsedTime(ms, start, end);
	}
	gck_records_unlock();
	return rc;
}
