/* SPDX-License-Identifier: Apache-2.0
 * The fake driver: modules with their functions and variables, and libraries. */
#define _GNU_SOURCE
#include "test/support/driver/bodies.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "test/support/cubin.h"

struct CUmod_st {
	struct CUmod_st *next; /* of all that are loaded */
	CUcontext context;
	CUlibrary library;     /* NULL: it was loaded by itself */
	struct CUfunc_st *functions;
	CUdeviceptr managed; /* its __managed__ variable; 0: none */
	char *text, *variables; /* of PTX, or of a cubin, which is no text; NULL */
	int registers;          /* CU_JIT_MAX_REGISTERS; 0: not set */
};

/* It is loaded into each context that uses it. */
struct CUlib_st {
	const char *image;
	char *copy; /* NULL: the program preserves it */
	int registers;
};

struct CUkern_st {
	struct CUkern_st *next; /* of all */
	CUlibrary library;
	char *name;
	int shared; /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
};

/* ---- modules -------------------------------------------------------------------------------- */

#define PTX_MODULES ((size_t)16 << 20) /* most bytes of addresses for all modules' variables */

static char *places;               /* of modules of PTX: a page each, as they come and go */
static bool taken[PTX_MODULES / 4096];
static struct CUmod_st *modules;

static bool is_cubin(const char *image)
{
	return !memcmp(image, ELFMAG, SELFMAG);
}

static bool is_fatbin(const char *image)
{
	return !memcmp(image, "\x50\xed\x55\xba\1", 5);
}

/* By e_flags of a cubin, in which it lies higher in a newer ABI; or of a fatbin's head. */
static bool is_for(unsigned flags, unsigned device)
{
	unsigned cubin = flags > 0xff ? flags >> 8 & 0xff : flags;

	return cubin / 10 == device / 10 && cubin <= device;
}

/* Of a fatbin its cubin, or else its PTX; NULL: there is no code for the current device. Only
 * test_cubin.h's are known. */
static const char *part_of(const char *image)
{
	const struct test_fatbin *f = (const void *)image;
	unsigned device = fake_current() ? (unsigned)fake.seen.v[fake_current()->device].arch : 90;

	if (is_fatbin(image))
		return is_for(f->of_cubin.capability, device) ? (const char *)&f->cubin
		       : f->of_ptx.capability <= device	      ? f->ptx
							      : NULL;
	if (is_cubin(image) && !is_for(((const Elf64_Ehdr *)(const void *)image)->e_flags, device))
		return NULL;
	return image;
}

static char *copy_of(const char *image)
{
	size_t size = is_cubin(image)    ? sizeof(struct test_cubin)
		      : is_fatbin(image) ? sizeof(struct test_fatbin)
					 : strlen(image) + 1;

	return memcpy(malloc(size), image, size);
}

static CUresult take_place_of_module(CUmodule module)
{
	size_t i = 0;

	if (!places)
		places = mmap(NULL, fake_version.modules, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	while (i < fake_version.modules / 4096 && taken[i])
		i++;
	if (i == fake_version.modules / 4096)
		return CUDA_ERROR_OUT_OF_MEMORY;
	taken[i] = true;
	module->variables = places + 4096 * i;
	mmap(module->variables, 4096, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	return CUDA_SUCCESS;
}

static void show(const char *text, size_t size)
{
	const char *path = getenv("FAKE_CUDA_PTX");
	FILE *out = path ? fopen(path, "w") : NULL;

	if (out) {
		fwrite(text, 1, size, out);
		fclose(out);
	}
}

/* The image "managed" has a __managed__ variable. */
static CUresult load(CUmodule *module, const void *image, CUlibrary library)
{
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!image)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	if (strstr(image, "refused$ckpt"))
		return CUDA_ERROR_INVALID_PTX;
	*module = calloc(1, sizeof **module);
	(*module)->context = fake_current();
	(*module)->library = library;
	fake_lock();
	(*module)->next = modules;
	modules = *module;
	fake_unlock();
	if (!strncmp(image, ".version", 8) || !strncmp(image, "//", 2)) {
		show(image, strlen(image));
		(*module)->text = copy_of(image);
	} else if (is_cubin(image)) {
		(*module)->text = copy_of(image);
	}
	if ((*module)->text)
		return take_place_of_module(*module);
	return strcmp(image, "managed") ? CUDA_SUCCESS :
	       fake_cuMemAllocManaged(&(*module)->managed, 8, CU_MEM_ATTACH_GLOBAL);
}

CUresult fake_cuModuleLoadData(CUmodule *module, const void *image)
{
	return load(module, part_of(image), NULL);
}

/* The registers that the options allow; -1: an option that is not known. The bytes of a log are set
 * to 0. */
static int registers_of(CUjit_option *options, void **values, unsigned int n)
{
	int registers = 0;

	for (unsigned int i = 0; i < n; i++) {
		if (options[i] == CU_JIT_MAX_REGISTERS)
			registers = (int)(uintptr_t)values[i];
		else if ((options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
			  options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) && values[i])
			values[i] = NULL;
		else if (options[i] != CU_JIT_ERROR_LOG_BUFFER)
			return -1;
	}
	return registers;
}

CUresult fake_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int n,
				 CUjit_option *options, void **values)
{
	int registers = registers_of(options, values, n);
	CUresult rc = registers < 0 ? CUDA_ERROR_INVALID_VALUE
				    : load(module, part_of(image), NULL);

	if (!rc)
		(*module)->registers = registers;
	return rc;
}

