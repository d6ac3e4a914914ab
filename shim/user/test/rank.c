/* SPDX-License-Identifier: Apache-2.0
 * A rank for checkpoint.c: reads from its input what to call and prints result and reason. */
#include "shim/user/gpuckpt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_THREADS 16

static void *call(void *result)
{
	*(int *)result = gck_checkpoint();
	return NULL;
}

static void by_threads(int n)
{
	pthread_t t[MAX_THREADS];
	int result[MAX_THREADS];

	for (int i = 0; i < n && i < MAX_THREADS; i++)
		pthread_create(&t[i], NULL, call, &result[i]);
	for (int i = 0; i < n && i < MAX_THREADS; i++) {
		pthread_join(t[i], NULL);
		printf("%d ", result[i]);
	}
	printf("\n");
}

static void by_child(void)
{
	if (fork() == 0) {
		printf("%d %s\n", gck_checkpoint(), gck_checkpoint_error());
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
}

int main(int argc, char **argv)
{
	char line[64];
	int result;

	(void)argc;
	while (fgets(line, sizeof line, stdin)) {
		if (!strncmp(line, "threads ", 8)) {
			by_threads(atoi(line + 8));
		} else if (!strcmp(line, "child\n")) {
			by_child();
		} else if (!strcmp(line, "exec\n")) {
			execv(argv[0], argv);
		} else {
			result = !strcmp(line, "all\n") ? gck_checkpoint_all() : gck_checkpoint();
			printf("%d %s\n", result, gck_checkpoint_error());
		}
		fflush(stdout);
	}
	return 0;
}
