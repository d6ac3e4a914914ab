/* SPDX-License-Identifier: Apache-2.0
 * A small image made by hand, restored into a real held process: it runs; unfit images are refused
 * by name; after a failed build the process can take another image; the process dies with its
 * restorer at any moment; and nothing outside changes before "run". */
#include "config.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/support/lineage.h"
#include "test/support/tap.h"

#define CODE 0x40000000ull
#define DATA 0x50000000ull
#define DATA_SIZE (64 * GCK_PAGE)
#define VDSO 0x7a0000000000ull
#define PAGES 2048 /* of memory that only takes time to fill */
#define MEMORY 0x60000000ull

/* The program: write the byte at DATA to descriptor 5, exit with it. The helper: wait. */
__asm__(".pushsection .rodata\n"
	"program:\n"
	"	mov $1, %eax\n"
	"	mov $5, %edi\n"
	"	mov $0x50000000, %esi\n"
	"	mov $1, %edx\n"
	"	syscall\n"
	"	movzbl (%rsi), %edi\n"
	"	mov $231, %eax\n"
	"	syscall\n"
	"helper:\n"
	"	mov $34, %eax\n"
	"	syscall\n"
	"	jmp helper\n"
	"program_end:\n"
	".popsection\n");
extern const char program[], helper[], program_end[];

static struct lineage line;
static char outside[300];
static char log_data[GCK_PAGE] = "kept, and this is cut";

static int put(struct gck_writer *w, struct gck_page_groups *list, uint64_t address,
	       const void *data, unsigned pages)
{
	struct gck_page_group x = {.address = address,
			       .mask = pages == 64 ? ~0ull : (1ull << pages) - 1};
	struct gck_error err;

	return gck_writer_put(w, data, (size_t)pages * GCK_PAGE, &x.chunk, &err) ||
	       gck_page_groups_add(list, &x, &err);
}

static struct gck_map map(uint64_t start, uint64_t size, int prot, enum gck_map_kind kind)
{
	return (struct gck_map){.start = start,
				.end = start + size,
				.prot = prot,
				.kind = kind,
				.content = -1,
				.object = -1,
				.name = strdup("made")};
}

/* This node's vdso, at another place. */
static void add_vdso(struct gck_image *img)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	uint64_t at = VDSO;
	char text[512];

	while (fgets(text, sizeof text, f)) {
		bool code = strstr(text, "[vdso]") != NULL;

		if ((!code && !strstr(text, "[vvar")) || sscanf(text, "%lx-%lx", &start, &end) != 2)
			continue;
		img->maps[img->nmaps++] = map(at, end - start, PROT_READ | (code ? PROT_EXEC : 0),
					      code ? GCK_MAP_VDSO : GCK_MAP_VVAR);
		at += end - start;
		if (code)
			img->vdso = gck_hash_bytes((void *)start, end - start);
	}
	fclose(f);
}

static void add_thread(struct gck_image *img)
{
	static const uint64_t enabled = 7;
	static const uint32_t mxcsr = 0x1f80;
	struct gck_thread *t = calloc(1, sizeof *t);

	t->vtid = t->rtid = img->vpid;
	strcpy(t->name, "made");
	t->xstate_size = 832;
	t->xstate = calloc(1, t->xstate_size);
	memcpy(t->xstate + 24, &mxcsr, sizeof mxcsr);
	memcpy(t->xstate + 464, &enabled, sizeof enabled);
	t->regs.rip = CODE;
	t->regs.rsp = DATA + DATA_SIZE - 64;
	t->regs.cs = 0x33;
	t->regs.ss = 0x2b;
	t->regs.eflags = 0x202;
	img->threads = t;
	img->nthreads = 1;
}

