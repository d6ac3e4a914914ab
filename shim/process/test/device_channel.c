/* SPDX-License-Identifier: Apache-2.0
 * Device data from a rank to the store, and back into a restored rank; the rank is a thread with a
 * script. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shim/process/capture/capture.h"
#include "shim/process/gpu/gpu.h"
#include "storage/image/image.h"
#include "storage/store/chunks.h"
#include "storage/store/manifest.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"

#define BASE 0x600000000000ull
#define MEMORY (12u << 20)
#define KIB 1024ull
#define STEP (1028 * KIB) /* size of a restored rank's GETs */

static char root[ROOT_MAX];
static struct gck_store *store;
static struct gck_options options;

/* ---- the rank ------------------------------------------------------------------------------ */

enum break_how {
	SOUND,
	NO_LIST,
	PIECES_OVERLAP,
	PIECE_ODD,
	LOST_MEMORY,
	GONE,
	WRONG_ANSWER,
	SILENT
};

struct rank {
	struct gck_device_channel d;
	pthread_t thread;
	unsigned char *memory;
	bool hashes;
	uint64_t expected;       /* of its image */
	enum break_how how;
	unsigned gets, hashed;   /* bytes */
	bool done;
};

/* By offset in memory: one that begins and ends within page groups, two in one page group, one that
 * takes several GETs. */
static const struct piece { uint64_t at, size;
} pieces[] = {
	{4 * KIB, 600 * KIB},
	{768 * KIB, 8 * KIB},
	{800 * KIB, 16 * KIB},
	{2048 * KIB, 9472 * KIB},
};
#define NPIECES (sizeof pieces / sizeof *pieces)

static void say_piece(const struct rank *r, uint64_t at, uint64_t size)
{
	gck_device_channel_send(&r->d,
		       &(struct gck_link_data){.type = GCK_LINK_DATA_PIECE,
					       .address = BASE + at,
					       .size = size},
		       NULL);
}

static void list(struct rank *r)
{
	struct gck_link_data end = {.type = GCK_LINK_DATA_END};

	if (r->how == NO_LIST) {
		end.value = ENODEV;
		gck_device_channel_send(&r->d, &end, "the copy cannot be mapped");
		return;
	}
	for (size_t i = 0; i < NPIECES; i++)
		say_piece(r, pieces[i].at, pieces[i].size);
	if (r->how == PIECES_OVERLAP)
		say_piece(r, pieces[NPIECES - 1].at + pieces[NPIECES - 1].size, 4096);
	if (r->how == PIECE_ODD)
		say_piece(r, MEMORY, 100);
	gck_device_channel_send(&r->d, &end, NULL);
}

static bool in_a_piece(uint64_t at, uint64_t size)
{
	for (size_t i = 0; i < NPIECES; i++)
		if (at >= pieces[i].at && at + size <= pieces[i].at + pieces[i].size)
			return true;
	return false;
}

static void put_hashes(struct rank *r, uint64_t at, uint64_t size, unsigned char *to)
{
	for (uint64_t end = at + size, next; at < end; at = next, to += sizeof(struct gck_hash)) {
		struct gck_hash h;

		next = (at / GCK_GROUP_BYTES + 1) * GCK_GROUP_BYTES;
		next = next < end ? next : end;
		h = gck_hash_bytes(r->memory + at, next - at);
		memcpy(to, &h, sizeof h);
	}
	r->hashed += (unsigned)size;
}

/* Answer one packet. Whether the rank goes on. */
static bool answer(struct rank *r, const struct gck_link_data *m)
{
	struct gck_link_data ready = {.type = GCK_LINK_DATA_READY,
				      .address = m->address,
				      .size = m->size};
	uint64_t at = m->address - BASE;

	if (!in_a_piece(at, m->size) ||
	    (m->type == GCK_LINK_DATA_GET && m->size > GCK_LINK_DATA_GET_MAX))
		return false;
	if (m->type == GCK_LINK_DATA_HASH && !r->hashes) {
		ready.value = ENOTSUP;
	} else if (m->type == GCK_LINK_DATA_HASH) {
		put_hashes(r, at, m->size, r->d.ring + m->number);
	} else {
		memcpy(r->d.ring + m->number, r->memory + at, m->size);
		r->gets += (unsigned)m->size;
	}
	if (r->how == LOST_MEMORY)
		ready.value = ENOMEM;
	if (r->how == WRONG_ANSWER)
		ready.address += 4096;
	if (r->how != SILENT)
		gck_device_channel_send(&r->d, &ready,
					ready.value ? "the program needed the memory" : NULL);
	return r->how != GONE;
}