/* No file is read. */
CUresult fake_cuModuleLoad(CUmodule *module, const char *path)
{
	return fake_cuModuleLoadData(module, path);
}

/* With the lock. */
static void unload(const struct CUmod_st *module)
{
	struct CUmod_st **at = &modules;

	while (*at && *at != module)
		at = &(*at)->next;
	if (*at)
		*at = module->next;
	if (module->variables)
		taken[(module->variables - places) / 4096] = false;
}

void fake_context_modules_end(CUcontext context)
{
	const struct CUmod_st *next;

	for (const struct CUmod_st *m = modules; m; m = next) {
		next = m->next;
		if (m->context == context)
			unload(m);
	}
}

static CUresult unload_now(CUmodule module)
{
	fake_lock();
	unload(module);
	fake_unlock();
	return module->managed ? fake_cuMemFree_v2(module->managed) : CUDA_SUCCESS;
}

CUresult fake_cuModuleUnload(CUmodule module)
{
	return module && !module->library ? unload_now(module) : CUDA_ERROR_INVALID_HANDLE;
}

/* A symbol of the program, also where this library is in a link namespace. NULL: it has none. */
static void *of_program(const char *name)
{
	void *program = dlmopen(LM_ID_BASE, NULL, RTLD_NOW);

	return program ? dlsym(program, name) : NULL;
}

/* NULL: the program has no such kernel. */
static fake_code *find_code(const char *name, int *params)
{
	char variable[256] = "";
	fake_code *code = NULL;
	const int *n;

	strncat(strncat(variable, name, sizeof variable - 8), "_params", 8);
	n = of_program(variable);
	if (n)
		*(void **)&code = of_program(name);
	*params = code ? *n : 0;
	return code;
}

/* The handle stays the same. */
CUresult fake_cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	int params;
	fake_code *code = find_code(name, &params);
	struct CUfunc_st *f;

	if (!code)
		return CUDA_ERROR_NOT_FOUND;
	fake_lock();
	for (f = module->functions; f && f->run != code;)
		f = f->next;
	if (!f) {
		f = calloc(1, sizeof *f);
		*f = (struct CUfunc_st){module->functions, code, params};
		module->functions = f;
	}
	fake_unlock();
	*function = f;
	return CUDA_SUCCESS;
}

/* The variable's place in its module: variables come in the order of the text. NULL: none. What it
 * is to begin with is not written there. */
static const void *ptx_variable(const struct CUmod_st *module, const char *name)
{
	char ends[72];
	const char *end, *line;
	size_t n = 0;

	snprintf(ends, sizeof ends, " %s;\n", name);
	end = strstr(module->text, ends);
	snprintf(ends, sizeof ends, " %s = ", name);
	end = end ? end : strstr(module->text, ends);
	if (!end)
		return NULL;
	for (line = module->text; line < end; line = strchr(line, '\n') + 1)
		n += !strncmp(line, ".visible .global ", 17) ||
		     !strncmp(line, ".visible .const ", 16) || !strncmp(line, ".const ", 7);
	return module->variables + 8 * n;
}