static void add_file(struct gck_image *img, const char *path, size_t size)
{
	img->files = calloc(1, sizeof *img->files);
	img->fds = calloc(1, sizeof *img->fds);
	img->files[0] = (struct gck_file){.kind = GCK_FD_FILE,
					  .flags = O_RDWR | O_APPEND,
					  .path = strdup(path),
					  .size = size,
					  .least = size,
					  .written = true,
					  .prefix = gck_hash_bytes("kept", size),
					  .object = -1};
	img->fds[0] = (struct gck_fd){.fd = 5};
	img->nfiles = img->nfds = 1;
}

static struct gck_image *base_image(void)
{
	struct gck_image *img = calloc(1, sizeof *img);

	img->vpid = 4711;
	img->exe = strdup("/bin/true");
	img->cwd = strdup("/");
	img->cpu_flags = strdup("fpu sse2");
	img->shim_state = DATA + GCK_PAGE;
	img->start_code = CODE;
	img->end_code = CODE + GCK_PAGE;
	img->start_data = img->end_data = img->start_brk = img->brk = DATA;
	img->start_stack = img->arg_start = img->arg_end = img->env_start = img->env_end = DATA;
	for (int i = 0; i < 16; i++)
		img->limits[i][0] = img->limits[i][1] = ~0ull;
	img->dumpable = 1;
	img->maps = calloc(16, sizeof *img->maps);
	img->maps[img->nmaps++] = map(CODE, GCK_PAGE, PROT_READ | PROT_EXEC, GCK_MAP_ANON);
	img->maps[img->nmaps++] = map(DATA, DATA_SIZE, PROT_READ | PROT_WRITE, GCK_MAP_ANON);
	img->maps[img->nmaps++] = map(MEMORY, PAGES * GCK_PAGE, PROT_NONE, GCK_MAP_ANON);
	add_vdso(img);
	add_thread(img);
	add_file(img, outside, 4);
	return img;
}

/* What the image's preload has. */
static uint32_t state_size = sizeof(struct gck_shim_state), state_version = GCK_LINK_VERSION;

static void fill_image(struct gck_image *img, struct gck_writer *w, char result)
{
	struct gck_shim_state *s = calloc(1, sizeof *s);
	char *data = calloc(1, DATA_SIZE), *memory = calloc(64, GCK_PAGE);

	s->magic = GCK_SHIM_MAGIC;
	s->version = state_version;
	s->size = state_size;
	s->helper_entry = CODE + (uint64_t)(helper - program);
	s->helper_stack_top = DATA + DATA_SIZE;
	data[0] = result;
	memcpy(data + GCK_PAGE, s, sizeof *s);
	memcpy(memory, program, (size_t)(program_end - program));
	put(w, &img->pages, CODE, memory, 1);
	put(w, &img->pages, DATA, data, DATA_SIZE / GCK_PAGE);
	for (unsigned i = 0; i < PAGES / 64; i++) {
		memset(memory, (int)i + result, 64 * GCK_PAGE);
		put(w, &img->pages, MEMORY + i * GCK_GROUP_BYTES, memory, 64);
	}
	free(s);
	free(data);
	free(memory);
}

/* Write an image that exits with this status, changed by `change`. Returns its manifest. */
static json_t *make(uint32_t seq, char result, void (*change)(struct gck_image *))
{
	struct gck_image *img = base_image();
	struct gck_error err = {0};
	struct gck_options o;
	struct gck_writer *w;
	char hash[GCK_HASH_TEXT], path[400];
	json_t *j;

	gck_options_init(&o);
	w = gck_writer_open(line.store, seq, "made", &o, NULL, &err);
	fill_image(img, w, result);
	if (change)
		change(img);
	if (img->files[0].whole)
		put(w, &img->files[0].data, 0, log_data, 1);
	j = gck_image_to_json(img, &err);
	if (!j || gck_writer_manifest(w, 0, j, hash, &err))
		printf("# %s\n", err.text);
	gck_writer_close(w);
	gck_image_free(img);
	json_decref(j);
	snprintf(path, sizeof path, "%s/test/1/0/%u-made/rank-0.json", line.directory, seq);
	return json_load_file(path, 0, NULL);
}

