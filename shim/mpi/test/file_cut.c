// SPDX-License-Identifier: Apache-2.0
/* Cutting a file back after a restart: what is cut is kept beside it. */
#include "shim/mpi/file/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/support/tap.h"

static char folder[] = "/tmp/gck-file-cut-XXXXXX", path[64], first[80], second[80];

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
	ok(!truncate(path, 300 << 20), "a file with a hole of 300 MiB");
	is_int(gck_mpi_file_cut(path, 1 << 20, &err), 0, "is cut");
	is_int(stat(path, &st) ? -1 : st.st_size, 1 << 20, "to its size");
	is_int(stat(first, &st) ? -1 : st.st_size, 299 << 20, "and all of the rest kept");
	unlink(first);
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
	is_int(gck_mpi_file_cut(path, 10, &err), 0, "a file as it was");
	ok(access(first, F_OK) != 0, "nothing is kept");
	is_int(gck_mpi_file_cut(path, 6, &err), 0, "a file that has grown");
	is_str(get(path), "012345", "is cut back");
	is_str(get(first), "6789", "and the rest kept");
	is_int(gck_mpi_file_cut(path, 2, &err), 0, "and again");
	is_str(get(second), "2345", "beside the first");
	is_str(get(first), "6789", "which stays");
	is_int(gck_mpi_file_cut(path, 3, &err), -1, "a file that has shrunk");
	ok(strstr(err.text, "has 2 bytes, but had 3 at the checkpoint") != NULL, "is named: %s",
	   err.text);
	unlink(path);
	unlink(first);
	unlink(second);
	is_int(gck_mpi_file_cut(path, 0, &err), -1, "a file that is gone");
	ok(strstr(err.text, path) != NULL, "is named: %s", err.text);
	test_big();
	unlink(path);
	rmdir(folder);
	return tap_done();
}
