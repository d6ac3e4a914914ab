/* SPDX-License-Identifier: Apache-2.0
 * Each thread's stack of current contexts and its capture mode. The driver tells them only to the
 * thread itself, so they are followed. */
#include "shim/cuda/records/records.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define DEEPEST 64

struct stack {
	struct stack *next, **at;
	int n;                   /* may be more than there is room for */
	uint64_t v[DEEPEST];     /* the program's handles */
	CUstreamCaptureMode mode, wanted;
};

__thread struct gck_record_thread gck_record_thread __attribute__((tls_model("initial-exec")));

static __thread struct stack *mine __attribute__((tls_model("initial-exec")));
static struct stack *stacks;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void thread_ends(void *p)
{
	struct stack *s = p;

	pthread_mutex_lock(&lock);
	*s->at = s->next;
	if (s->next)
		s->next->at = s->at;
	pthread_mutex_unlock(&lock);
	free(s);
}

static void make_key(void)
{
	if (pthread_key_create(&key, thread_ends))
		abort();
}

static struct stack *my_stack(void)
{
	if (mine)
		return mine;
	pthread_once(&once, make_key);
	mine = calloc(1, sizeof *mine);
	if (!mine || pthread_setspecific(key, mine))
		abort();
	pthread_mutex_lock(&lock);
	mine->at = &stacks;
	mine->next = stacks;
	if (stacks)
		stacks->at = &mine->next;
	stacks = mine;
	pthread_mutex_unlock(&lock);
	return mine;
}

static void push(struct stack *s, uint64_t context)
{
	if (s->n < DEEPEST)
		s->v[s->n] = context;
	s->n++;
}

static void pop(struct stack *s)
{
	if (s->n)
		s->n--;
}

static uint64_t result(const uint64_t *words)
{
	uint64_t handle;

	memcpy(&handle, (void *)(uintptr_t)words[0], sizeof handle);
	return handle;
}

void gck_record_thread_wants(const uint64_t *words)
{
	memcpy(&my_stack()->wanted, (void *)(uintptr_t)words[0], sizeof mine->wanted);
}

void gck_record_thread_note(char what, const uint64_t *words)
{
	struct stack *s = my_stack();

	switch (what) {
	case '+':
		push(s, words[0]);
		break;
	case '-':
		pop(s);
		break;
	case '=':
		pop(s);
		if (words[0])
			push(s, words[0]);
		break;
	case 'c':
		push(s, result(words));
		break;
	case 'x':
		if (s->n && s->n <= DEEPEST && s->v[s->n - 1] == words[0])
			pop(s);
		break;
	case 'm':
		s->mode = s->wanted;
		break;
	default:
		break;
	}
}

bool gck_record_threads_unable(void)
{
	bool unable = false;

	pthread_mutex_lock(&lock);
	for (const struct stack *s = stacks; s; s = s->next) {
		unable |= s->n > DEEPEST;
		for (int i = 0; i < s->n && i < DEEPEST; i++)
			unable |= !gck_record_find(GCK_RECORD_CONTEXT, s->v[i]);
	}
	pthread_mutex_unlock(&lock);
	return unable;
}

void gck_record_thread_back(void)
{
	CUstreamCaptureMode mode;

	gck_record_thread.age = atomic_load(&gck_records_age);
	for (int i = 0; mine && i < mine->n; i++)
		gck_cuda_driver.cuCtxPushCurrent_v2(
			(CUcontext)(uintptr_t)gck_now(GCK_RECORD_CONTEXT, mine->v[i]));
	if (mine && mine->mode != CU_STREAM_CAPTURE_MODE_GLOBAL) {
		mode = mine->mode;
		gck_cuda_driver.cuThreadExchangeStreamCaptureMode(&mode);
	}
}
