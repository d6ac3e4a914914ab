/* SPDX-License-Identifier: Apache-2.0
 * Files outside a rank that others write to while it is held, and files that must be on stable
 * storage before a commit depends on them. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/process/test/capture_rank.h"
#include "test/support/tap.h"
#include "test/support/read_chunk.h"

static const char *sync_fails; /* for files whose names end so */
static int synced;             /* calls for that file */

/* Replaces libc's: the library calls this one. */
int fsync(int fd)
{
	char link[32], path[256];
	ssize_t n;
	size_t end = sync_fails ? strlen(sync_fails) : 0;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path));
	if (end && n > (ssize_t)end && !memcmp(path + n - end, sync_fails, end)) {
		synced++;
		return errno = EIO, -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

/* stat(2) reports another device for its files than /proc/PID/maps, as on btrfs. */
static dev_t subvolume;

static int look_at(int dir, const char *path, struct stat *st, int flags)
{
	int failed = (int)syscall(SYS_newfstatat, dir, path, st, flags);

	if (!failed && S_ISREG(st->st_mode) && st->st_dev == subvolume)
		st->st_dev++;
	return failed;
}

int fstatat(int dir, const char *path, struct stat *st, int flags)
{
	return look_at(dir, path, st, flags);
}

int stat(const char *path, struct stat *st)
{
	return look_at(AT_FDCWD, path, st, 0);
}

int fstat(int fd, struct stat *st)
{
	return look_at(fd, "", st, AT_EMPTY_PATH);
}

static void append(const char *name, const char *text)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", rank_directory, name);
	fd = open(path, O_WRONLY | O_APPEND);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		printf("# %s: %s\n", path, strerror(errno));
	close(fd);
}

static struct gck_capture *take(struct gck_error *err)
{
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, err);

	if (c && (gck_capture_freeze(c, err) || gck_capture_take(c, true, err))) {
		gck_capture_close(c);
		c = NULL;
	}
	if (!c)
		printf("# %s\n", err->text);
	return c;
}

static int write_image(struct gck_capture *c, uint32_t seq, struct gck_error *err)
{
	struct gck_writer *w = gck_writer_open(store, seq, "t", &options, NULL, err);
	char hash[GCK_HASH_TEXT];
	int result = w ? gck_capture_write(c, w, NULL, NULL, err) : -1;

	if (!result)
		result = gck_capture_manifest(c, w, 0, NULL, hash, err);
	if (w)
		gck_writer_close(w);
	return result;
}

static const struct gck_file *named(const struct gck_image *img, const char *end)
{
	for (size_t i = 0; img && i < img->nfiles; i++) {
		const char *path = img->files[i].path;

		if (path && strlen(path) > strlen(end) &&
		    !strcmp(path + strlen(path) - strlen(end), end))
			return &img->files[i];
	}
	return NULL;
}

/* Another rank of the step appends after this one was taken and before all are held. */
static void test_logs(void)
{
	struct gck_error err = {0};
	struct gck_capture *c;
	struct gck_image *img = NULL;
	struct gck_reader *r = NULL;
	json_t *manifest;
	const struct gck_file *f;
	char path[128], data[GCK_GROUP_BYTES];
	struct gck_chunk x;

	start();
	ok(tell("do", "append") && tell("do", "log"), "a rank with a long and a short log");
	c = take(&err);
	append("/appended", "tail");
	append("/log", "tail");
	ok(c && !gck_capture_update_files(c, &err), "files are updated after others appended (%s)",
	   err.text);
	if (c)
		gck_capture_resume(c);
	ok(c && !write_image(c, 1, &err), "written (%s)", err.text);
	gck_capture_close(c);
	snprintf(path, sizeof(path), "%s/c/1/0/1-t/rank-0.json", rank_directory);
	manifest = json_load_file(path, 0, NULL);
	img = gck_image_from_json(manifest, &err);
	r = gck_reader_open(store, manifest, &err);
	f = named(img, "/appended");
	ok(f && f->size == (20 << 20) + 4 && f->least == 20 << 20,
	   "the long log ends at the same byte for all ranks");
	f = named(img, "/log");
	ok(f && f->whole && f->size == 8 && f->data_size == 8 && f->data.rows.n == 1,
	   "so does the short one");
	if (f)
		x = gck_page_groups_at(&f->data, 0).chunk;
	ok(f && r && !read_chunk(r, &x, data, &err) && !strcmp(data, "headtail"),
	   "and its content ends there");
	if (r)
		gck_reader_close(r);
	gck_image_free(img);
	json_decref(manifest);
	is_int(stop(), 0, "the rank ends by itself");
}

static const struct gck_map *mapped(const struct gck_image *img, const char *end)
{
	for (size_t i = 0; img && i < img->nmaps; i++) {
		const char *name = img->maps[i].name;

		if (strlen(name) > strlen(end) && !strcmp(name + strlen(name) - strlen(end), end))
			return &img->maps[i];
	}
	return NULL;
}

