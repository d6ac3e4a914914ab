/* SPDX-License-Identifier: Apache-2.0
 * The functions of the test's module in the namespace for the test outside. */
#ifndef GCK_TEST_MODULE_H
#define GCK_TEST_MODULE_H

#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>

enum module_thread { MODULE_PLAIN, MODULE_DETACHED, MODULE_OWN_STACK, MODULE_JOINING };

struct module {
	int (*ask_library)(void);              /* its answer, 42 */
	void *(*load)(const char *name);
	int (*make_fds)(int *fds, int most);   /* one of each kind; returns how many */
	void (*close_fds)(const int *fds, int n);
	/* The thread waits for let_go; JOINING: for the thread made before it */
	int (*make_thread)(enum module_thread how, pthread_t *thread);
	void (*let_go)(void);                  /* one thread ends */
	int (*join_thread)(pthread_t thread);
	int (*make_key)(unsigned int *key);
	int (*set)(unsigned int key, const void *value);
	void *(*get)(unsigned int key);
	int (*destructions)(void);
	void *(*map)(size_t length);
	void *(*remap)(void *p, size_t had, size_t length);
	int (*unmap)(void *p, size_t length);
	sem_t *(*open_semaphore)(const char *name);
	int (*close_semaphore)(sem_t *sem);
	int (*is_space)(int c);
	char *(*getenv)(const char *name);
	void (*exit)(int status) __attribute__((noreturn));
	void *(*malloc)(size_t size);
	void *(*calloc)(size_t n, size_t size);
	void *(*realloc)(void *p, size_t size);
	void *(*memalign)(size_t align, size_t size);
	void (*free)(void *p);
};

#endif
