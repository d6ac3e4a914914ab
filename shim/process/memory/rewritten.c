/* SPDX-License-Identifier: Apache-2.0
 * Memory that a rank rewrites all the time (see rewritten.h). */
#include "config.h"

#include "shim/process/memory/rewritten.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "common/base/boot_clock.h"
#include "shim/process/image/image.h"
#include "shim/process/proc/trace.h"
#include "shim/process/rank/helper_link.h"

#define REGION_SAMPLES 64
#define MOST_SAMPLES 8192
#define STEP_LEAST (2 * GCK_GROUP_BYTES)  /* a sample in each 512 KiB: a region of 32 MiB */
#define WORTH_BYTES ((uint64_t)128 << 20) /* less costs a rank little by faults, too */
#define LOOK_MS 100
#define MOST_LOOKS 10
#define CLONE_BYTES_PER_MS (1u << 20)     /* how fast a clone is written, about */

#define BATCH 32u                         /* page groups that are copied by one call: 8 MiB */
#define BATCH_PIECES (BATCH * GCK_GROUP_PAGES / 2)
#define MOST_THREADS 8u

/* ---- the look ------------------------------------------------------------------------------ */

static uint64_t region_least(void)
{
	return (uint64_t)STEP_LEAST * REGION_SAMPLES;
}

static bool is_writable(const struct gck_map *m)
{
	return gck_dirty_tracks(m) && (m->prot & PROT_READ) && (m->prot & PROT_WRITE);
}

static bool is_large(const struct gck_map *m)
{
	return is_writable(m) && m->end - m->start >= region_least();
}

static uint64_t large_bytes(const struct gck_image *img)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < img->nmaps; i++)
		if (is_large(&img->maps[i]))
			bytes += img->maps[i].end - img->maps[i].start;
	return bytes;
}

bool gck_rewritten_worth_look(const struct gck_image *img)
{
	return large_bytes(img) >= WORTH_BYTES;
}

/* At another place of each step, so that no pattern in the memory misleads the look. Never the
 * step's last page: two samples are never neighbours. */
static uint64_t page_of_step(uint64_t start, uint64_t step)
{
	uint64_t x = start * 0x9e3779b97f4a7c15ull;

	return start + (x >> 20) % (step / GCK_PAGE - 1) * GCK_PAGE;
}

/* Protect the samples of a region. */
static bool sample_region(struct gck_rewritten *w, struct gck_dirty_tracker *m, int pagemap,
			  struct gck_range range, uint64_t step)
{
	struct gck_rewritten_region *r = gck_grow(&w->regions, &w->nregions, sizeof *r, NULL);

	if (!r)
		return false;
	*r = (struct gck_rewritten_region){range, w->nsamples, 0, 0};
	for (uint64_t at = range.start; at + step <= range.end; at += step) {
		uint64_t *page = gck_grow(&w->samples, &w->nsamples, sizeof *page, NULL);

		if (!page)
			return false;
		*page = page_of_step(at, step);
		r->nsamples++;
		if (!gck_dirty_sample(m, pagemap, *page))
			return false;
	}
	return true;
}

static void sample_map(struct gck_rewritten *w, struct gck_dirty_tracker *m, int pagemap,
		       const struct gck_map *map, uint64_t step)
{
	uint64_t at = (map->start + GCK_GROUP_BYTES - 1) / GCK_GROUP_BYTES * GCK_GROUP_BYTES;
	uint64_t end = map->end / GCK_GROUP_BYTES * GCK_GROUP_BYTES;
	uint64_t size = step * REGION_SAMPLES;

	if (end - at < size || !gck_dirty_register(m, pagemap, map))
		return;
	for (; end - at >= size; at += size) {
		struct gck_range r = {at, end - at < 2 * size ? end : at + size};

		if (!sample_region(w, m, pagemap, r, step) || r.end == end)
			return;
	}
}

