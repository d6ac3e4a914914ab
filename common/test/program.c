/* SPDX-License-Identifier: Apache-2.0 */
#include "common/program/program.h"

#include <elf.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test/support/elf_file.h"
#include "test/support/tap.h"

static char directory[] = "/tmp/gpuckpt-files-XXXXXX";

static const char *path_of(const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", directory, name);
	return path;
}

static void put(const char *name, const void *data, size_t size, mode_t mode)
{
	FILE *f = fopen(path_of(name), "w");

	if (!f || fwrite(data, 1, size, f) != size || fclose(f) || chmod(path_of(name), mode))
		exit(99);
}

static void put_elf(const char *name, const char *loader, mode_t mode)
{
	elf_file(path_of(name), loader, mode);
}

static void put_script(const char *name, const char *begin, const char *interpreter)
{
	char text[PATH_MAX + 64];

	snprintf(text, sizeof text, "#!%s%s/%s -x\necho\n", begin, directory, interpreter);
	put(name, text, strlen(text), 0755);
}

static bool takes_none(const char *name)
{
	return gck_program_file_takes_no_preload(path_of(name));
}

static void test_files(void)
{
	put_elf("glibc", "/lib64/ld-linux-x86-64.so.2", 0755);
	put_elf("static", NULL, 0755);
	put_elf("musl", "/lib/ld-musl-x86_64.so.1", 0755);
	put_elf("set-uid", NULL, 04755);
	put_elf("plain", NULL, 0644);
	put("text", "echo\n", 5, 0755);
	put("torn", ELFMAG "\2", 5, 0755);
	put("empty", "", 0, 0755);
	ok(!takes_none("glibc"), "a program with glibc's loader takes the preload");
	ok(takes_none("static"), "a static one does not");
	ok(takes_none("musl"), "nor one of musl");
	ok(!takes_none("set-uid"), "a set-uid one is left alone");
	ok(!takes_none("text") && !takes_none("torn") && !takes_none("empty"),
	   "so is what is no program");
	ok(!takes_none("plain"), "a file that cannot be executed");
	ok(!takes_none("none") && !takes_none("."), "and what is no file");
}

static void test_scripts(void)
{
	put_script("of-static", "", "static");
	put_script("of-script", " \t", "of-static");
	put_script("of-glibc", "", "glibc");
	put_script("itself", "", "itself");
	put("cut", "#!/bin/sh", 9, 0755);
	put("none", "#! \n", 4, 0755);
	ok(takes_none("of-static"), "a script whose interpreter is static");
	ok(takes_none("of-script"), "one whose interpreter is such a script");
	ok(!takes_none("of-glibc"), "a script whose interpreter is glibc's");
	ok(!takes_none("itself"), "a script that is its own interpreter");
	ok(!takes_none("cut") && !takes_none("none"), "a script without an interpreter");
}

static void test_find(void)
{
	char list[PATH_MAX], found[PATH_MAX] = "", want[PATH_MAX], too_small[8];

	snprintf(list, sizeof list, "/nonexistent::%s:/bin", directory);
	snprintf(want, sizeof want, "%s", path_of("static"));
	ok(!gck_program_find("static", list, found, sizeof found), "a program is found in PATH");
	is_str(found, want, "at its path");
	ok(gck_program_find("plain", list, found, sizeof found) < 0,
	   "a file that cannot be executed is not");
	ok(gck_program_find("static", "/bin", found, sizeof found) < 0, "nor one of elsewhere");
	ok(gck_program_find("static", NULL, found, sizeof found) < 0, "nor any without PATH");
	ok(gck_program_find("static", list, too_small, sizeof too_small) < 0,
	   "nor one whose path is too long");
	ok(!gck_program_find("./a", NULL, found, sizeof found), "a name with a slash is a path");
	is_str(found, "./a", "as it is");
}

int main(void)
{
	char command[64];

	if (!mkdtemp(directory))
		return 99;
	test_files();
	test_scripts();
	test_find();
	snprintf(command, sizeof command, "rm -rf %s", directory);
	return system(command) ? 1 : tap_done();
}
