/* SPDX-License-Identifier: Apache-2.0
 * An image as JSON and back. Damaged manifests of every kind are refused or harmless, and never
 * crash the reader (run it under a sanitizer to see leaks). `test_image SEED ROUNDS` for more
 * mutations. */
#include "config.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/link.h"
#include "shim/process/image/image_fields.h"
#include "storage/base/hash.h"
#include "storage/document/json.h"
#include "test/support/tap.h"

#define MANY 80000u

static uint64_t seed = 20;

static uint64_t number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static void *zeroed(size_t n, size_t size)
{
	void *v = calloc(n, size);

	if (!v)
		abort();
	return v;
}

/* The manifest's table of chunks, as the store writes it. Chunk i has i + 1 pages. */
static json_t *make_store(unsigned n)
{
	char *text = zeroed(n, 55 + 1), *at = text;
	json_t *j;

	for (unsigned i = 0; i < n; i++)
		at += sprintf(at, "%032x%06x%06x%05x%05x0", i + 1, 0, i * 64 * 64, (i + 1) * 4096,
			      (i + 1) * 4096);
	j = json_pack("{s:s, s:[s], s:s}", "of", "c/1/0", "objects",
		      "1-a/0123456789abcdef0123456789abcdef", "chunks", text);
	free(text);
	return j;
}

static void group(struct gck_page_groups *w, uint64_t address, unsigned first, unsigned pages)
{
	struct gck_page_group x = {.address = address};

	x.mask = ((1ull << pages) - 1) << first;
	x.chunk.index = pages - 1;
	must(gck_page_groups_add(w, &x, NULL));
}

static void fill_threads(struct gck_image *img)
{
	img->nthreads = 3;
	img->threads = zeroed(3, sizeof(*img->threads));
	for (int i = 0; i < 3; i++) {
		struct gck_thread *t = &img->threads[i];

		t->vtid = i == 2 ? 4194306 : 1000 + i; /* one that the kernel never gives */
		t->rtid = 2000 + i;
		memcpy(t->name, "n\xff" "me", 5);
		memset(&t->regs, 17 + i, sizeof(t->regs));
		t->xstate_size = 600;
		t->xstate = zeroed(1, 600);
		memset(t->xstate, 0xa5, 600);
		t->sigmask = ~0ull;
		t->tid_address = 0x7f0000001000;
		t->robust_head = 0x7f0000002000;
		t->robust_size = 24;
		t->rseq.address = 0x7f0000003000;
		t->rseq.size = 32;
		t->rseq.signature = 0xf1f1f1f1u;
		t->altstack.flags = 0x80000000u;
		t->npending = (size_t)i;
		t->pending = zeroed((size_t)i + 1, sizeof(*t->pending));
		t->affinity_size = 8;
		t->affinity = zeroed(1, 8);
		t->nice = -5;
	}
}

static void fill_memory(struct gck_image *img)
{
	static const struct gck_map maps[] = {
		{0x400000, 0x500000, PROT_READ, GCK_MAP_FILE, 0, 0, -1, 0, NULL, 0},
		{0x500000, 0x600000, PROT_WRITE, GCK_MAP_ANON, 5, -1, -1, 0, NULL, 0},
		{0x700000, 0x800000, 3, GCK_MAP_SHARED, 0, -1, 0, 4096, NULL, 0},
		{0x800000, 0x900000, 3, GCK_MAP_SHARED_FILE, 0, -1, 1, 0, NULL, 0},
		{0x900000, 0x901000, 3, GCK_MAP_RING, 0, -1, -1, 0x10000000, NULL, 88},
		{0x7fff00000000, 0x7fff00001000, 5, GCK_MAP_VDSO, 0, -1, -1, 0, NULL, 0},
	};

	img->nmaps = 6;
	img->maps = zeroed(6, sizeof(*img->maps));
	for (int i = 0; i < 6; i++) {
		img->maps[i] = maps[i];
		img->maps[i].name = strdup(i ? "" : "/bin/\xfe");
	}
	img->ncontents = 1;
	img->contents = zeroed(1, sizeof(*img->contents));
	img->contents[0] = (struct gck_content){.path = strdup("/bin/x"), .device = ~0ull,
						.size = 1 << 20, .mtime_ns = -3, .carried = true};
	group(&img->contents[0].groups, 0, 3, 7);
	group(&img->contents[0].groups, GCK_GROUP_BYTES, 0, 2);
	img->nobjects = 2;
	img->objects = zeroed(2, sizeof(*img->objects));
	img->objects[0] = (struct gck_object){.name = strdup(""), .size = 1 << 21, .seals = 3};
	img->objects[1] = (struct gck_object){.name = strdup("/a"), .has_path = true, .size = 5};
	group(&img->objects[1].groups, 0, 0, 1);
	group(&img->pages, 0x500000, 0, 4);
	group(&img->pages, 0x500000, 8, 9);
	group(&img->pages, 0x580000, 63, 1);
}