static void sample(struct gck_rewritten *w, struct gck_dirty_tracker *m, int pagemap,
		   const struct gck_image *img)
{
	uint64_t step = large_bytes(img) / MOST_SAMPLES / GCK_GROUP_BYTES * GCK_GROUP_BYTES;

	w->step = step > STEP_LEAST ? step : STEP_LEAST;
	for (size_t i = 0; i < img->nmaps && m->uffd >= 0; i++)
		if (is_large(&img->maps[i]))
			sample_map(w, m, pagemap, &img->maps[i], w->step);
}

/* How many samples were written. */
static size_t count_written(struct gck_rewritten *w, int pagemap)
{
	size_t all = 0;

	for (size_t i = 0; i < w->nregions; i++) {
		struct gck_rewritten_region *r = &w->regions[i];

		r->written = 0;
		for (size_t j = 0; j < r->nsamples; j++)
			r->written += gck_dirty_sample_written(pagemap, w->samples[r->sample + j]);
		all += r->written;
	}
	return all;
}

/* Look for as long as more and more is written. A program may go through its memory in any order,
 * so what it has not reached may be what it writes next. Returns how many times as long as the look
 * a clone exists; 0: little is written. */
static uint64_t look(struct gck_rewritten *w, int pagemap, uint64_t clone_ms)
{
	const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};
	size_t written = 0, before;
	uint64_t looks = 0, times;

	do {
		nanosleep(&pause, NULL);
		looks++;
		before = written;
		written = count_written(w, pagemap);
		times = clone_ms > looks * LOOK_MS ? clone_ms / (looks * LOOK_MS) : 1;
		if (written * w->step * times < WORTH_BYTES)
			return 0;
	} while (written > before && times > 1 && looks < MOST_LOOKS);
	return times;
}

/* Whether at least half of the region is likely to be written while a clone exists. */
static bool is_rewritten(const struct gck_rewritten_region *r, uint64_t times)
{
	double left = 1;

	for (uint64_t i = 0; i < times && left > 0.5; i++)
		left *= 1 - (double)r->written / (double)r->nsamples;
	return left <= 0.5;
}

static uint64_t choose(struct gck_rewritten *w, uint64_t times)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < w->nregions && times; i++) {
		const struct gck_range *x = &w->regions[i].range;

		if (!is_rewritten(&w->regions[i], times))
			continue;
		if (gck_ranges_add(&w->chosen, x->start, x->end, NULL))
			break;
		bytes += x->end - x->start;
	}
	if (bytes >= WORTH_BYTES)
		return bytes;
	w->chosen.n = 0;
	return 0;
}

uint64_t gck_rewritten_look(struct gck_rewritten *w, struct gck_dirty_tracker *m,
			    const struct gck_target *t, const struct gck_image *img,
			    uint64_t expected)
{
	int pagemap = openat(t->proc, "pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t bytes = 0;

	if (pagemap < 0)
		return 0;
	sample(w, m, pagemap, img);
	if (w->nregions)
		bytes = choose(w, look(w, pagemap, expected / CLONE_BYTES_PER_MS));
	close(pagemap);
	return bytes;
}

/* Not huge pages, unless all have them: it may take long to find some. */
int gck_rewritten_ready(struct gck_rewritten *w, uint64_t bytes)
{
	w->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->data == MAP_FAILED) {
		w->data = NULL;
		return -1;
	}
	w->size = bytes;
	for (size_t at = 0; at < bytes; at += GCK_PAGE)
		w->data[at] = 1;
	return 0;
}

/* ---- the copy ------------------------------------------------------------------------------ */

/* What a clone needs to run. */
static bool is_shims(const struct gck_target *t, const struct gck_range *x)
{
	const uint64_t at[][2] = {
		{t->address, sizeof(struct gck_shim_state)},
		{t->shim->helper_stack_top - GCK_SHIM_SUMMON_AT, GCK_SHIM_SUMMON_AT},
		{t->shim->scratch, GCK_SHIM_SCRATCH},
	};
	bool meets = false;

	for (size_t i = 0; i < sizeof at / sizeof *at; i++)
		meets |= at[i][0] < x->end && at[i][0] + at[i][1] > x->start;
	return meets;
}

