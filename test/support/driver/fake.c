/* SPDX-License-Identifier: Apache-2.0
 * The fake driver's state, its injected failures, and the entry of every call. */
#include "test/support/driver/fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

const int fake_only = 1, cuFakeNumber = 2;

static __thread bool per_thread, counted;
static __thread unsigned depth;
static __thread CUresult injected;
static __thread const struct rule *slow;

void fake_lock(void)
{
	pthread_mutex_lock(&fake.lock);
}

void fake_unlock(void)
{
	pthread_mutex_unlock(&fake.lock);
}

void fake_changed(void)
{
	pthread_cond_broadcast(&fake.changed);
}

void fake_wait(void)
{
	pthread_cond_wait(&fake.changed, &fake.lock);
}

bool fake_wait_until(const struct timespec *end)
{
	return pthread_cond_timedwait(&fake.changed, &fake.lock, end) == 0;
}

bool fake_per_thread(void)
{
	return per_thread;
}

/* ---- failures ------------------------------------------------------------------------------- */

#define RULES 32

static struct rule {
	char name[64];
	unsigned long nth;   /* 0: all */
	bool later;
	CUresult code;
	int slow_ms;         /* not 0: no failure */
	char slow_file[256]; /* slow while it exists; "": always */
	_Atomic unsigned long calls;
} rules[RULES];
static size_t nrules;

static void read_rule(const char *text)
{
	struct rule *r = &rules[nrules];
	char nth[32] = "", plus = '\0';
	int code, used = 0;

	if (sscanf(text, "%63[^:=]=%d%n", r->name, &code, &used) < 2 &&
	    sscanf(text, "%63[^:=]:%31[0-9]%c", r->name, nth, &plus) < 3)
		goto bad;
	if (*nth) {
		r->nth = strtoul(nth, NULL, 10);
		r->later = plus == '+';
		if (sscanf(strchr(text, '='), "=%d", &code) != 1)
			goto bad;
	}
	r->code = (CUresult)code;
	nrules++;
	return;
bad:
	fprintf(stderr, "fake CUDA driver: FAKE_CUDA_FAIL: %s makes no sense\n", text);
	exit(99);
}

static void read_slow(const char *text)
{
	struct rule *r = &rules[nrules++];

	if (sscanf(text, "%63[^=]=%d@%255s", r->name, &r->slow_ms, r->slow_file) >= 2)
		return;
	fprintf(stderr, "fake CUDA driver: FAKE_CUDA_SLOW: %s makes no sense\n", text);
	exit(99);
}

static void read_all(const char *variable, void (*read_one)(const char *text))
{
	const char *all = getenv(variable);
	char *copy = all ? strdup(all) : NULL, *rest = NULL;

	for (char *r = copy ? strtok_r(copy, ",", &rest) : NULL; r && nrules < RULES;
	     r = strtok_r(NULL, ",", &rest))
		read_one(r);
	free(copy);
}

__attribute__((constructor)) static void read_rules(void)
{
	read_all("FAKE_CUDA_FAIL", read_rule);
	read_all("FAKE_CUDA_SLOW", read_slow);
}

static CUresult rule_for(const char *name)
{
	for (size_t i = 0; i < nrules; i++) {
		struct rule *r = &rules[i];
		unsigned long call;

		if (strcmp(r->name, name))
			continue;
		if (r->slow_ms) {
			slow = r;
			continue;
		}
		call = ++r->calls;
		if (!r->nth || call == r->nth || (r->later && call > r->nth))
			return r->code;
	}
	return CUDA_SUCCESS;
}

/* ---- each call ------------------------------------------------------------------------------ */

static bool passes_lock(const char *name)
{
	return !strncmp(name, "cuCheckpoint", 12) || !strncmp(name, "cuGet", 5) ||
	       !strcmp(name, "cuDriverGetVersion");
}

bool fake_enter(const char *name, bool pt)
{
	injected = fake.forked && !passes_lock(name) ? CUDA_ERROR_NOT_INITIALIZED : rule_for(name);
	injected = injected ? injected : fake_ordered(name);
	injected = fake.over ? CUDA_ERROR_DEINITIALIZED : injected;
	if (injected)
		return false;
	per_thread = pt;
	if (depth++ || passes_lock(name))
		return true;
	fake_lock();
	while (fake.process != CU_PROCESS_STATE_RUNNING)
		fake_wait();
	fake.inside++;
	counted = true;
	fake_unlock();
	return true;
}

static int64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static void nap(void)
{
	const struct timespec ms = {0, 1000000};
	const char *file = slow->slow_file;
	int64_t end = now_ms() + slow->slow_ms;

	while (now_ms() < end && (!*file || access(file, F_OK) == 0))
		nanosleep(&ms, NULL);
	slow = NULL;
}

CUresult fake_leave(CUresult rc)
{
	per_thread = false;
	if (slow)
		nap();
	if (--depth)
		return rc;
	fake_users_tell();
	if (!counted)
		return rc;
	fake_lock();
	fake.inside--;
	counted = false;
	fake_changed();
	fake_unlock();
	return rc;
}

CUresult fake_injected(void)
{
	return injected;
}
