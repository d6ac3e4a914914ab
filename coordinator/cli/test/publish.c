/* SPDX-License-Identifier: Apache-2.0
 * A file gets its name on file systems without links or without RENAME_NOREPLACE, and when the
 * answer to a link was lost. It never replaces another file. */
#include "config.h"

#include "coordinator/cli/cli.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/support/tap.h"

/* ---- a file system ------------------------------------------------------------------------- */

static int no_link, no_noreplace, no_rename; /* errno values; 0: it has that */
static bool lost; /* the first answer to a link; the second one says that it is there */

static int fails(int code)
{
	errno = code;
	return -1;
}

int link(const char *from, const char *to)
{
	int rc = no_link ? fails(no_link) : linkat(AT_FDCWD, from, AT_FDCWD, to, 0);

	return lost ? fails(EEXIST) : rc;
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
	return no_noreplace ? fails(no_noreplace)
			    : (int)syscall(SYS_renameat2, a, from, b, to, flags);
}

int rename(const char *from, const char *to)
{
	return no_rename ? fails(no_rename) : renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* ---- tests --------------------------------------------------------------------------------- */

static char dir[] = "/tmp/gck-naming-XXXXXX";

static void put(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		printf("Bail out! cannot write %s\n", name);
	close(fd);
}

static bool has(const char *name, const char *text)
{
	char found[16] = "";
	int fd = open(name, O_RDONLY);
	bool same = fd >= 0 && read(fd, found, sizeof found - 1) >= 0 && !strcmp(found, text);

	if (fd >= 0)
		close(fd);
	return same;
}

static void test_on(const char *what)
{
	struct gck_error err = { 0 };

	put("file.X", "new");
	ok(all_of(give_name("file.X", "file", &err) == 0, has("file", "new")),
	   "%s: the file has its name (%s)", what, err.text);
	unlink("file.X"); /* another name of it, perhaps */
	put("file.X", "other");
	ok(all_of(give_name("file.X", "file", &err) < 0, err.code == EEXIST, has("file", "new")),
	   "%s: another file does not replace it: %s", what, err.text);
	ok(has("file.X", "other"), "%s: and still exists", what);
	unlink("file");
	unlink("file.X");
}

int main(void)
{
	static const int codes[] = { EPERM, EOPNOTSUPP, ENOSYS, EMLINK };
	struct gck_error err = { 0 };

	if (!mkdtemp(dir) || chdir(dir))
		return 99;
	test_on("links");
	lost = true;
	test_on("links, an answer is lost");
	lost = false;
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
		no_link = codes[i];
		no_noreplace = 0;
		test_on(strerror(codes[i]));
		no_noreplace = EINVAL;
		test_on("nor a rename that does not replace");
	}
	no_rename = EIO;
	put("file.X", "new");
	ok(all_of(give_name("file.X", "file", &err) < 0, err.code == EIO, access("file", F_OK) < 0),
	   "a failed rename leaves no name: %s", err.text);
	unlink("file.X");
	no_link = ENOSPC;
	ok(all_of(give_name("file.X", "file", &err) < 0, err.code == ENOSPC),
	   "other failures are reported: %s", err.text);
	rmdir(dir);
	return tap_done();
}
