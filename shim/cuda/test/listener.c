/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "shim/cuda/test/listener.h"

#include <cuda.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "test/support/driver/fake.h"

#define TABLE "\x69\xa2\x8e\x9f\x24\x49\x8b\x47\xb0\x30\xc5\xda\x33\x0e\xa4\xe9"

typedef void function(void);
typedef CUresult make(void **listener, const void *about);
typedef void begin(void *listener);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUuuid device; /* as it was last known */
static int fd = -1;
static bool listens;

static int lock_it(const void *request)
{
	const struct fake_lock_request *r = request;
	struct timespec end = {.tv_sec = r->end_ns / 1000000000, .tv_nsec = r->end_ns % 1000000000};

	return r->size ? -1 : pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &end);
}

static int unlock_it(const void *none)
{
	(void)none;
	return pthread_mutex_unlock(&lock);
}

static int close_it(const void *none)
{
	int rc = close(fd);

	(void)none;
	fd = -1;
	return rc;
}

static int open_it(const void *request)
{
	const struct fake_restore_request *r = request;
	bool known = false;

	for (uint32_t i = 0; i < r->n; i++)
		known |= !memcmp(r->gpus[i].was, &device, sizeof device);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	return r->size || !known || fd < 0 || cuDeviceGetUuid_v2(&device, 0);
}

const char *listener_begin(void)
{
	static const struct {
		size_t size;
		void *none;
		fake_listen *told[4];
	} about = {.told = {lock_it, unlock_it, close_it, open_it}};
	const void *at;
	void *listener;
	CUuuid id;

	listens = getenv("GPUCKPT_TEST_LISTENER");
	if (!listens)
		return NULL;
	memcpy(&id, TABLE, sizeof id);
	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0 || cuGetExportTable(&at, &id) || cuDeviceGetUuid_v2(&device, 0) ||
	    ((make *)((function *const *)at)[19])(&listener, &about))
		return "nothing can be told of checkpoints";
	((begin *)((function *const *)at)[21])(listener);
	return NULL;
}

const char *listener_look(void)
{
	struct sockaddr_nl address;
	socklen_t size = sizeof address;
	int rc;

	if (!listens)
		return NULL;
	pthread_mutex_lock(&lock);
	rc = getsockname(fd, (struct sockaddr *)&address, &size);
	pthread_mutex_unlock(&lock);
	return rc || address.nl_family != AF_NETLINK ? "its descriptor is not there again" : NULL;
}
