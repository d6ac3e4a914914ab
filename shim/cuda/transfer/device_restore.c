/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/transfer/transfer.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "shim/cuda/base/state.h"
#include "shim/cuda/dispatch/function.h"
#include "shim/cuda/snapshot/copy_queue.h"
#include "shim/cuda/snapshot/snapshot.h"
#include "shim/cuda/transfer/data_link.h"

#define NAP_NS 20000
#define LOOK_MS 1000

/* Parts of the ring are used in turn: asked for, received (READY), on their way to the device,
 * free. */
struct filling {
	struct gck_cuda_data_link link;
	struct gck_cuda_ring ring;
	struct gck_cuda_copy_queue queue;
	size_t extent;       /* the next to ask for, and */
	uint64_t at;         /* bytes of it that were asked for */
	struct {
		struct gck_link_data m;
		CUdevice device;
	} parts[GCK_CUDA_RING_PARTS];
	uint64_t nparts;
	uint64_t asked, ready, begun, done; /* counts of parts since the start */
};

/* Whether everything was asked for. */
static bool is_all(struct filling *f)
{
	const struct gck_cuda_snapshot *s = &gck_cuda_snapshot;

	while (f->extent < s->n && (!s->v[f->extent].on_device || f->at == s->v[f->extent].size)) {
		f->extent++;
		f->at = 0;
	}
	return f->extent == s->n;
}

static int ask(struct filling *f)
{
	const struct gck_cuda_extent *e = &gck_cuda_snapshot.v[f->extent];
	uint64_t part = f->asked++ % f->nparts, n = e->size - f->at;
	struct gck_link_data *m = &f->parts[part].m;

	n = n < GCK_CUDA_RING_PART ? n : GCK_CUDA_RING_PART;
	*m = (struct gck_link_data){.type = GCK_LINK_DATA_GET,
				    .address = e->address + f->at,
				    .size = n,
				    .number = part * GCK_CUDA_RING_PART};
	f->parts[part].device = e->device;
	f->at += n;
	return gck_cuda_data_send(&f->link, m, NULL);
}

/* 1: a part was received; 0: none; -1 without an error: the source has ended. */
static int hear(struct filling *f, int ms, struct gck_error *err)
{
	const struct gck_link_data *wanted = &f->parts[f->ready % f->nparts].m;
	struct gck_link_data m;
	int rc = gck_cuda_data_receive(&f->link, &m, ms);

	if (rc <= 0)
		return rc;
	if (m.type != GCK_LINK_DATA_READY || f->ready == f->asked || m.address != wanted->address ||
	    m.size != wanted->size)
		return gck_fail(err, EPROTO, "the source of device data breaks the protocol");
	if (m.value)
		return gck_fail(err, (int)m.value, "device data: %s",
				m.why[0] ? m.why : "they cannot be read");
	f->ready++;
	return 1;
}

static int begin(struct filling *f, struct gck_error *err)
{
	uint64_t part = f->begun++ % f->nparts;
	const struct gck_link_data *m = &f->parts[part].m;
	uint64_t n = m->size;
	CUresult rc = gck_cuda_copy_queue_start(&f->queue, f->parts[part].device, m->address,
						m->number, &n);

	return rc ? gck_cuda_fail(err, "copying device data in", rc) : 0;
}

/* 1: something was done; 0: nothing; -1: it failed or, without an error, the source has ended. */
static int step(struct filling *f, struct gck_error *err)
{
	CUresult rc = f->begun > f->done ? gck_cuda_copy_queue_poll(&f->queue)
					 : CUDA_ERROR_NOT_READY;

	if (rc == CUDA_SUCCESS) {
		f->done++;
		return 1;
	}
	if (rc != CUDA_ERROR_NOT_READY)
		return gck_cuda_fail(err, "copying device data in", rc);
	if (f->ready > f->begun && !gck_cuda_copy_queue_is_full(&f->queue))
		return begin(f, err) ? -1 : 1;
	if (f->asked - f->done < f->nparts && !is_all(f))
		return ask(f) ? -1 : 1;
	return hear(f, f->begun > f->done ? 0 : LOOK_MS, err);
}

static int transfer(struct filling *f, struct gck_error *err)
{
	const struct timespec nap = {0, NAP_NS};

	while (f->done < f->asked || !is_all(f)) {
		int rc = step(f, err);

		if (rc < 0)
			return -1;
		if (!rc && f->begun > f->done)
			nanosleep(&nap, NULL);
	}
	gck_cuda_data_send(&f->link, &(struct gck_link_data){.type = GCK_LINK_DATA_DONE}, NULL);
	return 0;
}

/* The GPU is idle at the end, so the ring can go at once. */
static int fill_from(const int fds[2], struct gck_error *err)
{
	struct filling f = {.link.fd = -1};
	int failed;

	gck_cuda_data_open(&f.link, fds[0]);
	failed = gck_cuda_ring_map(&f.ring, fds[1], err);
	close(fds[1]);
	f.nparts = f.ring.size / GCK_CUDA_RING_PART;
	if (!failed)
		failed = gck_cuda_copy_queue_begin(&f.queue, GCK_CUDA_IN, &f.ring,
						   &gck_cuda_snapshot, err) ||
					 transfer(&f, err)
				 ? -1
				 : 0;
	gck_cuda_copy_queue_end(&f.queue);
	gck_cuda_ring_end(&f.ring);
	gck_cuda_data_close(&f.link);
	return failed;
}

int gck_cuda_device_restore(const struct gck_cuda_order *order, struct gck_error *err)
{
	CUcontext context;
	CUresult rc;
	int failed = -1;

	if (!gck_cuda_snapshot_is_on_device())
		return 0;
	rc = gck_cuda_real.cuCtxPushCurrent_v2(order->contexts.v[0].context);
	if (rc)
		return gck_cuda_fail(err, "cuCtxPushCurrent", rc);
	for (bool again = false; failed; again = true) {
		struct gck_error why = {0};
		int fds[2];

		if (order->source(order->source_arg, again, fds, &why) == 0)
			failed = fill_from(fds, &why);
		if (why.code) {
			gck_fail(err, why.code, "%s", why.text);
			break;
		}
	}
	gck_cuda_real.cuCtxPopCurrent_v2(&context);
	return failed;
}
