/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/cuda/test/vmm_model.h"

#define UNIT ((size_t)2 << 20)
#define MEMORIES 8
#define MAPPINGS 7 /* fewer than memories: some are not mapped */
#define PLACES 96 /* of UNIT each, in one reservation */

/* Memory of one cuMemCreate. It ends when it has no handle and no mapping. */
static struct memory {
	CUmemGenericAllocationHandle handle;
	size_t units;                   /* 0: none */
	unsigned named, mapped;
	unsigned long long types;
	bool written;                   /* at its first mapping */
	unsigned char fill[4];          /* the byte in each unit, different ones */
} memories[MEMORIES];

static struct mapping {
	struct memory *of;              /* NULL: none */
	size_t place;
	unsigned long long access, number; /* number: the driver's id of this mapping */
} mappings[MAPPINGS];

static CUdeviceptr base;
static size_t free_before;
static unsigned long long last_number;
static const char *wrong;

static void expect(bool good, const char *what)
{
	if (!good && !wrong)
		wrong = what;
}

static CUdeviceptr at(const struct mapping *m)
{
	return base + m->place * UNIT;
}

static size_t available(void)
{
	size_t bytes = 0, total;

	cuMemGetInfo(&bytes, &total);
	return bytes;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void make(struct memory *m)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

	*m = (struct memory){.units = 1 + (size_t)rand() % 3, .named = 1};
	m->types = rand() % 2 ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
	prop.requestedHandleTypes = (CUmemAllocationHandleType)m->types;
	expect(cuMemCreate(&m->handle, m->units * UNIT, &prop, 0) == 0, "memory is created");
	for (int i = 0; i < MEMORIES; i++)
		expect(&memories[i] == m || !memories[i].units || memories[i].handle != m->handle,
		       "each memory has a handle of its own");
}

static void gone(struct memory *m)
{
	if (!m->named && !m->mapped)
		m->units = 0;
}

static void release(struct memory *m)
{
	expect(cuMemRelease(m->handle) == 0, "it is released");
	m->named--;
	gone(m);
}

static bool is_free(size_t place, size_t n)
{
	for (int i = 0; i < MAPPINGS; i++) {
		const struct mapping *m = &mappings[i];

		if (m->of && place < m->place + m->of->units && m->place < place + n)
			return false;
	}
	return place + n <= PLACES;
}

static void allow(struct mapping *m, unsigned long long access)
{
	CUmemAccessDesc a = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
			     .flags = (CUmemAccess_flags)access};

	expect(cuMemSetAccess(at(m), m->of->units * UNIT, &a, 1) == 0, "access is set");
	m->access = access;
}

static void write_all(const struct mapping *m)
{
	for (size_t i = 0; i < m->of->units; i++) {
		m->of->fill[i] = (unsigned char)rand();
		expect(cuMemsetD8(at(m) + i * UNIT, m->of->fill[i], UNIT) == 0, "it is written");
	}
	expect(cuCtxSynchronize() == 0, "and done");
}

/* Memory is written at its first mapping. */
static void map_at(struct mapping *m)
{
	struct memory *of = m->of;

	expect(cuMemMap(at(m), of->units * UNIT, 0, of->handle, 0) == 0, "it is mapped");
	expect(cuPointerGetAttribute(&m->number, CU_POINTER_ATTRIBUTE_BUFFER_ID, at(m)) == 0 &&
	       m->number > last_number, "it has a number of its own");
	last_number = m->number;
	if (!of->written) {
		allow(m, 3);
		write_all(m);
		of->written = true;
	}
	of->mapped++;
}

static void map(struct mapping *m, struct memory *of)
{
	size_t place = (size_t)rand() % PLACES;

	if (!of->named)
		return;
	if (!is_free(place, of->units)) {
		expect(place + of->units > PLACES ||
			       cuMemMap(base + place * UNIT, of->units * UNIT, 0, of->handle, 0) ==
				       CUDA_ERROR_INVALID_VALUE,
		       "mappings do not overlap");
		return;
	}
	*m = (struct mapping){.of = of, .place = place};
	map_at(m);
}

static void unmap(struct mapping *m)
{
	struct memory *of = m->of;

	expect(cuMemUnmap(at(m), of->units * UNIT) == 0, "it is unmapped");
	m->of = NULL;
	of->mapped--;
	gone(of);
}

/* Unmaps the whole reservation at once, also released memory. */
static void unmap_all(void)
{
	size_t first = PLACES, end = 0, n = 0;

	for (int i = 0; i < MAPPINGS; i++) {
		const struct mapping *m = &mappings[i];

		if (!m->of)
			continue;
		first = m->place < first ? m->place : first;
		end = m->place + m->of->units > end ? m->place + m->of->units : end;
		n += m->of->units;
	}
	if (n == 0 || n != end - first)
		return; /* holes: the driver would refuse */
	expect(cuMemUnmap(base + first * UNIT, n * UNIT) == 0, "all is unmapped at once");
	for (int i = 0; i < MAPPINGS; i++) {
		struct memory *of = mappings[i].of;

		mappings[i].of = NULL;
		if (of) {
			of->mapped--;
			gone(of);
		}
	}
}

static void retain(const struct mapping *m)
{
	CUmemGenericAllocationHandle again = 0;

	expect(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)at(m)) == 0 &&
		       again == m->of->handle,
	       "cuMemRetainAllocationHandle returns its handle");
	m->of->named++;
}

/* ---- checks --------------------------------------------------------------------------------- */

