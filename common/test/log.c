/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/support/tap.h"

static void refused(const char *path, int code, const char *name)
{
	errno = 0;
	is_int(gck_log_open("test", path, GCK_LOG_INFO), -1, name);
	is_int(errno, code, "errno");
	unlink(path);
}

/* Files of other users in place of the log. */
static void test_others(const char *dir, const char *log)
{
	char path[64];

	snprintf(path, sizeof path, "%s/other", dir);
	if (symlink(log, path) == 0)
		refused(path, ELOOP, "a symbolic link");
	if (link(log, path) == 0)
		refused(path, EPERM, "a hard link");
	if (mkfifo(path, 0666) == 0)
		refused(path, ENXIO, "a FIFO without a reader, without waiting");
	if (geteuid() == 0 && mknod(path, S_IFREG | 0666, 0) == 0 && chown(path, 1, 1) == 0)
		refused(path, EPERM, "a file of another user");
}

int main(void)
{
	char dir[] = "/tmp/gck-log-XXXXXX", path[64], text[20000] = "", big[10000];
	struct stat st;
	FILE *f;

	if (!mkdtemp(dir))
		return 1;
	snprintf(path, sizeof path, "%s/log", dir);
	is_int(gck_log_open("x", "/nonexistent/log", GCK_LOG_INFO), -1,
	       "a log that cannot be opened");
	is_int(gck_log_open("test", path, GCK_LOG_INFO), 0, "a log file");
	errno = ENOSPC;
	gck_error_log("one %d", 1);
	is_int(errno, ENOSPC, "errno is unchanged");
	gck_info("two\nforged line");
	gck_debug("hidden");
	memset(big, 'x', sizeof big);
	big[sizeof big - 1] = '\0';
	gck_warn("%s", big);
	is_int(gck_log_open("test", path, GCK_LOG_INFO), 0, "opened again");
	gck_info("last");
	is_int(gck_log_open("test", "/dev/null", GCK_LOG_INFO), 0, "a device");
	gck_info("nowhere");
	f = fopen(path, "r");
	if (!f || fread(text, 1, sizeof text - 1, f) == 0)
		return 1;
	fclose(f);
	ok(all_of(strstr(text, "] error: one 1\n"), strstr(text, " test[")), "a line");
	ok(strstr(text, "] info: two?forged line\n") != NULL,
	   "a newline in a text does not begin a line");
	ok(all_of(!strstr(text, "hidden"), !strstr(text, "nowhere")),
	   "messages below the level are left out");
	ok(all_of(strstr(text, "xxx\n"), strstr(text, "] info: last\n")),
	   "a long line is cut; the next one is complete");
	stat(path, &st);
	is_int(st.st_mode & 0777, 0600, "only the owner can read it");
	test_others(dir, path);
	unlink(path);
	rmdir(dir);
	return tap_done();
}
