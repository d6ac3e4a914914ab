/* SPDX-License-Identifier: Apache-2.0
 * For the tests of s3: server.py in a process, its settings and its log, and a signer that has the
 * keys. */
#ifndef GCK_S3_TEST_SERVER_H
#define GCK_S3_TEST_SERVER_H

#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

#include "storage/s3/presign.h"
#include "storage/s3/request.h"
#include "storage/s3/signer.h"
#include "storage/store/store.h"
#include "storage/test/util.h"
#include "test/support/tap.h"

#define CLUSTER "c lu+st\xc3\xa4&<r>%2F'" /* odd on purpose */

static char dir_[ROOT_MAX];
static pid_t server_pid_;
static int server_in_ = -1;
static int port_;
static char endpoint_[64];

/* The signer's settings. */
static struct {
	struct gck_sigv4_keys keys;
	struct gck_s3_server server;
	const char *ca;
	time_t early;   /* seconds ago that URLs seem to have been made */
	unsigned stale; /* the number of next URLs that are signed an hour ago */
	int refuse;     /* an errno value */
	unsigned calls, signed_; /* of the function, and URLs */
} sign_ = {
	.keys = { "lab:AK", "se/cr+et", NULL },
	.server = { endpoint_, "eu-1", false },
};

static int sign_here(void *arg, const struct gck_sign_scope *of, const struct gck_sign_request *v,
		     size_t n, char **urls, time_t *expires, char **ca, struct gck_error *err)
{
	time_t now = time(NULL) - sign_.early;

	(void)arg;
	sign_.calls++;
	if (sign_.refuse)
		return gck_fail(err, sign_.refuse, "job %u is somebody else's", of->job);
	for (size_t i = 0; i < n; i++) {
		bool stale = sign_.stale > 0;

		if (gck_s3_presign(&sign_.server, &sign_.keys, of, &v[i], now - (stale ? 3600 : 0),
				   600, &urls[i], err) < 0) {
			while (i > 0)
				free(urls[--i]);
			return -1;
		}
		sign_.stale -= stale;
		sign_.signed_++;
	}
	*expires = now + 600;
	*ca = sign_.ca ? strdup(sign_.ca) : NULL;
	return 0;
}

__attribute__((format(printf, 2, 3))) static void write_file(const char *name, const char *fmt, ...)
{
	char path[ROOT_MAX + 16];
	va_list ap;
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", dir_, name);
	f = fopen(path, "w");
	if (!f) {
		perror(path);
		exit(99);
	}
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	fclose(f);
}

/* Reset faults, options and log. */
__attribute__((unused)) static void calm(void)
{
	write_file("options", "%s", "");
	write_file("script", "%s", "");
	write_file("log", "%s", "");
	sign_.calls = sign_.signed_ = 0;
}

/* Lines of the server's log that the extended regex is found in. */
__attribute__((unused)) static int logged(const char *regex)
{
	char path[ROOT_MAX + 16], line[8192];
	regex_t re;
	FILE *f;
	int n = 0;

	snprintf(path, sizeof path, "%s/log", dir_);
	f = fopen(path, "r");
	if (!f || regcomp(&re, regex, REG_EXTENDED | REG_NOSUB))
		exit(99);
	while (fgets(line, sizeof line, f))
		n += regexec(&re, line, 0, NULL, 0) == 0;
	fclose(f);
	regfree(&re);
	return n;
}

/* Wait for the port that the server writes; 0: the server died. */
static int wait_for_port(void)
{
	char path[ROOT_MAX + 16];
	int port = 0;

	snprintf(path, sizeof path, "%s/port", dir_);
	while (!port && waitpid(server_pid_, NULL, WNOHANG) == 0) {
		FILE *f = fopen(path, "r");

		if (f) {
			if (fscanf(f, "%d", &port) != 1)
				port = 0;
			fclose(f);
		}
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
	return port;
}

static void name_server(const char *host, bool tls)
{
	snprintf(endpoint_, sizeof endpoint_, "http%s://%s:%d", tls ? "s" : "", host, port_);
}

/* Start the server. cert, key NULL: no TLS. */
static void start_server(const char *cert, const char *key)
{
	const char *src = getenv("srcdir");
	char script[512];
	int in[2];

	snprintf(script, sizeof script, "%s/storage/s3/test/server.py", src ? src : ".");
	if (pipe2(in, O_CLOEXEC) < 0)
		exit(99);
	server_pid_ = fork();
	if (server_pid_ == 0) {
		dup2(in[0], 0);
		execlp("python3", "python3", script, dir_, cert, key, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	server_in_ = in[1];
	port_ = wait_for_port();
	if (!port_) {
		printf("Bail out! %s does not start\n", script);
		exit(99);
	}
	name_server("127.0.0.1", cert);
	calm();
}

static void stop_server(void)
{
	char path[ROOT_MAX + 16];

	close(server_in_);
	waitpid(server_pid_, NULL, 0);
	snprintf(path, sizeof path, "%s/port", dir_);
	unlink(path);
}

__attribute__((unused)) static void begin(void)
{
	snprintf(dir_, sizeof dir_, "/tmp/gck-s3-XXXXXX");
	if (!mkdtemp(dir_))
		exit(99);
	unsetenv("http_proxy");
	unsetenv("https_proxy");
	unsetenv("HTTPS_PROXY");
	unsetenv("ALL_PROXY");
	unsetenv("all_proxy");
	gck_s3_pause = 0;
	gck_store_signer(sign_here, NULL);
}

__attribute__((unused)) static void end(void)
{
	stop_server();
	remove_tree(dir_);
}

__attribute__((unused)) static struct gck_store *open_job(uint32_t job)
{
	struct gck_error err;
	struct gck_store *s = gck_store_open("s3://bucket/pre/fix", CLUSTER, job, 0, true, &err);

	if (!s) {
		printf("Bail out! %s\n", err.text);
		exit(99);
	}
	return s;
}

#endif
