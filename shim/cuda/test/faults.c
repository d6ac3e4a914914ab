/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/cuda/test/faults.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/support/tap.h"

#define NAMES 200

static char calls[300], order[300];

static struct {
	char name[64];
	int times;
	bool done; /* its faults were injected in an earlier phase */
} called[NAMES];
static int ncalled;

void faults_begin(const char *directory)
{
	snprintf(calls, sizeof calls, "%s/calls", directory);
	snprintf(order, sizeof order, "%s/fault", directory);
	setenv("FAKE_CUDA_CALLS", calls, 1);
	setenv("FAKE_CUDA_FAULT", order, 1);
}

void faults_arm(const struct fault *f)
{
	char fresh[310];
	FILE *file;

	snprintf(fresh, sizeof fresh, "%s.new", f->name ? order : calls);
	file = fopen(fresh, "w");
	if (!file)
		err(99, "%s", fresh);
	if (f->name)
		fprintf(file, "%s %d %d\n", f->name, f->nth, f->code ? f->code : 999);
	fclose(file);
	rename(fresh, f->name ? order : calls);
}

static void note(const char *name)
{
	int i = 0;

	while (i < ncalled && strcmp(called[i].name, name))
		i++;
	if (i == NAMES)
		errx(99, "more than %d functions are called", NAMES);
	if (i == ncalled)
		snprintf(called[ncalled++].name, sizeof called->name, "%s", name);
	called[i].times++;
}

static void read_calls(void)
{
	FILE *file = fopen(calls, "r");
	char name[64];

	if (!file)
		return;
	for (int i = 0; i < ncalled; i++)
		called[i].times = 0;
	while (fscanf(file, "%63s", name) == 1)
		note(name);
	fclose(file);
	unlink(calls);
}

bool faults_armed(void)
{
	return access(order, F_OK) == 0;
}

bool faults_disarm(void)
{
	read_calls();
	return unlink(order) != 0;
}

bool faults_every(void)
{
	return tap_is_long();
}

void faults_each(void (*one)(const struct fault *f, void *arg), void *arg)
{
	const bool every = faults_every();

	for (int i = 0; i < ncalled; i++) {
		int times = called[i].done ? 0 : called[i].times;

		for (int nth = 1; nth <= times && nth <= (every ? FAULT_FIRST : 1); nth++)
			one(&(struct fault){called[i].name, nth, 0}, arg);
		if (every && times > FAULT_FIRST)
			one(&(struct fault){called[i].name, times, 0}, arg);
		called[i].done |= times > 0;
	}
}

int faults_times(const char *name)
{
	int i = 0;

	while (i < ncalled && strcmp(called[i].name, name))
		i++;
	return i < ncalled ? called[i].times : 0;
}

void faults_repeat(const char *const names[])
{
	for (int i = 0; i < ncalled; i++) {
		if (!names || faults_is_one_of(called[i].name, names))
			called[i].done = false;
	}
}

bool faults_is_one_of(const char *name, const char *const names[])
{
	while (*names && strcmp(name, *names))
		names++;
	return *names;
}