static void write_outside(const char *text)
{
	FILE *f = fopen(outside, "w");

	fputs(text, f);
	fclose(f);
}

static const char *read_outside(void)
{
	static char text[64];
	FILE *f = fopen(outside, "r");

	text[f ? fread(text, 1, sizeof text - 1, f) : 0] = '\0';
	if (f)
		fclose(f);
	return text;
}

static struct gck_restore *open_restore(json_t *j, struct gck_reader **reader,
					struct gck_error *err)
{
	struct gck_restore *r;

	*reader = gck_reader_open(line.store, j, err);
	r = *reader ? gck_restore_open(line.pid, "nowhere", err) : NULL;
	if (r && gck_restore_image(r, j, *reader, err)) {
		gck_restore_close(r);
		r = NULL;
	}
	return r;
}

static void finish(struct gck_restore *r, struct gck_reader *reader, json_t *j)
{
	gck_restore_close(r);
	if (reader)
		gck_reader_close(reader);
	json_decref(j);
	close(line.link);
	line.link = -1;
}

static void test_runs(void)
{
	json_t *j = make(1, 'a', NULL);
	struct gck_error err = {0};
	struct gck_reader *reader;
	struct gck_restore *r;

	write_outside("kept, and this is cut");
	lineage_hold(&line);
	r = open_restore(j, &reader, &err);
	if (!ok(r && !gck_restore_build(r, NULL, NULL, &err), "an image by hand is built"))
		printf("# %s\n", err.text);
	is_str(read_outside(), "kept, and this is cut", "nothing outside the process changes");
	ok(gck_restore_run(r, &err) == -1, "it does not run before gck_restore_run");
	if (!ok(!gck_restore_files(r, &err), "files are cut back"))
		printf("# %s\n", err.text);
	is_str(read_outside(), "kept", "the log is cut to its size");
	if (!ok(!gck_restore_reopen(r, &err) && !gck_restore_run(r, &err), "it runs"))
		printf("# %s\n", err.text);
	finish(r, reader, j);
	is_int(lineage_wait(&line), 'a', "it exits as its image says");
	is_str(read_outside(), "kepta", "and has appended");
	strcat(outside, ".gpuckpt-cut-1");
	is_str(read_outside(), ", and this is cut", "the cut part is saved beside");
	unlink(outside);
	*strstr(outside, ".gpuckpt-cut-1") = '\0';
}

static off_t cut_by_other; /* when we read at this offset, another rank cuts the log to 4 bytes */

/* Replaces libc's: the library calls this one. */
ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
	if (cut_by_other && offset == cut_by_other && !truncate(outside, 4))
		cut_by_other = 0;
	return syscall(SYS_pread64, fd, data, size, offset);
}

static bool full; /* as is the file system, once it was asked */

int fallocate(int fd, int mode, off_t offset, off_t size)
{
	if (full)
		return errno = ENOSPC, -1;
	return (int)syscall(SYS_fallocate, fd, mode, offset, size);
}

/* The log had 4 bytes when this rank was taken, and this size when its worker checked again. The
 * image has its content if it is short. */
static uint64_t log_size;
static bool log_short;

static void has_log(struct gck_image *img)
{
	img->files[0].size = log_size;
	img->files[0].prefix = gck_hash_bytes(log_data, log_size);
	img->files[0].whole = log_short;
	img->files[0].data_size = log_short ? log_size : 0;
}

/* One rank's part of a restart, up to the point where it would run. */
static void cut_log(uint32_t seq, uint64_t size)
{
	struct gck_error err = {0};
	struct gck_reader *reader;
	struct gck_restore *r;
	json_t *j;

	log_size = size;
	j = make(seq, 's', has_log);
	lineage_hold(&line);
	r = open_restore(j, &reader, &err);
	ok(r && !gck_restore_build(r, NULL, NULL, &err) && !gck_restore_files(r, &err),
	   "a %s log that had %u bytes is put back (%s)", log_short ? "short" : "long",
	   (unsigned)size, err.text);
	finish(r, reader, j); /* also ends the rank */
	line.pid = 0;
}

