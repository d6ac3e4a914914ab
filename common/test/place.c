/* SPDX-License-Identifier: Apache-2.0
 * Paths in which another user may have put a link or a file: which are followed, and what is found
 * to be another file. */
#define _GNU_SOURCE
#include "common/place/place.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/place/owner.h"

#include "test/support/tap.h"

#define OTHER 65534

static char folder[] = "/tmp/gck-place-XXXXXX";

static const char *at(const char *name)
{
	static char path[300];

	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static void put(const char *name, const char *text)
{
	FILE *f = fopen(at(name), "we");

	must(f ? fputs(text, f) : -1);
	must(fclose(f));
}

static void directory(const char *name, mode_t mode)
{
	must(mkdir(at(name), 0700));
	must(chmod(at(name), mode));
}

static void link_to(const char *target, const char *name)
{
	must(symlink(target, at(name)));
}

static void move(const char *from, const char *to)
{
	char path[300];

	snprintf(path, sizeof path, "%s", at(from));
	must(rename(path, at(to)));
}

/* 0: it is there; else errno. */
static int look(const char *name, const struct gck_place_file *was)
{
	struct stat st;

	return gck_place_stat(at(name), was, &st) ? errno : 0;
}

static void test_links(void)
{
	directory("own", 0755);
	directory("own/sub", 0755);
	directory("open", 0777);
	directory("open/sub", 0755);
	directory("sticky", 01777);
	put("own/sub/f", "precious");
	put("open/sub/f", "state");
	link_to("own", "absolute");
	link_to("sub", "own/link");
	link_to("../own/sub", "open/link");
	link_to("../own/sub/f", "sticky/link");
	link_to("../../own/sub", "open/sub/link");
	link_to("../own/nowhere", "sticky/dangling");
	link_to("loop", "own/loop");
	link_to("sub/nowhere", "own/dangling");
	is_int(look("own/sub/f", NULL), 0, "a path without a link");
	is_int(look("own//./sub/../sub/f", NULL), 0, "the same with dots");
	is_int(look("absolute/link/f", NULL), 0, "links where nobody else can put one");
	is_int(look("open/sub/f", NULL), 0, "a file in a directory that others may write");
	is_int(look("open/link/f", NULL), ELOOP, "a link in such a directory");
	is_int(look("sticky/link", NULL), ELOOP, "a link in one with a sticky bit");
	is_int(look("open/sub/link/f", NULL), ELOOP, "a link below such a directory");
	is_int(look("own/loop", NULL), ELOOP, "a link to itself");
	is_int(look("own/nowhere", NULL), ENOENT, "a missing file");
	is_int(look("own/dangling", NULL), ENOENT, "a link to a missing file");
	is_int(look("own/nowhere/f", NULL), ENOENT, "a missing directory");
	is_int(look("own/sub/f/g", NULL), ENOTDIR, "a file in the place of a directory");
}

static void test_make(void)
{
	int fd = gck_place_make(at("own/new"), O_WRONLY, 0600);

	ok(fd >= 0, "a file is made");
	ok(gck_place_make(at("own/new"), O_WRONLY, 0600) < 0 && errno == EEXIST, "only once");
	ok(gck_place_make(at("sticky/dangling"), O_WRONLY, 0600) < 0 && errno == ELOOP,
	   "not through a link that another user may have put there");
	move("own/new", "open/old");
	put("own/new", "precious");
	gck_place_remove(at("own/new"), fd);
	is_int(look("own/new", NULL), 0, "another file of that name is not removed");
	gck_place_remove(at("open/old"), fd);
	is_int(look("open/old", NULL), ENOENT, "the file itself is");
	close(fd);
}

static struct gck_place_file identity(const char *name)
{
	struct stat st = {0};

	must(stat(at(name), &st));
	return (struct gck_place_file){st.st_ino, st.st_uid};
}

/* 0 or 1: *another; -1: refused. */
static int another(const char *name, const struct gck_place_file *was)
{
	bool differs = false;
	int fd = gck_place_open(at(name), was, &differs);

	if (fd < 0)
		return -1;
	close(fd);
	return differs;
}

static void test_identity(void)
{
	struct gck_place_file was = identity("open/sub/f"), own = identity("own/sub/f");

	if (!geteuid()) {
		skip("files of other owners", "root is trusted, and its files have no owner");
		return;
	}
	is_int(another("open/sub/f", &was), 0, "the same file");
	move("open/sub/f", "open/sub/g");
	put("open/sub/f", "state");
	is_int(another("open/sub/f", &was), 1, "another one, where others may have put it");
	is_int(another("open/sub/f", &(struct gck_place_file){0}), 0, "it is not known which");
	put("own/sub/g", "state");
	move("own/sub/g", "own/sub/f");
	is_int(another("own/sub/f", &own), 0, "another one, where nobody else can put one");
}

static void test_other_user(void)
{
	struct gck_place_file was;

	if (geteuid()) {
		skip("another user's file", "needs root");
		return;
	}
	put("sticky/f", "state");
	must(chmod(folder, 0755));
	must(chown(at("sticky/f"), OTHER, OTHER));
	must(seteuid(1));
	was = (struct gck_place_file){1, 1};
	is_int(look("sticky/f", NULL), 0, "another user's file, of which nothing is known");
	is_int(look("sticky/f", &was), ENOTUNIQ, "another user's file in a sticky directory");
	is_int(another("sticky/f", &was), -1, "it is not opened");
	was.owner = OTHER;
	is_int(another("sticky/f", &was), 1, "the owner's it was");
	must(seteuid(0));
}

/* A process outside a user namespace says who owns a file, as long as somebody may ask. */
static void test_owner(void)
{
	struct stat st = {.st_uid = 0};
	int ends[2], status = -1;
	pid_t pid;

	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	pid = fork();
	if (!pid) {
		close(ends[0]);
		alarm(20);
		errno = EINTR; /* of an earlier call */
		gck_owner_serve(ends[1]);
		_exit(0);
	}
	close(ends[1]);
	gck_owner_ask(ends[0]);
	put("of-other", "");
	if (!geteuid()) {
		must(chown(at("of-other"), OTHER, OTHER));
		must(gck_owner_fstatat(AT_FDCWD, at("of-other"), &st, 0));
		is_int(st.st_uid, OTHER, "the owner that is told");
	} else {
		skip("the owner that is told", "only root may give a file away");
	}
	gck_owner_ask(-1);
	close(ends[0]);
	must(waitpid(pid, &status, 0) == pid ? 0 : -1);
	is_int(status, 0, "it ends when nobody may ask any more");
}

int main(void)
{
	char command[100];

	umask(0022);
	if (!mkdtemp(folder))
		return 1;
	test_links();
	test_make();
	test_identity();
	test_other_user();
	test_owner();
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command) ? 1 : tap_done();
}
