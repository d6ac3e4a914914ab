/* SPDX-License-Identifier: Apache-2.0
 * Paths below /proc that name a process or thread by its number: /proc/PID and /proc/PID/task/TID,
 * by the numbers that the program knows; and such numbers as the program reads them there. */
#include "config.h"

#include <string.h>

#include "shim/preload/pid/pid.h"
#include "shim/preload/pid/virtual_ids.h"

static const char proc[] = "/proc/";

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The number that is the whole component, and the component's end; 0: it is none. */
static int32_t read_number(const char *at, const char **end)
{
	int64_t n = 0;

	for (*end = at; is_digit(**end) && *end - at < GCK_DIGITS_MAX; (*end)++)
		n = n * 10 + (**end - '0');
	return n > INT32_MAX || (**end && **end != '/') ? 0 : (int32_t)n;
}

size_t gck_write_digits(char digits[GCK_DIGITS_MAX], uint32_t number, char **begin)
{
	char *end = digits + GCK_DIGITS_MAX;

	*begin = end;
	do
		*--*begin = (char)('0' + number % 10);
	while (number /= 10);
	return (size_t)(end - *begin);
}

long gck_read_fd_link(int fd, char *target, size_t size)
{
	char link[sizeof "/proc/self/fd/" + GCK_DIGITS_MAX] = "/proc/self/fd/";
	char space[GCK_DIGITS_MAX], *digits;
	size_t n = gck_write_digits(space, (uint32_t)fd, &digits);

	memcpy(link + sizeof "/proc/self/fd/" - 1, digits, n);
	return gck_raw(SYS_readlink, link, target, size);
}

/* ---- translation --------------------------------------------------------------------------- */

struct text {
	char *at;
	size_t left; /* without the NUL */
};

static void put(struct text *t, const char *from, size_t n)
{
	n = n < t->left ? n : t->left;
	memcpy(t->at, from, n);
	t->at += n;
	t->left -= n;
}

static void put_number(struct text *t, uint32_t number)
{
	char digits[GCK_DIGITS_MAX], *begin;
	size_t n = gck_write_digits(digits, number, &begin);

	put(t, begin, n);
}

/* Append the component at `at`: a number as it is in the other world. Returns its end. */
static const char *put_component(struct text *t, const char *at, int32_t (*other)(int32_t))
{
	const char *end;
	int32_t n = read_number(at, &end);

	if (n) {
		put_number(t, (uint32_t)other(n));
		return end;
	}
	end = at + strcspn(at, "/");
	put(t, at, (size_t)(end - at));
	return end;
}

/* Append "PID", "PID/…", "PID/task/TID/…" or any other path. */
static void put_path(struct text *t, const char *path, int32_t (*other)(int32_t))
{
	static const char task[] = "/task/";

	path = put_component(t, path, other);
	if (!strncmp(path, task, sizeof task - 1)) {
		put(t, task, sizeof task - 1);
		path = put_component(t, path + sizeof task - 1, other);
	}
	put(t, path, strlen(path));
}

/* What follows "/proc/"; NULL: it is another path. */
static const char *below_proc(const char *path)
{
	bool is = gck_is_memory(path, sizeof proc) && !strncmp(path, proc, sizeof proc - 1);

	return is ? path + sizeof proc - 1 : NULL;
}

bool gck_path_is_own_link(const char *path)
{
	const char *name = below_proc(path);

	return name && (!strcmp(name, "self") || !strcmp(name, "thread-self"));
}

bool gck_path_has_number(const char *path)
{
	const char *name = below_proc(path);

	return name && (is_digit(*name) || !strncmp(name, "self/task/", 10) ||
			gck_path_is_own_link(path));
}

const char *gck_path_to_kernel(const char *path, char space[GCK_PROC_PATH])
{
	struct text t = { .at = space, .left = GCK_PROC_PATH - 1 };

	if (!gck_path_has_number(path))
		return path;
	put(&t, proc, sizeof proc - 1);
	put_path(&t, path + sizeof proc - 1, gck_id_to_kernel);
	*t.at = '\0';
	return t.left ? space : path;
}

long gck_link_to_program(const char *from, char *target, size_t size)
{
	struct text t = { .at = target, .left = size };

	put_path(&t, from, gck_id_to_program);
	return t.at - target;
}

/* ---- directories --------------------------------------------------------------------------- */

static bool lists_numbers(int fd)
{
	char name[sizeof "/proc/self/fd/" + GCK_DIGITS_MAX], target[64];
	struct text t = { .at = name, .left = sizeof name - 1 };
	long n;

	put(&t, "/proc/self/fd/", sizeof "/proc/self/fd/" - 1);
	put_number(&t, (uint32_t)fd);
	*t.at = '\0';
	n = gck_raw(SYS_readlink, name, target, sizeof target - 1);
	if (n < 5 || strncmp(target, "/proc", 5))
		return false;
	return n == 5 || (n > 10 && target[5] == '/' && is_digit(target[6]) &&
			  !strncmp(target + n - 5, "/task", 5));
}

int32_t gck_entry_to_program(int fd, const char *name)
{
	const char *end;
	int32_t n = read_number(name, &end), number;

	if (!n || (number = gck_id_to_program(n)) == n || !lists_numbers(fd))
		return 0;
	return number;
}
