/* SPDX-License-Identifier: Apache-2.0
 * Named semaphores, which libc maps and unmaps by itself, unseen (OMPIO has one for each file's
 * shared pointer). What is opened twice is mapped once, until it is closed as often. */
#include "config.h"

#include "shim/namespace/root/root.h"

#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "shim/namespace/root/lock.h"

#define MAX_SEMAPHORES 4096

static struct {
	sem_t *sem; /* NULL: a free place */
	unsigned int opened;
} semaphores[MAX_SEMAPHORES];
static struct gck_ns_lock lock; /* around libc's call as well: its address may come again at once */

/* Where it is noted (NULL: a free place); MAX_SEMAPHORES: nowhere. */
static unsigned int find(const sem_t *sem)
{
	unsigned int i = 0;

	while (i < MAX_SEMAPHORES && semaphores[i].sem != sem)
		i++;
	return i;
}

static int note(sem_t *sem)
{
	unsigned int i = find(sem);

	if (i == MAX_SEMAPHORES)
		i = find(NULL);
	if (i == MAX_SEMAPHORES || (!semaphores[i].sem && gck_ns_range_add(sem, sizeof *sem)))
		return -1;
	semaphores[i].sem = sem;
	semaphores[i].opened++;
	return 0;
}

/* Off the list before libc unmaps it, as in munmap. */
static void forget(const sem_t *sem)
{
	unsigned int i = find(sem);

	if (i == MAX_SEMAPHORES || --semaphores[i].opened)
		return;
	semaphores[i].sem = NULL;
	gck_ns_range_remove(sem, sizeof *sem);
}

static sem_t *open_noted(const char *name, int flags, mode_t mode, unsigned int value)
{
	sem_t *sem = GCK_NS_NEXT(sem_open)(name, flags, mode, value);

	if (sem == SEM_FAILED || note(sem) == 0)
		return sem;
	GCK_NS_NEXT(sem_close)(sem);
	errno = ENOMEM;
	return SEM_FAILED;
}

GCK_EXPORT sem_t *sem_open(const char *name, int flags, ...)
{
	mode_t mode = 0;
	unsigned int value = 0;
	va_list ap;
	sem_t *sem;

	if (flags & O_CREAT) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		value = va_arg(ap, unsigned int);
		va_end(ap);
	}
	gck_ns_enter();
	gck_ns_lock(&lock);
	sem = open_noted(name, flags, mode, value);
	gck_ns_unlock(&lock);
	gck_ns_leave();
	return sem;
}

GCK_EXPORT int sem_close(sem_t *sem)
{
	int rc;

	gck_ns_enter();
	gck_ns_lock(&lock);
	forget(sem);
	rc = GCK_NS_NEXT(sem_close)(sem);
	gck_ns_unlock(&lock);
	gck_ns_leave();
	return rc;
}