static void fill_ring(struct gck_file *f)
{
	struct gck_ring *x = zeroed(1, sizeof *x);

	f->kind = GCK_FD_RING;
	f->id = 88;
	f->nrings = 1;
	f->rings = x;
	x->submissions = x->completions = 8;
	x->submitted = GCK_RING_MOST;
	x->nbuffers = x->nfiles = 2;
	x->buffers = zeroed(2, sizeof *x->buffers);
	x->buffers[1] = (struct gck_ring_buffer){0x500000, 4096};
	x->files = zeroed(2, sizeof *x->files);
	x->files[1].fd = -1;
}

static void fill_files(struct gck_image *img)
{
	img->nfiles = 6;
	img->files = zeroed(6, sizeof(*img->files));
	for (int i = 0; i < 6; i++)
		img->files[i].object = -1;
	img->files[0].kind = GCK_FD_FILE;
	img->files[0].path = strdup("/tmp/out");
	img->files[0].data_size = 9000;
	img->files[0].prefix = (struct gck_hash){1, ~0ull};
	group(&img->files[0].data, 0, 0, 3);
	img->files[1].kind = GCK_FD_PIPE;
	img->files[1].id = 77;
	img->files[2].kind = GCK_FD_PIPE;
	img->files[2].id = 77;
	img->files[2].write_end = true;
	img->files[3].kind = GCK_FD_EPOLL;
	img->files[3].nentries = 1;
	img->files[3].entries = zeroed(1, sizeof(*img->files[3].entries));
	img->files[3].entries[0] = (struct gck_epoll_entry){4, 0x80000001u, ~0ull};
	img->files[4].kind = GCK_FD_QUEUE;
	img->files[4].path = strdup("/q");
	img->files[4].mq_most = img->files[4].mq_size = 10;
	fill_ring(&img->files[5]);
	img->nfds = 5;
	img->fds = zeroed(5, sizeof(*img->fds));
	for (int i = 0; i < 5; i++)
		img->fds[i] = (struct gck_fd){.fd = 2 * i, .cloexec = i & 1,
					      .file = (uint32_t)i % 4};
}

static void fill_children(struct gck_image *img)
{
	static const struct gck_child children[] = {
		{5000000, 1003, 0xff00, SIGCHLD, 0, false, false, 0},
		{1005, 1005, SIGKILL, 0, 1005, true, false, 0},
		{1006, 1006, 0, 64, 1006, false, false, 0},
		{1007, 1007, 40, SIGCHLD, 1006, false, false, 0},
	};

	img->nchildren = sizeof(children) / sizeof(children[0]);
	img->children = zeroed(img->nchildren, sizeof(*img->children));
	memcpy(img->children, children, sizeof(children));
}