/* A call of the vdso in which a thread was stopped is finished in the clone, and needs the thread's
 * memory there. */
static bool is_in_vdso(const struct gck_image *img)
{
	bool inside = false;

	for (size_t i = 0; i < img->nmaps; i++)
		for (size_t j = 0; j < img->nthreads && img->maps[i].kind == GCK_MAP_VDSO; j++)
			inside |= img->threads[j].regs.rip >= img->maps[i].start &&
				  img->threads[j].regs.rip < img->maps[i].end;
	return inside;
}

static int add_pages(struct gck_rewritten *w, uint64_t start, uint64_t end)
{
	for (uint64_t at = start, next; at < end; at = next) {
		uint64_t group = at / GCK_GROUP_BYTES * GCK_GROUP_BYTES;
		struct gck_rewritten_group *g = w->ngroups ? &w->groups[w->ngroups - 1] : NULL;
		unsigned n;

		next = group + GCK_GROUP_BYTES < end ? group + GCK_GROUP_BYTES : end;
		n = (unsigned)((next - at) / GCK_PAGE);
		if (!g || g->address != group) {
			g = gck_grow(&w->groups, &w->ngroups, sizeof *g, NULL);
			if (!g)
				return -1;
			*g = (struct gck_rewritten_group){.address = group};
		}
		g->mask |= (n == 64 ? ~0ull : (1ull << n) - 1) << ((at - group) / GCK_PAGE);
	}
	return 0;
}

/* Add a part of a mapping; not one with guard pages, which would have to be noted, too. */
static int add_part(struct gck_rewritten *w, const struct gck_source *s, const struct gck_range *x)
{
	struct gck_ranges r = {0}, guards = {0};
	int failed = gck_source_scan(s, x->start, x->end, false, &r, &guards, NULL);

	failed = failed || (!guards.n && gck_ranges_add(&w->copied, x->start, x->end, NULL));
	for (size_t i = 0; i < r.n && !failed && !guards.n; i++)
		failed = add_pages(w, r.v[i].start, r.v[i].end);
	free(r.v);
	free(guards.v);
	return failed;
}

/* What was chosen may have been unmapped or changed since. */
static int add_map(struct gck_rewritten *w, const struct gck_target *t, const struct gck_source *s,
		   const struct gck_map *m)
{
	uint64_t start = (m->start + GCK_GROUP_BYTES - 1) / GCK_GROUP_BYTES * GCK_GROUP_BYTES;
	uint64_t end = m->end / GCK_GROUP_BYTES * GCK_GROUP_BYTES;

	for (size_t i = 0; i < w->chosen.n && is_writable(m); i++) {
		struct gck_range x = w->chosen.v[i];

		x.start = x.start > start ? x.start : start;
		x.end = x.end < end ? x.end : end;
		if (x.start < x.end && !is_shims(t, &x) && add_part(w, s, &x))
			return -1;
	}
	return 0;
}

struct copying {
	struct gck_rewritten *w;
	pid_t pid;
	int64_t end_ms;
	size_t next;                /* the first group that no thread has taken */
	size_t stop;                /* those from here on are not copied */
	pthread_mutex_t lock;
};

/* The calling thread's next groups. */
static bool take_batch(struct copying *c, size_t *first, size_t *end)
{
	bool more;

	pthread_mutex_lock(&c->lock);
	if (c->next < c->stop && gck_boot_ms() > c->end_ms)
		c->stop = c->next;
	*first = c->next;
	*end = *first + BATCH < c->stop ? *first + BATCH : c->stop;
	more = *first < *end;
	if (more)
		c->next = *end;
	pthread_mutex_unlock(&c->lock);
	return more;
}

static void fail_batch(struct copying *c, size_t first)
{
	pthread_mutex_lock(&c->lock);
	if (first < c->stop)
		c->stop = first;
	pthread_mutex_unlock(&c->lock);
}