static void look_at_memory(struct memory *m)
{
	CUmemAllocationProp prop = {.requestedHandleTypes = 99};

	if (!m->named)
		return;
	expect(cuMemGetAllocationPropertiesFromHandle(&prop, m->handle) == 0 &&
		       prop.requestedHandleTypes == m->types &&
		       prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE,
	       "its properties");
}

static bool is_filled(const struct mapping *m)
{
	bool good = true;

	for (size_t i = 0; i < m->of->units; i++) {
		unsigned char first = 0, last = 0;

		good = good && cuMemcpyDtoH(&first, at(m) + i * UNIT, 1) == 0 &&
		       cuMemcpyDtoH(&last, at(m) + (i + 1) * UNIT - 1, 1) == 0 &&
		       first == m->of->fill[i] && last == m->of->fill[i];
	}
	return good;
}

static void look_at(const struct mapping *m)
{
	const CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
			    other = {.type = device.type, .id = 1};
	unsigned long long access = 99, others = 99, types = 99, number = 0;
	CUdeviceptr start = 0;
	size_t size = 0;
	int devices = 0;

	expect(cuMemGetAccess(&access, &device, at(m)) == 0 && access == m->access, "its access");
	expect(cuDeviceGetCount(&devices) == 0, "there are devices");
	expect(devices < 2 || (cuMemGetAccess(&others, &other, at(m)) == 0 && others == 0),
	       "no other device has access");
	expect(cuMemGetAddressRange(&start, &size, at(m) + 5) ==
		       (m->access ? 0 : CUDA_ERROR_NOT_FOUND),
	       "is it found");
	expect(!m->access || (start == at(m) && size == m->of->units * UNIT), "its range");
	expect(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, at(m)) ==
			       0 &&
		       types == m->of->types,
	       "its handle types");
	expect(cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID, at(m)) == 0 &&
		       number == m->number,
	       "its number");
	if (m->access)
		expect(is_filled(m), "its contents");
}

/* Memory that is not mapped keeps its contents. It is mapped for a moment to check them. */
static void look_at_unmapped(struct memory *m)
{
	struct mapping now = {.of = m};

	if (m->mapped || !m->written)
		return;
	while (now.place < PLACES && !is_free(now.place, m->units))
		now.place++;
	if (now.place == PLACES)
		return;
	expect(cuMemMap(at(&now), m->units * UNIT, 0, m->handle, 0) == 0, "it can be mapped");
	allow(&now, 1);
	expect(is_filled(&now), "the contents of memory that was not mapped");
	expect(cuMemUnmap(at(&now), m->units * UNIT) == 0, "and unmapped");
}

const char *vmm_look(void)
{
	for (int i = 0; i < MEMORIES; i++) {
		if (memories[i].units) {
			look_at_memory(&memories[i]);
			look_at_unmapped(&memories[i]);
		}
	}
	for (int i = 0; i < MAPPINGS; i++) {
		if (mappings[i].of)
			look_at(&mappings[i]);
	}
	return wrong;
}

/* ---- the model ------------------------------------------------------------------------------ */

static void step_mapping(struct mapping *m)
{
	static const unsigned long long rights[] = {0, 1, 3, 3};

	switch (rand() % 6) {
	case 0:
		unmap(m);
		break;
	case 1:
		retain(m);
		break;
	case 2:
		allow(m, rights[rand() % 4]);
		break;
	default:
		if (m->access == 3)
			write_all(m);
		else
			look_at(m);
	}
}

static void step(void)
{
	struct memory *memory = &memories[rand() % MEMORIES];
	struct mapping *m = &mappings[rand() % MAPPINGS];

	if (!memory->units)
		make(memory);
	else if (m->of)
		step_mapping(m);
	else if (rand() % 4)
		map(m, memory);
	else if (rand() % 16 == 0)
		unmap_all();
	else if (memory->named && (memory->mapped || rand() % 4 == 0))
		release(memory);
}

const char *vmm_begin(unsigned int seed)
{
	srand(seed);
	free_before = available();
	expect(cuMemAddressReserve(&base, PLACES * UNIT, 0, 0, 0) == 0, "addresses are reserved");
	return wrong;
}

const char *vmm_steps(int n)
{
	for (int i = 0; !wrong && i < n; i++)
		step();
	return wrong ? wrong : vmm_look();
}

const char *vmm_few(void)
{
	for (int i = 0; i < 3; i++) {
		make(&memories[i]);
		mappings[i] = (struct mapping){.of = &memories[i], .place = 8 * (size_t)i};
		map_at(&mappings[i]);
	}
	release(&memories[0]);
	unmap(&mappings[1]);
	allow(&mappings[2], 0);
	return wrong;
}

/* An unread copy is freed while the program runs. */
static void expect_all_free(void)
{
	static char what[80];
	long long more = 0;

	for (int i = 0; i < 3000 && (more = (long long)available() - (long long)free_before); i++)
		usleep(5000);
	snprintf(what, sizeof what, "all memory is free again: %+lld bytes", more);
	expect(!more || getenv("GPUCKPT_TEST_DRIVER"), what);
}

const char *vmm_end(void)
{
	vmm_look();
	for (int i = 0; i < MAPPINGS; i++) {
		if (mappings[i].of)
			unmap(&mappings[i]);
	}
	for (int i = 0; i < MEMORIES; i++) {
		while (memories[i].named)
			release(&memories[i]);
		expect(!memories[i].units, "all memory has ended");
	}
	expect(cuMemAddressFree(base, PLACES * UNIT) == 0, "the addresses are free");
	expect_all_free();
	return wrong;
}