static void fill_ipc(struct gck_image *img)
{
	img->objects[0].segment = 1;
	img->nipc = 3;
	img->ipc = zeroed(3, sizeof(*img->ipc));
	for (int i = 0; i < 3; i++)
		img->ipc[i] = (struct gck_ipc){.kind = i, .key = ~0u, .object = -1, .size = 2};
	img->ipc[GCK_IPC_MEMORY].object = 0;
	img->ipc[GCK_IPC_MEMORY].size = img->objects[0].size;
	for (int i = 1; i < 3; i++) {
		img->ipc[i].data_size = 4;
		img->ipc[i].data = zeroed(1, 4);
	}
	img->ipc[GCK_IPC_MESSAGES].nmessages = 1;
	img->ipc[GCK_IPC_MESSAGES].messages = zeroed(1, sizeof(struct gck_ipc_message));
	img->ipc[GCK_IPC_MESSAGES].messages[0] = (struct gck_ipc_message){INT64_MAX, 4};
	img->nundo = 1;
	img->undo = zeroed(1, sizeof(*img->undo));
	img->undo[0] = (struct gck_undo){0, 1, -32768};
}

static struct gck_image *make_image(void)
{
	struct gck_image *img = zeroed(1, sizeof(*img));

	img->vpid = 1000;
	img->exe = strdup("/bin/x");
	img->cwd = strdup("/tmp");
	img->cpu_flags = strdup("fpu sse");
	img->brk = 0x600000;
	img->auxv_size = 32;
	img->auxv = zeroed(1, 32);
	img->actions[12].handler = ~0ull;
	img->ntimers = 1;
	img->timers = zeroed(1, sizeof(*img->timers));
	img->timers[0] = (struct gck_posix_timer){.id = 3, .sigval = ~0ull, .value_ns = 5};
	img->npending = 2;
	img->pending = zeroed(2, sizeof(*img->pending));
	img->limits[3][1] = ~0ull;
	img->realtime_ns = 1795221566860402174;
	fill_threads(img);
	fill_memory(img);
	fill_files(img);
	fill_children(img);
	fill_ipc(img);
	return img;
}

static json_t *make_manifest(void)
{
	struct gck_image *img = make_image();
	struct gck_error err;
	json_t *j = gck_image_to_json(img, &err);

	json_object_set_new(j, "store", make_store(16));
	gck_image_free(img);
	return j;
}

/* The keys of a list's first element, as "a,b,c"; the tables take them from names in C. */
static void are_keys(const json_t *image, const char *list, const char *keys)
{
	const json_t *one = json_array_get(json_object_get(image, list), 0);
	char found[1024] = "", name[64];
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)one, key, value)
		snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s%s",
			 *found ? "," : "", key);
	snprintf(name, sizeof(name), "the keys of format 1 in %s", list);
	is_str(found, keys, name);
}

