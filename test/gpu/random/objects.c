/* SPDX-License-Identifier: Apache-2.0
 * The objects that the program holds, its choices, its output. */
#include <stdarg.h>
#include <stdio.h>

#include "test/gpu/random/random.h"

struct object objects[MOST];
int n_objects, thread;

static uint64_t state;

CUresult done(const char *call, CUresult rc)
{
	printf("%s %d\n", call, (int)rc);
	return rc;
}

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* FNV-1a, of words. */
uint64_t digest_of(const void *data, size_t size)
{
	const unsigned char *p = data;
	uint64_t h = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < size; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	return h;
}

void choose_by(uint64_t seed)
{
	state = seed * 0x9e3779b97f4a7c15ull + 0x1234567ull;
	for (int i = 0; i < 8; i++)
		draw(2);
}

/* xorshift64* */
unsigned draw(unsigned n)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (unsigned)((state * 0x2545f4914f6cdd1dull) >> 33) % n;
}

/* Others can be used in any context. */
static bool has_context(enum kind kind)
{
	return kind != CONTEXT && kind != LIBRARY && kind != KERNEL && kind != RESERVATION &&
	       kind != PHYSICAL && kind != POOL && kind < GRAPH;
}

int hold_number(enum kind kind, uint64_t handle, int of)
{
	if (n_objects == MOST)
		return -1;
	objects[n_objects] = (struct object){.kind = kind, .handle = handle, .of = of,
					     .context = has_context(kind) ? current() : -1,
					     .on = -1, .uses = 1, .alive = true};
	return n_objects++;
}

int hold(enum kind kind, const void *handle, int of)
{
	return hold_number(kind, (uintptr_t)handle, of);
}

void end(int i)
{
	if (i < 0 || !objects[i].alive)
		return;
	objects[i].alive = false;
	for (int j = 0; j < n_objects; j++) {
		if (objects[j].of == i ||
		    (objects[j].context == i && objects[j].kind != MAPPING))
			end(j);
	}
}

bool is(int i, enum kind kind)
{
	return i >= 0 && objects[i].alive && objects[i].kind == kind;
}

int find(enum kind kind, const void *handle)
{
	int i = n_objects - 1;

	while (i >= 0 && !(is(i, kind) && objects[i].handle == (uintptr_t)handle))
		i--;
	return i;
}

int any_of(enum kind kind, int of)
{
	unsigned n = 0;
	int found = -1;

	for (int i = 0; i < n_objects; i++) {
		if (is(i, kind) && (of < 0 || objects[i].of == of) && draw(++n) == 0)
			found = i;
	}
	return found;
}

int any(enum kind kind)
{
	return any_of(kind, -1);
}

int any_here(enum kind kind)
{
	unsigned n = 0;
	int found = -1;

	for (int i = 0; i < n_objects; i++) {
		if (is(i, kind) && current() >= 0 && objects[i].context == current() &&
		    draw(++n) == 0)
			found = i;
	}
	return found;
}
