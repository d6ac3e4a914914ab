/* SPDX-License-Identifier: Apache-2.0
 * One rank running capture_program, and the capture tests' operations on it. */
#include "config.h"

#include "shim/process/test/capture_rank.h"
#include "storage/store/store.h"

#include <err.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

char rank_directory[] = "/tmp/gpuckpt-capture-XXXXXX";
struct agent agent = {.listener = -1};
struct rank rank;
struct gck_link_hello hello;
struct gck_options options;
struct gck_store *store;
int helper_link;
static uint32_t seq;

void start(void)
{
	char *argv[] = {(char *)GCK_TEST_PROGRAM, rank_directory, NULL};

	rank = agent_run(&agent, NULL, argv, true);
	helper_link = agent_admit(&agent, &hello);
	if (helper_link < 0 || strcmp(rank_ask(&rank, "count"), "0"))
		errx(99, "the rank does not run");
}

/* While the rank runs, its helper would connect again, and the next rank's link be behind that. */
int stop(void)
{
	int status = rank_end(&rank);

	close(helper_link);
	return status;
}

bool tell(const char *verb, const char *name)
{
	char line[80];

	snprintf(line, sizeof(line), "%s %s", verb, name);
	return !strcmp(rank_ask(&rank, line), "ok");
}

bool refuses(const char *reason)
{
	struct gck_error err = {0};
	json_t *items = gck_process_able(rank.pid, &hello, &options, &err), *item;
	const char *first = NULL;
	bool found = false;
	size_t i;

	json_array_foreach(items, i, item) {
		const char *text = json_string_value(json_object_get(item, "reason"));

		if (!json_is_true(json_object_get(item, "refuse")))
			continue;
		first = first ? first : text;
		found |= reason && strstr(text, reason);
	}
	if (!items || (reason ? !found : first != NULL))
		printf("# %s\n", !items ? err.text : first ? first : "nothing is refused");
	found = items && (reason ? found : !first);
	json_decref(items);
	return found;
}

bool is_noted(const char *object, const char *reason)
{
	json_t *items = gck_process_able(rank.pid, &hello, &options, NULL), *item;
	bool found = false;
	size_t i;

	json_array_foreach(items, i, item)
		found |= json_is_false(json_object_get(item, "refuse")) &&
			 strstr(json_string_value(json_object_get(item, "object")), object) &&
			 strstr(json_string_value(json_object_get(item, "reason")), reason);
	json_decref(items);
	return found;
}

bool named_once(void)
{
	json_t *items = gck_process_able(rank.pid, &hello, &options, NULL), *item;
	json_t *names = json_object();
	bool twice = false;
	size_t i;

	json_array_foreach(items, i, item) {
		const char *name = json_string_value(json_object_get(item, "object"));

		twice |= !strncmp(name, "fd ", 3) && json_object_get(names, name);
		json_object_set_new(names, name, json_true());
	}
	json_decref(names);
	json_decref(items);
	return !twice;
}

struct gck_image *checkpoint(json_t **manifest, struct gck_error *err)
{
	struct gck_capture *c = gck_capture_open(rank.pid, helper_link, &hello, &options, err);
	struct gck_writer *w = NULL;
	struct gck_image *img = NULL;
	char hash[GCK_HASH_TEXT];
	bool good = false;

	if (c && !gck_capture_freeze(c, err)) {
		good = !gck_capture_take(c, true, err);
		gck_capture_resume(c);
	}
	if (good)
		w = gck_writer_open(store, ++seq, "t", &options, NULL, err);
	if (w && !gck_capture_write(c, w, NULL, NULL, err) &&
	    !gck_capture_manifest(c, w, 0, NULL, hash, err)) {
		char path[128];

		snprintf(path, sizeof(path), "%s/c/1/0/%u-t/rank-0.json", rank_directory, seq);
		*manifest = json_load_file(path, 0, NULL);
		img = gck_image_from_json(*manifest, err);
	}
	if (w)
		gck_writer_close(w);
	gck_capture_close(c);
	return img;
}

bool fails(const char *reason)
{
	struct gck_error err = {0};
	json_t *manifest = NULL;
	struct gck_image *img = checkpoint(&manifest, &err);
	bool good = !img && strstr(err.text, reason);

	if (!good)
		printf("# %s\n", img ? "taken" : err.text);
	gck_image_free(img);
	json_decref(manifest);
	return good;
}

bool can_track(void)
{
	struct uffdio_api api = {.api = UFFD_API, .features = 1 << 15};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	bool has = fd >= 0 && !ioctl(fd, UFFDIO_API, &api);

	if (fd >= 0)
		close(fd);
	return has;
}

void tests_begin(void)
{
	struct gck_error err = {0};
	char url[64];

	close_range(3, ~0u, 0); /* the rank would inherit descriptors that a harness left open */
	signal(SIGPIPE, SIG_IGN);
	gck_options_init(&options);
	if (!mkdtemp(rank_directory))
		exit(99);
	snprintf(url, sizeof(url), "file:%s", rank_directory);
	store = gck_store_open(url, "c", 1, 0, true, &err);
	if (!store)
		errx(99, "no store: %s", err.text);
	agent_listen(&agent);
}

void tests_end(void)
{
	char command[64];

	gck_store_close(store);
	snprintf(command, sizeof(command), "rm -rf %s", rank_directory);
	if (system(command))
		errx(99, "%s failed", command);
}