/* The part saved beside the log under that number, "" if none. It is removed. */
static const char *take_beside(int number)
{
	static char found[64];
	size_t length = strlen(outside);

	snprintf(outside + length, sizeof outside - length, ".gpuckpt-cut-%d", number);
	snprintf(found, sizeof found, "%s", read_outside());
	unlink(outside);
	outside[length] = '\0';
	return found;
}

/* Two ranks append to one log. The second one's worker checked it after the first rank had gone on,
 * and found "kept, and ", where the checkpoint has "kept". */
static void test_shared_log(uint32_t seq)
{
	write_outside(log_data);
	cut_log(seq, 4);
	cut_log(seq + 1, 10);
	is_str(read_outside(), "kept",
	       "cut by the first, then the second: it is as at the checkpoint");
	is_str(take_beside(1), ", and this is cut", "the cut part is saved");
	is_str(take_beside(2), "", "only once");

	write_outside(log_data);
	cut_log(seq + 2, 10);
	cut_log(seq + 3, 4);
	is_str(read_outside(), "kept",
	       "cut by the second, then the first: it is as at the checkpoint");
	is_str(take_beside(1), "this is cut", "the cut part is saved");
	is_str(take_beside(2), ", and ", "in two parts");

	write_outside(log_data);
	cut_by_other = 10;
	cut_log(seq + 4, 10);
	is_int(cut_by_other, 0, "the first cuts it while the second compares");
	is_str(read_outside(), "kept", "it is as at the checkpoint");
	is_str(take_beside(1), "", "what the other has saved is not saved again");
}

/* A log that has since been removed, cut, or replaced. */
static void test_other_log(void)
{
	log_short = true;
	unlink(outside);
	cut_log(70, 10);
	is_str(read_outside(), "kept, and ", "a missing log is made again");
	write_outside("ke");
	cut_log(73, 10);
	is_str(read_outside(), "kept, and ",
	       "a log that is shorter than it ever was is as at the checkpoint");
	is_str(take_beside(1), "", "nothing is saved");
	write_outside("another one, longer");
	cut_log(71, 10);
	is_str(read_outside(), "kept, and ", "another file in its place is replaced by the log");
	is_str(take_beside(1), "another one, longer", "the whole other file is saved");
	write_outside("short");
	cut_log(72, 10);
	is_str(read_outside(), "kept, and ", "also if the other file is shorter");
	is_str(take_beside(1), "short", "which is saved");
}

/* Other ranks have taken the space since the build asked for it. */
static void test_full(const char *what)
{
	struct gck_error err = {0};
	struct gck_reader *reader;
	struct gck_restore *r;
	json_t *j;

	log_size = 10;
	full = true;
	j = make(74, 's', has_log);
	lineage_hold(&line);
	r = open_restore(j, &reader, &err);
	ok(r && !gck_restore_build(r, NULL, NULL, &err), "%s: there is space at the build", what);
	ok(r && gck_restore_files(r, &err), "%s: not later: it fails", what);
	ok(strstr(err.text, outside) && strstr(err.text, "no space for the 10 bytes"),
	   "%s: %s", what, err.text);
	full = false;
	finish(r, reader, j);
	line.pid = 0;
}

static void test_no_space(void)
{
	write_outside("ke");
	test_full("a log that is shorter");
	is_str(read_outside(), "ke", "it is as it was");
	write_outside("another one, longer");
	test_full("another file in its place");
	is_str(read_outside(), "another one, longer", "it is as it was");
	is_str(take_beside(1), "", "and has no copy");
	unlink(outside);
	test_full("a missing log");
	ok(access(outside, F_OK), "it is not there");
}

static void lacks_cpu(struct gck_image *img)
{
	free(img->cpu_flags);
	img->cpu_flags = strdup("fpu avx9000 sse2");
}

static void lacks_registers(struct gck_image *img)
{
	static const uint64_t used = 1ull << 40;

	memcpy(img->threads[0].xstate + 512, &used, sizeof used);
}