/* They lie as those of PTX in the same order. */
static const void *cubin_variable(const struct CUmod_st *module, const char *name)
{
	const struct test_cubin *c = (const void *)module->text;

	for (size_t i = 4; i < sizeof c->symbols / sizeof *c->symbols; i++)
		if (!strcmp(c->names + c->symbols[i].st_name, name))
			return module->variables + 8 * (i - 4);
	return NULL;
}

/* A __device__ variable is a variable of the program. */
static const void *variable(const struct CUmod_st *module, const char *name)
{
	if (module->managed)
		return (const void *)(uintptr_t)module->managed;
	if (!module->text)
		return of_program(name);
	return is_cubin(module->text) ? cubin_variable(module, name)
				      : ptx_variable(module, name);
}

CUresult fake_cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, CUmodule module,
				   const char *name)
{
	const void *at = variable(module, name);

	if (address)
		*address = (CUdeviceptr)(uintptr_t)at;
	if (size)
		*size = 8;
	return at ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* Nothing is linked. */
CUresult fake_cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
			       const char *name, unsigned int n, CUjit_option *options,
			       void **values)
{
	(void)name;
	(void)n;
	(void)options;
	(void)values;
	if (state || type != CU_JIT_INPUT_PTX || strnlen(data, size) + 1 != size)
		return CUDA_ERROR_INVALID_VALUE;
	if (strstr(data, "refused$ckpt"))
		return CUDA_ERROR_INVALID_PTX;
	show(data, size - 1);
	return CUDA_SUCCESS;
}

/* ---- libraries ------------------------------------------------------------------------------- */

static struct CUkern_st *kernels;

/* A library's module in a context, NULL: in any; NULL: it is not loaded there. With the lock. */
static CUmodule find_module(CUlibrary library, CUcontext context)
{
	CUmodule m = modules;

	while (m && !(m->library == library && (!context || m->context == context)))
		m = m->next;
	return m;
}

CUresult fake_cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit,
				void **jit_values, unsigned int njit, CUlibraryOption *options,
				void **values, unsigned int n)
{
	int registers = registers_of(jit, jit_values, njit);

	(void)values;
	if (registers < 0 || n > 1 || (n && *options != CU_LIBRARY_BINARY_IS_PRESERVED))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (strstr(code, "refused$ckpt"))
		return CUDA_ERROR_INVALID_PTX;
	*library = calloc(1, sizeof **library);
	(*library)->copy = n ? NULL : copy_of(code);
	(*library)->image = n ? code : (*library)->copy;
	(*library)->registers = registers;
	return CUDA_SUCCESS;
}

CUresult fake_cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	if (!fake_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	fake_lock();
	*module = find_module(library, fake_current());
	fake_unlock();
	return *module ? CUDA_SUCCESS : load(module, part_of(library->image), library);
}

CUresult fake_cuLibraryGetGlobal(CUdeviceptr *address, size_t *size, CUlibrary library,
				 const char *name)
{
	CUmodule module;
	CUresult rc = fake_cuLibraryGetModule(&module, library);

	return rc ? rc : fake_cuModuleGetGlobal_v2(address, size, module, name);
}

static void forget_kernels(CUlibrary library)
{
	struct CUkern_st **at = &kernels;

	while (*at) {
		if ((*at)->library == library)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	}
}

CUresult fake_cuLibraryUnload(CUlibrary library)
{
	CUresult rc = CUDA_SUCCESS;
	CUmodule module;

	do {
		fake_lock();
		forget_kernels(library);
		module = find_module(library, NULL);
		fake_unlock();
		rc = module ? unload_now(module) : CUDA_SUCCESS;
	} while (module && !rc);
	free(library->copy);
	return rc;
}

/* The handle stays the same. */
CUresult fake_cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	struct CUkern_st *k;
	int params;

	if (!find_code(name, &params))
		return CUDA_ERROR_NOT_FOUND;
	fake_lock();
	for (k = kernels; k && !(k->library == library && !strcmp(k->name, name));)
		k = k->next;
	if (!k) {
		k = calloc(1, sizeof *k);
		*k = (struct CUkern_st){kernels, library, strdup(name)};
		kernels = k;
	}
	fake_unlock();
	*kernel = k;
	return CUDA_SUCCESS;
}

