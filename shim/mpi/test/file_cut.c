// SPDX-License-Identifier: Apache-2.0
/* Truncating a file after a restart: the rest goes into a file beside it. */
#include "shim/mpi/file/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/support/tap.h"

static char folder[] = "/tmp/gck-file-cut-XXXXXX", path[64], first[80], second[80];

static const struct gck_place_file was; /* unknown */

static void put(const char *text)
{
	FILE *f = fopen(path, "w");

	fputs(text, f);
	fclose(f);
}

static const char *get(const char *name)
{
	static char text[100];
	int fd = open(name, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[n < 0 ? 0 : n] = '\0';
	return n < 0 ? NULL : text;
}

static void test_big(void)
{
	struct gck_error err = {0};
	struct stat st;

	put("");
	ok(!truncate(path, 300 << 20), "a file has a hole of 300 MiB");
	is_int(gck_mpi_file_cut(path, &was, 1 << 20, &err), 0, "a file with a hole is truncated");
	is_int(stat(path, &st) ? -1 : st.st_size, 1 << 20, "a file with a hole has its old size");
	is_int(stat(first, &st) ? -1 : st.st_size, 299 << 20, "the rest with the hole is saved");
	unlink(first);
}

/* In a directory that others may write, something else has its name. */
static void test_replaced(void)
{
	struct gck_place_file file;
	struct gck_error err = {0};
	char other[80];
	struct stat st;

	put("0123");
	must(stat(path, &st));
	file = (struct gck_place_file){st.st_ino, st.st_uid ? st.st_uid : 1};
	snprintf(other, sizeof(other), "%s.other", path);
	must(chmod(folder, 0777));
	must(rename(path, other));
	must(symlink(other, path));
	is_int(gck_mpi_file_cut(path, &file, 2, &err), -1, "a link in its place is an error");
	ok(strstr(err.text, "symbolic link") != NULL, "it is reported: %s", err.text);
	is_str(get(other), "0123", "what it leads to is as it was");
	unlink(path);
	put("01234567");
	is_int(gck_mpi_file_cut(path, &file, 2, &err), -1, "another file in its place is an error");
	ok(strstr(err.text, "is another file") != NULL, "it is reported: %s", err.text);
	is_str(get(path), "01234567", "that file is as it was");
	unlink(path);
	unlink(other);
}

int main(void)
{
	struct gck_error err = {0};

	if (!mkdtemp(folder))
		return 1;
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(first, sizeof(first), "%s.gpuckpt-cut-1", path);
	snprintf(second, sizeof(second), "%s.gpuckpt-cut-2", path);
	put("0123456789");
	is_int(gck_mpi_file_cut(path, &was, 10, &err), 0, "a file of the same size is accepted");
	ok(access(first, F_OK) != 0, "nothing is saved of a file of the same size");
	is_int(gck_mpi_file_cut(path, &was, 6, &err), 0, "a file that has grown is accepted");
	is_str(get(path), "012345", "a file that has grown is truncated");
	is_str(get(first), "6789", "the rest is saved");
	is_int(gck_mpi_file_cut(path, &was, 2, &err), 0, "a file is truncated a second time");
	is_str(get(second), "2345", "the second rest has a file of its own");
	is_str(get(first), "6789", "the first rest stays");
	is_int(gck_mpi_file_cut(path, &was, 3, &err), -1, "a file that has shrunk is an error");
	ok(strstr(err.text, "has 2 bytes, but had 3 at the checkpoint") != NULL,
	   "its size is reported: %s", err.text);
	unlink(path);
	unlink(first);
	unlink(second);
	is_int(gck_mpi_file_cut(path, &was, 0, &err), -1, "a missing file is an error");
	ok(strstr(err.text, path) != NULL, "a missing file is reported: %s", err.text);
	test_big();
	unlink(path);
	test_replaced();
	unlink(path);
	rmdir(folder);
	return tap_done();
}