static void lacks_vdso(struct gck_image *img)
{
	img->vdso.lo++;
}

static void lacks_file(struct gck_image *img)
{
	free(img->files[0].path);
	img->files[0].path = strdup("/nowhere/file");
}

static void lacks_length(struct gck_image *img)
{
	img->files[0].size = img->files[0].least = 1000;
}

static void lacks_prefix(struct gck_image *img)
{
	img->files[0].prefix.hi++;
}

static void lacks_directory(struct gck_image *img)
{
	free(img->cwd);
	img->cwd = strdup("/nowhere");
}

static void lacks_content(struct gck_image *img)
{
	img->contents = calloc(1, sizeof *img->contents);
	img->contents[0].path = strdup("/bin/true");
	img->contents[0].size = 1;
	img->ncontents = 1;
}

static void lacks_time(struct gck_image *img)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	img->monotonic_ns = (now.tv_sec + 100) * 1000000000ll;
}

static void lacks_input(struct gck_image *img)
{
	img->files[0].kind = GCK_FD_STDIO;
	img->files[0].mode = S_IFREG | 0600;
	img->files[0].flags = O_RDONLY;
	img->files[0].offset = 77;
}

static void test_refused(void)
{
	static const struct {
		void (*change)(struct gck_image *);
		const char *named;
	} cases[] = {
		{lacks_cpu, "avx9000"},        {lacks_registers, "\"made\""},
		{lacks_vdso, "vdso"},          {lacks_file, "/nowhere/file"},
		{lacks_length, "1000"},        {lacks_prefix, "outside"},
		{lacks_directory, "/nowhere"}, {lacks_content, "/bin/true"},
		{lacks_input, "77 bytes"},
		{lacks_time, "CLOCK_MONOTONIC would go back by "},
	};

	for (uint32_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		json_t *j = make(10 + i, 'r', cases[i].change);
		struct gck_error err = {0};
		struct gck_reader *reader;

		write_outside("kept");
		lineage_hold(&line);
		ok(!open_restore(j, &reader, &err) && strstr(err.text, cases[i].named),
		   "refused: %s", cases[i].named);
		printf("# %s\n", err.text);
		finish(NULL, reader, j);
		ok(!process_runs(line.pid), "and the process is killed");
		line.pid = 0;
	}
}

static void refuses_preload(uint32_t seq, const char *what)
{
	json_t *j = make(seq, 'p', NULL);
	struct gck_error err = {0};
	struct gck_reader *reader;
	struct gck_restore *r;

	write_outside("kept, and this stays");
	lineage_hold(&line);
	r = open_restore(j, &reader, &err);
	ok(r && gck_restore_build(r, NULL, NULL, &err) && err.code == ENOTSUP &&
	   strstr(err.text, "another version of gpuckpt's preload"),
	   "refused: %s: %s", what, err.text);
	finish(r, reader, j);
	is_str(read_outside(), "kept, and this stays", "and files are left as they are");
	line.pid = 0;
}

static void test_other_preload(void)
{
	state_size -= 8;
	refuses_preload(80, "a preload with less state");
	state_size += 8;
	state_version++;
	refuses_preload(81, "a preload of another version");
	state_version--;
}

static int damage_object(const char *name)
{
	char path[600];
	int fd;

	snprintf(path, sizeof path, "%s/test/1/0/30-made/%s", line.directory, name);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		return -1;
	pwrite(fd, "damage", 6, 4 << 20);
	return close(fd);
}