/* Members that images of 0.1.0 do not have. */
static void test_grown(json_t *manifest)
{
	static const char *const members[] = {"lock_future", "guards", "attributes",
					       "children", "processes", "ipc", "undo", "boot"};
	json_t *image = json_object_get(manifest, "image"), *thread;
	struct gck_error err = {0};
	struct gck_image *img;
	size_t i;

	for (i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		json_object_del(image, members[i]);
	json_array_foreach(json_object_get(image, "threads"), i, thread) {
		json_object_del(thread, "sched");
		json_object_del(thread, "io_priority");
	}
	img = gck_image_from_json(manifest, &err);
	ok(img && !img->nattributes && !img->threads[0].sched.size,
	   "an image of 0.1.0 is read: %s", err.text);
	gck_image_free(img);
}

static void test_keys(void)
{
	json_t *j = make_manifest();
	const json_t *image = json_object_get(j, "image");

	are_keys(image, "contents", "path,device,inode,size,mtime_ns,carried,windows,owner");
	are_keys(image, "objects",
		 "name,has_path,mode,seals,size,device,inode,windows,mtime_ns,owner,"
		 "shared,elsewhere,segment,ranks,number");
	are_keys(image, "maps", "start,end,prot,kind,flags,content,object,offset,name,ring");
	are_keys(image, "files", "kind,flags,offset,path,size,least,mtime_ns,mode,unlinked,"
		 "whole,written,prefix,data,data_size,id,name,sock_type,"
		 "shutdown,peer,write_end,pipe_size,count,semaphore,clock,"
		 "value_ns,interval_ns,ticks,sigmask,object,entries,packets,options,"
		 "was.inode,was.owner,shared,locks,queue,to,terminals,process,peer_pid,"
		 "watches,init_flags,event_flags,async,signo,owner,owner_type,"
		 "mq_most,mq_size,rings");
	are_keys(image, "ipc", "kind,id,number,key,mode,size,object,used,data,messages,ranks,"
		 "common,elsewhere");
	are_keys(image, "undo", "id,semaphore,value");
	are_keys(image, "fds", "fd,cloexec,file,in_flight");
	are_keys(image, "children",
		 "vpid,rpid,status,exit_signal,group,session,runs,orphan,leader");
	are_keys(image, "threads", "vtid,rtid,name,regs,xstate,sigmask,tid_address,robust_head,"
		 "robust_size,rseq.address,rseq.size,rseq.signature,altstack.sp,"
		 "altstack.size,altstack.flags,pending,affinity,nice,policy,priority,sched,"
		 "io_priority");
	test_grown(j);
	json_decref(j);
}

static void test_round_trip(void)
{
	json_t *j = make_manifest(), *again = NULL;
	struct gck_error err = {0};
	struct gck_image *img = gck_image_from_json(j, &err);

	if (!ok(img != NULL, "an image with everything in it is read back"))
		printf("# %s\n", err.text);
	if (img) {
		again = gck_image_to_json(img, &err);
		ok(json_equal(json_object_get(j, "image"), json_object_get(again, "image")),
		   "and is unchanged");
		ok(gck_page_groups_at(&img->contents[0].groups, 0).chunk.size == 7 * GCK_PAGE &&
		   gck_page_groups_address(&img->contents[0].groups, 0) == 0 &&
		   gck_page_groups_address(&img->contents[0].groups, 1) == GCK_GROUP_BYTES,
		   "page groups know their chunks");
		ok(!strcmp(img->maps[0].name, "/bin/\xfe") &&
		   !memcmp(img->threads[2].name, "n\xff" "me", 5), "names that are not UTF-8");
		ok(img->threads[0].nice == -5 && img->threads[0].rseq.signature == 0xf1f1f1f1u &&
		   img->contents[0].mtime_ns == -3 && img->files[0].prefix.lo == ~0ull,
		   "numbers at their limits");
	}
	json_decref(again);
	json_decref(j);
	gck_image_free(img);
}

/* Exit status of a process without memory that reads an image: whether the error is lack of memory.
 * It must not be that the image is damaged, since that would be believed. */
static int say_without_memory(const json_t *j)
{
	struct gck_error err = {0};
	struct rlimit none = {1 << 20, 1 << 20};
	struct gck_image *img;

	setrlimit(RLIMIT_AS, &none);
	img = gck_image_from_json(j, &err);
	printf("# %s\n", err.text);
	return !img && err.code == ENOMEM && strstr(err.text, "device") &&
			       !strstr(err.text, "damaged")
		       ? 0
		       : 1;
}

static void test_no_memory(const json_t *j)
{
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int rc = say_without_memory(j);

		fflush(stdout);
		_exit(rc);
	}
	ok(waitpid(pid, &status, 0) == pid && !status,
	   "lack of memory is not reported as damage");
}

/* As many page groups as 20 GiB have, added in reverse order: their text has a parser of its
 * own. */
