/* SPDX-License-Identifier: Apache-2.0
 * The search path, over folders of the test's own. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shim/inside/path.h"
#include "test/support/tap.h"

static char top[] = "/tmp/gck-path-XXXXXX", found[PATH_MAX];

static void make(const char *folder, const char *file)
{
	char path[96];
	int fd;

	snprintf(path, sizeof path, "%s/%s", top, folder);
	mkdir(path, 0700);
	snprintf(path, sizeof path, "%s/%s/%s", top, folder, file);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	must(fd);
	close(fd);
}

/* Searches a list in which @ stands for the test's folder; the result without that, or NULL. */
static const char *search(const struct link_map *map, const char *list, const char *file,
			  gck_path_ok *accept)
{
	char text[512];
	size_t n = 0;

	for (; *list; list++) {
		int more = *list == '@' ? snprintf(text + n, sizeof text - n, "%s", top) :
					  snprintf(text + n, sizeof text - n, "%c", *list);

		n += (size_t)more;
	}
	text[n] = '\0';
	if (gck_path_search(map, text, file, found, sizeof found, accept))
		return NULL;
	return found + strlen(top);
}

static bool is_in_b(const char *path)
{
	return strstr(path, "/b/") != NULL;
}

int main(void)
{
	char name[96], longer[3 * PATH_MAX];
	struct link_map map = {.l_name = name};

	must(mkdtemp(top) ? 0 : -1);
	make("a", "libone.so");
	make("b", "libone.so");
	make("b", "libtwo.so");
	is_str(search(NULL, "@/a:@/b", "libone.so", NULL), "/a/libone.so",
	       "the first folder has it");
	is_str(search(NULL, "@/a:@/b", "libtwo.so", NULL), "/b/libtwo.so", "the second one has it");
	is_str(search(NULL, "::@/none::@/b:", "libtwo.so", NULL), "/b/libtwo.so",
	       "empty elements and folders that do not exist are skipped");
	ok(!search(NULL, "@/a:@/b:", "libthree.so", NULL), "no folder has it");
	ok(!search(NULL, "", "libone.so", NULL), "an empty list");
	is_str(search(NULL, "@/a:@/b", "libone.so", is_in_b), "/b/libone.so",
	       "a file that is not acceptable is skipped");

	snprintf(name, sizeof name, "%s/a/libone.so", top);
	is_str(search(&map, "$ORIGIN:$ORIGIN/../b", "libtwo.so", NULL), "/a/../b/libtwo.so",
	       "$ORIGIN is the object's folder");
	is_str(search(&map, "${ORIGIN}/../b", "libtwo.so", NULL), "/a/../b/libtwo.so",
	       "and so is ${ORIGIN}");
	ok(!search(NULL, "$ORIGIN/../b", "libtwo.so", NULL), "of an unknown object it is not");
	is_str(search(&map, "@/$LIB:@/b", "libtwo.so", NULL), "/b/libtwo.so",
	       "an element with $LIB is skipped");

	memset(longer, 'x', sizeof longer - 1);
	longer[sizeof longer - 1] = '\0';
	ok(gck_path_search(NULL, longer, "libone.so", found, sizeof found, NULL) < 0,
	   "a folder that is too long is skipped");
	snprintf(longer, sizeof longer, "%s/a", top);
	ok(gck_path_search(NULL, longer, "libone.so", found, 8, NULL) < 0,
	   "a result that does not fit is not given");
	for (const char *const *p = (const char *const[]){"a/libone.so", "b/libone.so",
							  "b/libtwo.so", "a", "b", "", NULL};
	     *p; p++) {
		snprintf(name, sizeof name, "%s/%s", top, *p);
		remove(name);
	}
	return tap_done();
}