static size_t pieces_of(const struct gck_rewritten_group *g, size_t n,
			struct iovec pieces[BATCH_PIECES])
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		for (uint64_t left = g[i].mask; left; left &= left - 1) {
			char *page = (char *)(uintptr_t)g[i].address +
				     (size_t)__builtin_ctzll(left) * GCK_PAGE;
			struct iovec *last = count ? &pieces[count - 1] : NULL;

			if (last && (char *)last->iov_base + last->iov_len == page)
				last->iov_len += GCK_PAGE;
			else
				pieces[count++] = (struct iovec){page, GCK_PAGE};
		}
	return count;
}

/* process_vm_readv pins pages. A pinned page that a fork shares would be copied, but most of these
 * were written since the last one. */
static void *copy_batches(void *arg)
{
	struct copying *c = arg;
	struct iovec pieces[BATCH_PIECES];
	size_t first, end;

	while (take_batch(c, &first, &end)) {
		const struct gck_rewritten_group *g = &c->w->groups[first];
		size_t n = pieces_of(g, end - first, pieces);
		struct iovec to = {g->data, 0};

		for (size_t i = 0; i < n; i++)
			to.iov_len += pieces[i].iov_len;
		if (process_vm_readv(c->pid, &to, 1, pieces, n, 0) != (ssize_t)to.iov_len)
			fail_batch(c, first);
	}
	return NULL;
}

static void copy_groups(struct copying *c, unsigned threads)
{
	pthread_t more[MOST_THREADS];
	unsigned n = 0;

	while (n < MOST_THREADS && n + 1 < threads &&
	       !pthread_create(&more[n], NULL, copy_batches, c))
		n++;
	copy_batches(c);
	while (n-- > 0)
		pthread_join(more[n], NULL);
}

/* How many groups have their place in the memory. */
static size_t place(struct gck_rewritten *w)
{
	size_t n = 0, used = 0, size;

	for (; n < w->ngroups; n++, used += size) {
		size = (size_t)__builtin_popcountll(w->groups[n].mask) * GCK_PAGE;
		if (used + size > w->size)
			break;
		w->groups[n].data = w->data + used;
	}
	return n;
}

/* Leave groups from n on to the clone. */
static void cut_at(struct gck_rewritten *w, size_t n)
{
	uint64_t end = n < w->ngroups ? w->groups[n].address : UINT64_MAX;
	size_t i = 0;

	w->ngroups = n;
	while (i < w->copied.n && w->copied.v[i].start < end) {
		if (w->copied.v[i].end > end)
			w->copied.v[i].end = end;
		i++;
	}
	w->copied.n = i;
}

static int list_groups(struct gck_rewritten *w, const struct gck_target *t,
		       const struct gck_image *img)
{
	struct gck_source s = {.pagemap = -1, .mem = -1};
	int failed = gck_source_open(&s, t->pid, NULL);

	for (size_t i = 0; i < img->nmaps && !failed; i++)
		failed = add_map(w, t, &s, &img->maps[i]);
	gck_source_close(&s);
	return failed;
}

void gck_rewritten_copy(struct gck_rewritten *w, const struct gck_target *t,
			const struct gck_image *img)
{
	struct copying c = {.w = w, .pid = t->pid, .end_ms = gck_boot_ms() + w->copy_ms,
			    .lock = PTHREAD_MUTEX_INITIALIZER};

	if (!w->data || !w->copy_ms || is_in_vdso(img) || !gck_trace_permitted(t->pid))
		return;
	if (list_groups(w, t, img))
		w->ngroups = w->copied.n = 0;
	c.stop = place(w);
	copy_groups(&c, w->threads);
	cut_at(w, c.stop);
}

void gck_rewritten_free(struct gck_rewritten *w)
{
	if (w->data)
		munmap(w->data, w->size);
	free(w->regions);
	free(w->samples);
	free(w->chosen.v);
	free(w->copied.v);
	free(w->groups);
	*w = (struct gck_rewritten){.copy_ms = 0};
}