static void test_many(void)
{
	struct gck_image *img = make_image(), *again;
	struct gck_error err = {0};
	uint64_t wrong = 0;
	json_t *j;
	char *text;

	for (uint64_t i = MANY; i-- > 0;)
		group(&img->device, i * GCK_GROUP_BYTES, i % 50, 1 + i % 14);
	gck_page_groups_sort(&img->device);
	j = gck_image_to_json(img, &err);
	json_object_set_new(j, "store", make_store(16));
	text = gck_json_text(j);
	json_decref(j);
	j = gck_json_parse(text, strlen(text), &err);
	again = gck_image_from_json(j, &err);
	ok(again && again->device.rows.n == MANY, "an image of %u page groups", MANY);
	for (uint64_t i = 0; again && i < MANY; i++) {
		struct gck_page_group x = gck_page_groups_at(&again->device, i);

		wrong += x.address != i * GCK_GROUP_BYTES ||
			 x.mask != ((1ull << (1 + i % 14)) - 1) << i % 50 ||
			 x.chunk.size != (1 + i % 14) * GCK_PAGE;
		wrong += gck_page_groups_find(&again->device, i * GCK_GROUP_BYTES + GCK_PAGE) != i;
	}
	is_int((long long)wrong, 0, "is read back, in order, and every page group is found");
	test_no_memory(j);
	json_decref(j);
	free(text);
	gck_image_free(again);
	gck_image_free(img);
}

/* Set a path like "maps 1 start" in the image to a value. It must be refused with this reason. */
static void refused(const char *path, json_t *value, const char *why)
{
	json_t *j = make_manifest(), *at = json_object_get(j, "image");
	char text[128], *save = NULL, *next, *key;
	struct gck_error err = {0};
	struct gck_image *img;

	snprintf(text, sizeof(text), "%s", path);
	for (key = strtok_r(text, " ", &save); (next = strtok_r(NULL, " ", &save)); key = next)
		at = json_is_array(at) ? json_array_get(at, (size_t)atoi(key))
				       : json_object_get(at, key);
	json_object_set_new(at, key, value);
	img = gck_image_from_json(j, &err);
	if (!ok(!img && strstr(err.text, why), "%s: refused (%s)", path, why))
		printf("# %s\n", img ? "taken" : err.text);
	gck_image_free(img);
	json_decref(j);
}

static json_t *one_lease(bool exclusive)
{
	return json_pack("[{s:i,s:b,s:i,s:i}]", "kind", GCK_LOCK_LEASE, "exclusive", exclusive,
			 "start", 0, "length", 0);
}