CUresult fake_cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	CUmodule module;
	CUresult rc = fake_cuLibraryGetModule(&module, kernel->library);

	return rc ? rc : fake_cuModuleGetFunction(function, module, kernel->name);
}

/* Those of its PTX; a cubin has none. */
static const char *next_entry(CUlibrary library, const char *at, char *name, size_t size)
{
	static const char entry[] = ".entry ";
	const char *text = at ? at : library->image;

	text = is_cubin(library->image) ? NULL : strstr(text, entry);
	if (text)
		snprintf(name, size, "%.*s", (int)strcspn(text + sizeof entry - 1, "( \n"),
			 text + sizeof entry - 1);
	return text ? text + 1 : NULL;
}

CUresult fake_cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
	const char *at = NULL;
	char name[64];

	*count = 0;
	while ((at = next_entry(library, at, name, sizeof name)))
		++*count;
	return CUDA_SUCCESS;
}

CUresult fake_cuLibraryEnumerateKernels(CUkernel *list, unsigned int n, CUlibrary library)
{
	const char *at = NULL;
	CUresult rc = CUDA_SUCCESS;
	char name[64];

	for (unsigned int i = 0; i < n && !rc && (at = next_entry(library, at, name, sizeof name));
	     i++)
		rc = fake_cuLibraryGetKernel(&list[i], library, name);
	return rc;
}

CUresult fake_cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel kernel,
				   CUdevice device)
{
	if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || fake_device(device))
		return CUDA_ERROR_INVALID_VALUE;
	kernel->shared = value;
	return CUDA_SUCCESS;
}

CUresult fake_cuKernelGetAttribute(int *value, CUfunction_attribute which, CUkernel kernel,
				   CUdevice device)
{
	if (fake_device(device))
		return CUDA_ERROR_INVALID_DEVICE;
	*value = which == CU_FUNC_ATTRIBUTE_NUM_REGS ? kernel->library->registers : kernel->shared;
	return CUDA_SUCCESS;
}

CUresult fake_cuKernelGetName(const char **name, CUkernel kernel)
{
	*name = kernel->name;
	return CUDA_SUCCESS;
}

/* Of no kernel's handle. */
CUresult fake_cuFuncGetName(const char **name, CUfunction f)
{
	Dl_info info;

	if (fake_function(f) != f || !dladdr((void *)f->run, &info) || !info.dli_sname)
		return CUDA_ERROR_INVALID_HANDLE;
	*name = info.dli_sname;
	return CUDA_SUCCESS;
}

bool fake_is_variable(uint64_t address, CUdevice *device)
{
	const struct CUmod_st *m = modules;

	while (m && !(m->variables && address - (uintptr_t)m->variables < 4096))
		m = m->next;
	if (m)
		*device = m->context->device;
	return m;
}

static CUmodule module_of(CUfunction f)
{
	CUmodule m;
	const struct CUfunc_st *i = NULL;

	fake_lock();
	for (m = modules; m; m = m->next) {
		for (i = m->functions; i && i != f;)
			i = i->next;
		if (i)
			break;
	}
	fake_unlock();
	return m;
}

bool fake_is_function(CUfunction f)
{
	return module_of(f) != NULL;
}

/* Of no kernel's handle. */
CUresult fake_cuFuncGetModule(CUmodule *module, CUfunction f)
{
	*module = module_of(f);
	return *module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult param_info(int params, size_t i, size_t *offset, size_t *size)
{
	if (i >= (size_t)params)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = 8 * i;
	if (size)
		*size = 8;
	return CUDA_SUCCESS;
}

CUresult fake_cuFuncGetParamInfo(CUfunction f, size_t i, size_t *offset, size_t *size)
{
	return module_of(f) ? param_info(f->params, i, offset, size) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult fake_cuKernelGetParamInfo(CUkernel kernel, size_t i, size_t *offset, size_t *size)
{
	int params;

	find_code(kernel->name, &params);
	return param_info(params, i, offset, size);
}

CUfunction fake_function(CUfunction f)
{
	struct CUkern_st *k;

	fake_lock();
	for (k = kernels; k && (void *)k != (void *)f;)
		k = k->next;
	fake_unlock();
	return k && fake_cuKernelGetFunction(&f, k) ? NULL : f;
}

void fake_kernels_anew(void)
{
	kernels = NULL;
}