static void *run(void *arg)
{
	struct rank *r = arg;
	struct gck_link_data m;
	bool on = true;

	while (on && gck_device_channel_receive(&r->d, &m, 10000, NULL) > 0) {
		r->done = m.type == GCK_LINK_DATA_DONE;
		if (m.type == GCK_LINK_DATA_LIST)
			list(r);
		else if (r->done)
			on = false;
		else
			on = answer(r, &m);
	}
	shutdown(r->d.socket, SHUT_RDWR);
	return NULL;
}

/* ---- writing ------------------------------------------------------------------------------- */

static int looks;

static int stop_after_ten(void *arg, uint64_t done, uint64_t all)
{
	(void)arg;
	(void)done;
	(void)all;
	return ++looks > 10;
}

struct progress {
	uint64_t done;
	unsigned grew; /* times */
	bool ended;    /* progress reported that all was done */
};

static int go_on(void *arg, uint64_t done, uint64_t all)
{
	struct progress *p = arg;

	p->grew += done > p->done;
	p->done = done;
	p->ended = p->ended || done >= all;
	return 0;
}

struct written {
	json_t *manifest;      /* NULL: the write failed */
	struct gck_error err;
	uint64_t stored;
	struct progress progress;
};

static int write_device(struct written *w, struct gck_writer *writer, const int fds[2], bool hashes,
			uint64_t expected, int (*progress)(void *, uint64_t, uint64_t),
			struct gck_page_groups *device)
{
	struct gck_capture c = {.device = {fds[0], fds[1]}, .device_hashes = hashes,
				.expected = expected, .img = calloc(1, sizeof *c.img),
				.root = &c};
	struct gck_output o = {.c = &c, .w = writer, .progress = progress, .arg = &w->progress,
			       .err = &w->err};
	int rc = gck_output_device(&o);

	*device = c.img->device;
	free(c.img);
	return rc;
}

/* The page groups are kept beside the manifest, which here has no other parts. */
static struct written store_it(struct rank *r, uint32_t seq, const struct written *before,
			       int (*progress)(void *, uint64_t, uint64_t),
			       struct gck_page_groups *device)
{
	struct gck_writer *w = gck_writer_open(store, seq, "t", &options,
					       before ? before->manifest : NULL, NULL);
	struct written out = {.manifest = NULL};
	char hash[1][GCK_HASH_TEXT];
	struct gck_device_channel_ends e;
	json_t *j = json_object();
	uint64_t put;
	int rc;

	if (!w || gck_device_channel_make(&e, NULL) ||
	    gck_device_channel_open(&r->d, e.rank, NULL) ||
	    pthread_create(&r->thread, NULL, run, r))
		abort();
	rc = write_device(&out, w, e.own, before, r->expected, progress, device);
	shutdown(e.own[0], SHUT_RDWR);
	pthread_join(r->thread, NULL);
	gck_device_channel_close(&r->d);
	gck_device_channel_drop(e.rank);
	gck_device_channel_drop(e.own);
	if (rc == 0 && gck_writer_manifest(w, 0, j, hash[0], &out.err) == 0) {
		json_t *commit = commit_of(seq, "t", hash, 1);

		out.manifest = gck_store_read_manifest(store, commit, 0, &out.err);
		json_decref(commit);
	}
	gck_writer_totals(w, &put, &out.stored);
	gck_writer_close(w);
	json_decref(j);
	return out;
}

/* As read back from an image: the manifest says where the chunks are. */
static void locate(struct gck_page_groups *w, const json_t *manifest)
{
	static struct gck_chunks chunks;

	gck_chunks_clear(&chunks);
	if (gck_chunks_load(manifest, &chunks, NULL))
		abort();
	w->chunks = &chunks;
}

/* ---- and back ------------------------------------------------------------------------------ */

struct server {
	struct gck_device_channel d;
	const struct gck_page_groups *w;
	struct gck_reader *reader;
	struct gck_error err;
	struct progress progress;
	pthread_t thread;
	int rc;
};