static void test_relations(void)
{
	refused("maps 1 start", json_string("480000"), "overlaps");
	refused("maps 1 end", json_string("500800"), "not a mapping");
	refused("maps 0 content", json_integer(1), "not there");
	refused("maps 1 content", json_integer(0), "not there");
	refused("maps 2 object", json_integer(2), "not there");
	refused("maps 1 prot", json_integer(8), "not a whole number");
	refused("maps 1 kind", json_integer(99), "not a whole number");
	refused("maps 3 object", json_integer(0), "without a path");
	refused("pages", json_string("0000000000140000000000000001000000"),
		"not rows of 36");
	refused("pages", json_string("000000000016000000000000000100000000"
				     "000000000014000000000000000100000000"), "out of order");
	refused("pages", json_string("000000000014000000000000000100000000"
				     "000000000014000000000000000100000000"), "out of order");
	refused("pages", json_string("00000000001c000000000000000100000000"), "no private mapping");
	refused("pages", json_string("000000000014000000000000000100000001"), "a chunk of 8192");
	refused("pages", json_string("000000000014000000000000000100000010"), "impossible");
	refused("pages", json_string("000000000014000000000000000000000000"), "impossible");
	refused("pages", json_string("ffffffffffff000000000000000100000000"), "impossible");
	refused("pages", json_string("00000000001g000000000000000100000000"), "not hexadecimal");
	refused("device", json_string("000000000016000000000000000100000000"
				      "000000000014000000000000000100000000"), "out of order");
	refused("objects 1 size", json_integer(0), "behind its end");
	refused("objects 1 name", json_string("a"), "no absolute path");
	refused("objects 1 ranks", json_string("0-1"), "has no number");
	refused("objects 1 elsewhere", json_true(), "has no number");
	refused("contents 0 size", json_integer(4096), "behind its end");
	refused("threads 1 vtid", json_integer(1000), "two threads");
	refused("threads 0 vtid", json_integer(1003), "main thread");
	refused("threads 0 vtid", json_integer(0), "not a whole number");
	refused("threads 0 regs", json_string("00"), "bytes in hexadecimal");
	refused("threads 0 xstate", json_string("00"), "bytes in hexadecimal");
	refused("threads 0 name", json_string("61616161616161616161616161616161"), "no end");
	refused("threads", json_array(), "not a list");
	refused("children 1 vpid", json_integer(1000), "which is another's");
	refused("children 1 vpid", json_integer(5000000), "which is another's");
	refused("children 0 status", json_integer(SIGCHLD), "cannot have ended");
	refused("children 0 status", json_integer(SIGSEGV | 0x80), "cannot have ended");
	refused("children 0 status", json_integer(0x137f), "cannot have ended");
	refused("children 0 status", json_integer(65), "cannot have ended");
	refused("children 1 group", json_integer(0), "without a leader");
	refused("children 0 group", json_integer(1005), "without a leader");
	refused("children 0 exit_signal", json_integer(65), "not a whole number");
	refused("children 2 runs", json_true(), "0 images");
	refused("processes", json_pack("[{}]"), "vpid is missing");
	refused("fds 1 fd", json_integer(0), "out of order");
	refused("fds 1 file", json_integer(6), "not there");
	refused("files 3 entries",
		json_pack("[{s:i,s:s,s:s}]", "fd", 1, "events", "1", "data", "0"), "not open");
	refused("files 0 path", json_null(), "no path");
	refused("files 0 locks", one_lease(true), "lease that a restart cannot take");
	refused("files 1 locks", one_lease(false), "lease that a restart cannot take");
	refused("files 1 packets", json_pack("[{s:i}]", "size", 1), "not its data");
	refused("files 1 to", json_string("1"), "cannot have connections");
	refused("files 1 queue", json_pack("[{s:s}]", "id", "1"), "cannot have connections");
	refused("files 1 name", json_string("61"), "is not a socket's");
	refused("files 0 object", json_integer(0), "not there");
	refused("files 4 mq_most", json_integer(0), "not a message queue");
	refused("files 4 path", json_string("q"), "not a message queue");
	refused("files 1 mq_size", json_integer(1), "not a message queue");
	refused("maps 4 ring", json_string("77"), "maps an io_uring that is not there");
	refused("maps 3 ring", json_string("58"), "maps an io_uring that is not there");
	refused("files 5 id", json_string("0"), "io_uring that is not there");
	refused("files 5 rings", json_array(), "not an io_uring that can be made");
	refused("files 5 rings 0 submissions", json_integer(7), "not an io_uring that can be made");
	refused("files 5 rings 0 completions", json_integer(4), "not an io_uring that can be made");
	refused("files 5 rings 0 files 0 fd", json_integer(1), "not an io_uring that can be made");
	refused("ipc 0 object", json_integer(1), "System V object 0 is not whole");
	refused("ipc 0 id", json_integer(1), "System V object 0 is not whole");
	refused("ipc 1 size", json_integer(3), "System V object 1 is not whole");
	refused("ipc 2 data", json_string("00"), "System V object 2 is not whole");
	refused("ipc 2 object", json_integer(0), "System V object 2 is not whole");
	refused("ipc 1 elsewhere", json_true(), "System V object 1 is not whole");
	refused("undo 0 value", json_integer(-32769), "not a whole number");
	refused("exe", json_string("x"), "no absolute path");
	refused("exe", json_null(), "not a text");
	refused("exe", json_pack("{s:s}", "bytes", "2f00"), "not a text");
	refused("brk", json_string("100000000000001"), "hexadecimal number");
	refused("brk", json_string("-1"), "hexadecimal number");
	refused("umask", json_real(1.5), "not a whole number");
	refused("actions", json_array(), "not a list of 65");
	refused("dumpable", json_true(), "not a whole number");
}

