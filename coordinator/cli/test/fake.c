/* SPDX-License-Identifier: Apache-2.0
 * fake DIRECTORY: a coordinator for the tests of gpuckpt. It writes DIRECTORY/conf, then answers
 * the requests {"op": OP} of each connection with the messages (an array) in DIRECTORY/OP.FROM.json
 * if it has a "from", in DIRECTORY/OP.JOB.json if that is there, or else in DIRECTORY/OP.json, and
 * appends the request to DIRECTORY/requests. It ends with its parent or at SIGTERM; 77: munge is
 * missing. */
#include "config.h"

#include <arpa/inet.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/wire/wire.h"
#include "test/support/munged.h"

static const char *dir, *munge;
static volatile sig_atomic_t stop;

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

static int listen_any(unsigned *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&a, size) < 0 || listen(fd, 8) < 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &size) < 0)
		return -1;
	*port = ntohs(a.sin_port);
	return fd;
}

static int write_conf(unsigned port)
{
	char path[2][4096];
	FILE *f;

	snprintf(path[0], sizeof path[0], "%s/conf.new", dir);
	snprintf(path[1], sizeof path[1], "%s/conf", dir);
	f = fopen(path[0], "w");
	if (!f)
		return -1;
	fprintf(f, "ClusterName=test\nCoordinatorHost=127.0.0.1\nCoordinatorPort=%u\n"
		"CoordinatorUser=%s\nMungeSocket=%s\n", port, getpwuid(geteuid())->pw_name, munge);
	return fclose(f) || rename(path[0], path[1]);
}

static void note(const json_t *request)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof path, "%s/requests", dir);
	f = fopen(path, "a");
	if (!f)
		return;
	json_dumpf(request, f, JSON_COMPACT | JSON_SORT_KEYS);
	fputc('\n', f);
	fclose(f);
}

/* The messages of the file for this number of the request, or NULL. */
static json_t *load(const char *op, const json_t *number)
{
	char path[4096];

	if (!number)
		return NULL;
	snprintf(path, sizeof path, "%s/%s.%" JSON_INTEGER_FORMAT ".json", dir, op,
		 json_integer_value(number));
	return json_load_file(path, 0, NULL);
}

static void answer(struct gck_wire *w, const json_t *request)
{
	const char *op = json_string_value(json_object_get(request, "op"));
	json_t *messages, *m;
	char path[4096];
	size_t i;

	note(request);
	messages = load(op, json_object_get(request, "from"));
	if (!messages)
		messages = load(op, json_object_get(request, "job"));
	snprintf(path, sizeof path, "%s/%s.json", dir, op);
	if (!messages)
		messages = json_load_file(path, 0, NULL);
	json_array_foreach(messages, i, m)
		if (gck_wire_put(w, m, 5000, NULL))
			break; /* the client is gone */
	json_decref(messages);
}

static _Noreturn void serve_one(int fd)
{
	struct gck_wire *w = gck_wire_server(fd, munge, NULL);
	json_t *request;

	if (!w || gck_wire_flush(w, NULL) < 0)
		_exit(1);
	while ((request = gck_wire_get(w, 5000, NULL))) {
		answer(w, request);
		json_decref(request);
	}
	_exit(0);
}

static void serve(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0 && fork() == 0)
		serve_one(fd);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	struct sigaction term = { .sa_handler = on_term };
	const char *why;
	unsigned port = 0;
	int fd;

	if (argc != 2)
		return 2;
	dir = argv[1];
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	sigaction(SIGTERM, &term, NULL);
	munge = test_munged_start(&why);
	if (!munge) {
		fprintf(stderr, "fake: %s\n", why);
		return 77;
	}
	signal(SIGCHLD, SIG_IGN);
	fd = listen_any(&port);
	if (fd < 0 || write_conf(port)) {
		perror("fake");
		stop = 1;
	}
	while (!stop)
		serve(fd);
	test_munged_stop();
	return 0;
}