static void test_fallback(void)
{
	json_t *bad = make(30, 'b', NULL), *good = make(31, 'g', NULL);
	const char *object = json_string_value(
		json_array_get(json_object_get(json_object_get(bad, "store"), "objects"), 0));
	struct gck_reader *reader = NULL, *second = NULL;
	struct gck_error err = {0};
	struct gck_restore *r;

	write_outside("kept");
	is_int(damage_object(object ? strrchr(object, '/') ? strrchr(object, '/') + 1 : object
				    : ""),
	       0, "a chunk is damaged");
	lineage_hold(&line);
	r = open_restore(bad, &reader, &err);
	ok(r && gck_restore_build(r, NULL, NULL, &err) == -1, "the build fails");
	printf("# %s\n", err.text);
	second = gck_reader_open(line.store, good, &err);
	for (int i = 0; i < 3; i++) {
		if (!ok(!gck_restore_image(r, good, second, &err) &&
				!gck_restore_build(r, NULL, NULL, &err),
			"another image is built in the same process"))
			printf("# %s\n", err.text);
	}
	if (!ok(!gck_restore_files(r, &err) && !gck_restore_reopen(r, &err) &&
			!gck_restore_run(r, &err), "and runs"))
		printf("# %s\n", err.text);
	ok(gck_restore_image(r, good, second, &err) == -1, "but not twice");
	gck_reader_close(second);
	json_decref(good);
	finish(r, reader, bad);
	is_int(lineage_wait(&line), 'g', "the process can take another image");
}

/* It is to blame, not its image: another process can be built from that. */
static void test_killed(void)
{
	json_t *j = make(32, 'k', NULL);
	struct gck_reader *reader;
	struct gck_error err = {0};
	struct gck_restore *r;
	siginfo_t ended;

	lineage_hold(&line);
	r = open_restore(j, &reader, &err);
	kill(line.pid, SIGKILL);
	waitid(P_PID, (id_t)line.pid, &ended, WEXITED | WNOWAIT | __WALL);
	ok(r && gck_restore_build(r, NULL, NULL, &err) == -1 && err.code == ESRCH,
	   "a process is killed before it is built: %s", err.text);
	finish(r, reader, j);
	lineage_wait(&line);
}

static int die_at(void *arg, uint64_t done, uint64_t all)
{
	(void)all;
	if (done >= *(uint64_t *)arg)
		raise(SIGKILL);
	return 0;
}

/* Kill a restorer at some byte, or after some microseconds. */
static void test_death(uint64_t at, unsigned us)
{
	json_t *j = make(40, 'd', NULL);
	struct gck_error err = {0};
	struct gck_reader *reader;
	int status;
	pid_t tracer;

	write_outside("kept, and more");
	lineage_hold(&line);
	tracer = fork();
	if (tracer == 0) {
		struct gck_restore *r = open_restore(j, &reader, &err);

		if (r && !gck_restore_build(r, at ? die_at : NULL, &at, &err))
			raise(SIGKILL);
		_exit(1);
	}
	if (us) {
		usleep(us);
		kill(tracer, SIGKILL);
	}
	waitpid(tracer, &status, 0);
	ok(WIFSIGNALED(status), "the restorer is killed (%s %u)", us ? "us" : "byte",
	   us ? us : (unsigned)at);
	close(line.link);
	line.link = -1;
	status = lineage_wait(&line);
	/* or it was not traced yet, and exits in its constructor when the link ends */
	ok(status == 256 + SIGKILL || (us && status == 1), "its process dies (%d)", status);
	is_str(read_outside(), "kept, and more", "nothing outside the process changed");
	json_decref(j);
}

int main(void)
{
	char program_path[] = "/bin/true", *argv[] = {program_path, NULL};

	if (lineage_begin(&line, "/tmp", argv))
		return 1;
	snprintf(outside, sizeof outside, "%s/outside", line.directory);
	test_runs();
	test_shared_log(50);
	log_short = true;
	test_shared_log(60);
	test_other_log();
	test_no_space();
	test_refused();
	test_other_preload();
	test_fallback();
	test_killed();
	for (uint64_t at = 1; at < PAGES * 4096ull + 4096 * 66; at += 1 << 20)
		test_death(at, 0);
	for (unsigned us = 100; us < 20000; us = us * 3 / 2)
		test_death(0, us);
	lineage_end(&line);
	return tap_done();
}