/* Images of 0.1.0 do not have these. */
static void test_later(void)
{
	static const char *const later[][2] = {
		{"objects", "mtime_ns"},
		{"files", "packets"}, {"files", "options"}, {"contents", "owner"},
		{"objects", "owner"}, {"objects", "ranks"}, {"objects", "number"},
		{"ipc", "ranks"}, {"ipc", "common"}, {"ipc", "elsewhere"},
		{"files", "was.inode"}, {"files", "was.owner"},
		{"files", "shared"}, {"files", "queue"}, {"files", "to"},
		{"files", "terminals"}, {"files", "process"}, {"files", "watches"},
		{"files", "init_flags"}, {"files", "event_flags"},
		{"files", "rings"}, {"maps", "ring"}, /* it had no io_uring */
	};
	json_t *j = make_manifest(), *image = json_object_get(j, "image"), *one;
	struct gck_error err = {0};
	struct gck_image *img;
	size_t k;

	json_array_remove(json_object_get(image, "files"), 5);
	json_array_remove(json_object_get(image, "maps"), 4);
	for (size_t i = 0; i < sizeof later / sizeof *later; i++)
		json_array_foreach(json_object_get(image, later[i][0]), k, one)
			if (json_object_del(one, later[i][1]))
				printf("# %s is missing\n", later[i][1]);
	img = gck_image_from_json(j, &err);
	ok(img && !img->files[0].npackets && !img->objects[0].mtime_ns,
	   "an image without members that came later: %s", err.text);
	gck_image_free(img);
	json_decref(j);
}

static json_t *random_value(void)
{
	static const char *const texts[] = {"", "0", "ffffffffffffffff", "zz", "/", "00", "-1",
		"000000000014000000000000000100000000"};

	switch (number() % 9) {
	case 0:
		return json_null();
	case 1:
		return json_integer((json_int_t)number());
	case 2:
		return json_integer((json_int_t)(number() % 5) - 2);
	case 3:
		return json_string(texts[number() % 8]);
	case 4:
		return json_array();
	case 5:
		return json_object();
	case 6:
		return json_true();
	case 7:
		return json_real(1e300);
	default:
		return json_pack("{s:s}", "bytes", texts[number() % 8]);
	}
}

/* Change one value somewhere below j. */
static void mutate(json_t *j)
{
	size_t n = json_is_array(j) ? json_array_size(j) : json_object_size(j), pick;
	json_t *child;
	void *at;

	if (!n)
		return;
	pick = number() % n;
	if (json_is_array(j)) {
		child = json_array_get(j, pick);
		if (number() % 8 == 0)
			json_array_remove(j, pick);
		else if (number() % 8 == 0)
			json_array_append(j, child);
		else if (json_is_object(child) || json_is_array(child))
			mutate(child);
		return;
	}
	for (at = json_object_iter(j); pick--; )
		at = json_object_iter_next(j, at);
	child = json_object_iter_value(at);
	if ((json_is_object(child) || json_is_array(child)) && number() % 8)
		mutate(child);
	else if (number() % 8 == 0)
		json_object_del(j, json_object_iter_key(at));
	else
		json_object_iter_set_new(j, at, random_value());
}

static void test_mutations(unsigned rounds)
{
	unsigned taken = 0;

	for (unsigned i = 0; i < rounds; i++) {
		json_t *j = make_manifest();
		struct gck_error err = {0};
		struct gck_image *img;

		for (uint64_t k = number() % 3 + 1; k--; )
			mutate(json_object_get(j, number() % 16 ? "image" : "store"));
		img = gck_image_from_json(j, &err);
		taken += img != NULL;
		if (!img && !err.code)
			abort();
		gck_image_free(img);
		json_decref(j);
	}
	ok(taken < rounds, "%u damaged manifests: %u were harmless, the rest refused", rounds,
	   taken);
}

int main(int argc, char **argv)
{
	if (argc > 1)
		seed = strtoull(argv[1], NULL, 0) | 1;
	test_round_trip();
	test_keys();
	test_many();
	test_relations();
	test_later();
	test_mutations(argc > 2 ? (unsigned)atoi(argv[2]) : 2000);
	return tap_done();
}