static void *serve(void *arg)
{
	struct server *s = arg;

	s->rc = gck_device_channel_serve(&s->d, s->w, s->reader, go_on, &s->progress, &s->err);
	shutdown(s->d.socket, SHUT_RDWR);
	return NULL;
}

static struct gck_device_channel_ends ends;

static void serve_begin(struct server *s, const struct written *w,
			const struct gck_page_groups *device, struct gck_device_channel *rank)
{
	*s = (struct server){.w = device, .reader = gck_reader_open(store, w->manifest, NULL)};
	if (!s->reader || gck_device_channel_make(&ends, NULL) ||
	    gck_device_channel_open(&s->d, ends.own, NULL) ||
	    gck_device_channel_open(rank, ends.rank, NULL) ||
	    pthread_create(&s->thread, NULL, serve, s))
		abort();
}

static void serve_end(struct server *s, struct gck_device_channel *rank)
{
	shutdown(rank->socket, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	gck_device_channel_close(&s->d);
	gck_device_channel_close(rank);
	gck_device_channel_drop(ends.rank);
	gck_device_channel_drop(ends.own);
	gck_reader_close(s->reader);
}

static uint32_t get(const struct gck_device_channel *d, uint64_t address, uint64_t size,
		    uint64_t number, struct gck_link_data *m)
{
	gck_device_channel_send(d,
				&(struct gck_link_data){.type = GCK_LINK_DATA_GET,
							.address = address,
							.size = size,
							.number = number},
				NULL);
	return gck_device_channel_receive(d, m, 10000, NULL) > 0 ? m->value : ECONNRESET;
}

/* Compare all of the memory, in steps that cross page groups and the gaps between pieces. */
static bool same_back(const struct gck_device_channel *d, const unsigned char *memory)
{
	static const unsigned char zeros[4096];
	struct gck_link_data m;

	for (uint64_t at = 0; at < MEMORY; at += STEP) {
		uint64_t n = MEMORY - at < STEP ? MEMORY - at : STEP;

		if (get(d, BASE + at, n, 64 * KIB, &m))
			return false;
		for (uint64_t page = at; page < at + n; page += 4096)
			if (memcmp(d->ring + 64 * KIB + (page - at),
				   in_a_piece(page, 4096) ? memory + page : zeros, 4096))
				return ok(false, "page at %llx", (unsigned long long)page);
	}
	return true;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void fill_memory(unsigned char *memory)
{
	fill(memory, MEMORY, 7);
	memset(memory + 3072 * KIB, 0, 1024 * KIB); /* whole page groups of zeros */
	memset(memory + 5120 * KIB + 4096, 0, 8192); /* and pages within one */
}

static void there_and_back(struct rank *r)
{
	struct gck_page_groups device, again;
	struct written first, second, third;
	struct gck_device_channel rank;
	struct server s;

	first = store_it(r, 1, NULL, go_on, &device);
	ok(first.manifest && r->done && !r->hashed, "device data are stored: %s", first.err.text);
	is_int(r->gets, 10096 * KIB, "every byte is read once");
	is_int((long long)first.progress.done, 10096 * KIB, "and counts as progress");
	ok(device.rows.n == 38, "zeros are no page groups: %zu", device.rows.n);
	locate(&device, first.manifest);
	serve_begin(&s, &first, &device, &rank);
	ok(same_back(&rank, r->memory), "a restored rank gets the same data, and zeros elsewhere");
	gck_device_channel_send(&rank, &(struct gck_link_data){.type = GCK_LINK_DATA_DONE}, NULL);
	serve_end(&s, &rank);
	is_int(s.rc, 0, "until it needs nothing more");
	is_int(s.progress.grew, (MEMORY + STEP - 1) / STEP,
	       "each answer is progress, also for zeros, which the image does not store");
	ok(!s.progress.ended, "the last one is not the end of the expected bytes");

	r->hashes = true;
	r->gets = 0;
	r->memory[6 << 20]++;
	second = store_it(r, 2, &first, go_on, &again);
	ok(second.manifest && r->hashed == 10096 * KIB, "the second time hashes are asked for");
	is_int(r->gets, GCK_GROUP_BYTES, "only the page group that changed is read");
	ok(second.stored == GCK_GROUP_BYTES, "and stored");
	locate(&again, second.manifest);
	serve_begin(&s, &second, &again, &rank);
	ok(same_back(&rank, r->memory), "a restored rank gets all");
	serve_end(&s, &rank);
	is_int(s.rc, 0, "a rank that ends also ends it");

	r->hashes = false;
	r->gets = 0;
	r->expected = 1024 * KIB;
	gck_hex_table_clear(&device.rows);
	third = store_it(r, 3, &second, go_on, &device);
	ok(third.manifest && r->gets == 10096 * KIB && !third.stored,
	   "without hashes all bytes are read, and none stored");
	ok(third.progress.done == 10096 * KIB && !third.progress.ended,
	   "all of it is progress, with fewer bytes expected");
	r->expected = MEMORY;
	json_decref(first.manifest);
	json_decref(second.manifest);
	json_decref(third.manifest);
	gck_hex_table_clear(&device.rows);
	gck_hex_table_clear(&again.rows);
}

static void fails(struct rank *r, enum break_how how, int code, const char *text, const char *name)
{
	struct gck_page_groups device;
	struct written w;

	r->how = how;
	looks = 0;
	w = store_it(r, 9, NULL, how == SILENT ? stop_after_ten : go_on, &device);
	ok(!w.manifest && w.err.code == code && strstr(w.err.text, text), "%s: %s", name,
	   w.err.text);
	json_decref(w.manifest);
	gck_hex_table_clear(&device.rows);
	r->how = SOUND;
}

static void damaged(struct rank *r)
{
	struct gck_page_groups device;
	struct written w = store_it(r, 4, NULL, go_on, &device);
	struct gck_link_data m;
	struct gck_device_channel rank;
	struct gck_chunks other;
	struct gck_chunk x;
	struct server s;

	locate(&device, w.manifest);
	serve_begin(&s, &w, &device, &rank);
	ok(get(&rank, BASE, 4096, rank.size, &m),
	   "a GET that does not fit the ring is not answered");
	serve_end(&s, &rank);
	is_int(s.err.code, EPROTO, "it ends the channel");
	must(gck_chunks_load(w.manifest, &other, NULL));
	x = gck_page_groups_at(&device, 20).chunk;
	x.hash.lo++;
	gck_chunks_set(&other, x.index, &x);
	device.chunks = &other;
	serve_begin(&s, &w, &device, &rank);
	is_int(get(&rank, gck_page_groups_address(&device, 19), GCK_GROUP_BYTES, 0, &m), 0,
	       "a valid page group");
	is_int(get(&rank, gck_page_groups_address(&device, 20), GCK_GROUP_BYTES, 0, &m), EBADMSG,
	       "a damaged page group");
	ok(strstr(m.why, "is damaged"), "the rank gets the error: %s", m.why);
	serve_end(&s, &rank);
	is_int(s.err.code, EBADMSG, "so does the agent");
	json_decref(w.manifest);
	gck_hex_table_clear(&device.rows);
	gck_chunks_clear(&other);
}

int main(void)
{
	struct rank r = {.memory = malloc(MEMORY), .expected = MEMORY};
	char url[URL_MAX];

	gck_options_init(&options);
	options.compress = GCK_COMPRESS_NONE;
	make_root(root, url);
	store = gck_store_open(url, "c", 1, 0, true, NULL);
	if (!store || !r.memory)
		return 99;
	fill_memory(r.memory);
	there_and_back(&r);
	damaged(&r);
	fails(&r, NO_LIST, ENODEV, "the copy cannot be mapped", "a rank that has none says why");
	fails(&r, PIECES_OVERLAP, EPROTO, "an invalid packet", "pieces that touch");
	fails(&r, PIECE_ODD, EPROTO, "an invalid packet", "a piece of no pages");
	fails(&r, LOST_MEMORY, ENOMEM, "the program needed", "the program took the memory");
	fails(&r, WRONG_ANSWER, EPROTO, "an invalid packet", "another answer");
	fails(&r, GONE, EAGAIN, "went away", "it ends");
	fails(&r, SILENT, ECANCELED, "stopped", "it hangs, and the write is called off");
	gck_store_close(store);
	remove_tree(root);
	free(r.memory);
	return tap_done();
}