static void test_subvolume(void)
{
	struct gck_error err = {0};
	struct gck_capture *c;
	struct gck_image *img = NULL;
	const struct gck_map *m;
	const struct gck_file *f;
	json_t *manifest;
	char path[128];
	struct stat st;

	start();
	tell("do", "shared");
	if (!stat(rank_directory, &st))
		subvolume = st.st_dev;
	c = take(&err);
	ok(c && !write_image(c, 9, &err), "files on a subvolume of btrfs are mapped shared (%s)",
	   err.text);
	gck_capture_close(c);
	subvolume = 0;
	snprintf(path, sizeof(path), "%s/c/1/0/9-t/rank-0.json", rank_directory);
	manifest = json_load_file(path, 0, NULL);
	img = gck_image_from_json(manifest, &err);
	m = mapped(img, "/shared");
	ok(m && m->kind == GCK_MAP_SHARED_FILE && img->objects[m->object].has_path &&
		   img->objects[m->object].size == 2 * GCK_PAGE,
	   "a file with a name is that file");
	m = mapped(img, "/gone (deleted)");
	f = named(img, "/gone");
	ok(m && m->kind == GCK_MAP_SHARED && f && f->kind == GCK_FD_MEMFD &&
		   f->object == m->object && img->objects[m->object].size == 2 * GCK_PAGE,
	   "a file without a name is the descriptor's");
	gck_image_free(img);
	json_decref(manifest);
	is_int(stop(), 0, "the rank ends by itself");
}

static void test_changed(void)
{
	struct gck_error err = {0};
	struct gck_capture *c;

	start();
	tell("do", "descriptors");
	c = take(&err);
	ok(c && !gck_capture_update_files(c, &err), "nothing changed: nothing to update");
	usleep(20000);
	append("/written", "more");
	ok(c && gck_capture_update_files(c, &err) && err.code == EAGAIN &&
		   strstr(err.text, "/written"),
	   "another process changes a file whose content is in the image: %s", err.text);
	gck_capture_close(c);
	is_str(rank_ask(&rank, "count"), "0", "the rank goes on");
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	ok(c && gck_capture_update_files(c, &err) && err.code == EINVAL,
	   "not before the rank is held");
	gck_capture_close(c);
	is_int(stop(), 0, "the rank ends by itself");
}

/* Files of MPI's library are its own; others are refused before anything is quiesced. */
static void test_mpi(void)
{
	struct gck_error err = {0};
	struct gck_capture *c;

	start();
	tell("do", "mpi");
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	ok(c, "a socket that the MPI library lists is not an obstacle: %s", err.text);
	gck_capture_close(c);
	tell("do", "udp");
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	ok(!c && err.code == ENOTSUP,
	   "a socket that it does not list is an obstacle, before the rank is held: %s", err.text);
	gck_capture_close(c);
	is_int(stop(), 0, "the rank ends by itself");

	start();
	tell("do", "mpi-late");
	c = gck_capture_open(rank.pid, helper_link, &hello, &options, &err);
	ok(c, "a socket that it lists a little late is waited for: %s", err.text);
	gck_capture_close(c);
	is_int(stop(), 0, "the rank ends by itself");
}

static void test_synced(const char *name)
{
	struct gck_error err = {0};
	struct gck_capture *c = take(&err);

	sync_fails = name;
	synced = 0;
	ok(c && write_image(c, 7, &err) && err.code == EIO && strstr(err.text, name),
	   "%s is flushed, and a failure fails the checkpoint: %s", name, err.text);
	is_int(synced, 1, "once");
	sync_fails = NULL;
	gck_capture_close(c);
}

static void test_sync(void)
{
	start();
	tell("do", "append");
	test_synced("/appended");
	tell("do", "read");
	test_synced("/read");
	is_int(stop(), 0, "the rank ends by itself");
}

/* Without O_APPEND a file may later be changed anywhere: its content is stored unless it is too
 * long. */
static void test_long(void)
{
	struct gck_error err = {0};
	json_t *manifest = NULL;
	struct gck_image *img;
	const struct gck_file *f;

	start();
	tell("do", "long");
	ok(!is_noted("fd", "taken for a log"), "40 MiB are not treated as a log");
	img = checkpoint(&manifest, &err);
	f = named(img, "/long");
	ok(f && f->whole && f->data_size == 40 << 20, "but stored (%s)", err.text);
	tell("do", "longer");
	ok(is_noted("fd", "/longer"), "70 MiB are treated as a log, which able reports");
	gck_image_free(img);
	json_decref(manifest);
	is_int(stop(), 0, "the rank ends by itself");
}

int main(void)
{
	tests_begin();
	test_logs();
	test_subvolume();
	test_changed();
	test_mpi();
	test_sync();
	test_long();
	tests_end();
	return tap_done();
}
