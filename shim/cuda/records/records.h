/* SPDX-License-Identifier: Apache-2.0
 * Records of the objects that a program holds in the CUDA driver, and their way into a fresh one.
 *
 * A hook stands before each function of the driver. It passes the driver the present handles, and
 * records what the call did (objects.tbl). Handles are the driver's own until the first restart;
 * from then on the program's handle of an older object is looked up. No new handle may equal an
 * old one: who loads a fresh driver keeps the old one's memory reserved. */
#ifndef GCK_CUDA_RECORDS_H
#define GCK_CUDA_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "shim/cuda/base/handle_map.h"
#include "shim/cuda/real.h"
#include "shim/cuda/record_kinds.h"

/* The driver: all calls of hooks and replay go by this table. */
extern struct gck_cuda_real gck_cuda_driver;

/* Fills a table with a library's functions; NULL where find, which gets arg, finds none. */
typedef void *gck_records_find_fn(void *arg, const char *name);
void gck_cuda_records_find(struct gck_cuda_real *table, gck_records_find_fn *find, void *arg);

/* Fills a table with the hooks; where there is none, with the driver's functions. */
void gck_cuda_records_hook(struct gck_cuda_real *table);

/* Until there are hooks again: one that would only pass its calls on gives its place in the table
 * to the driver's function when it was called once. For the time before a restart. */
void gck_cuda_records_shorten(struct gck_cuda_real *table);

/* Names each function that was called behind a hook. */
typedef void gck_records_tell_fn(const char *name);
void gck_cuda_records_called(gck_records_tell_fn *tell);

/* What the modules' images have code for, as gck_cuda_state.code has it. Returns its bytes. */
size_t gck_cuda_records_code(char *list, size_t size);

/* Who steers the library's mappings (shim/cuda/apart): told for which object the calling thread's
 * following ones are, 0: for none; and of an object that has ended for good. ended: whether the
 * library has kept some of that. */
struct gck_records_maps {
	void (*maps_for)(uint64_t object);
	bool (*ended)(uint64_t object);
};
void gck_cuda_records_maps_by(const struct gck_records_maps *maps);

/* Called around functions of the driver's private tables, which no other gate is before. */
struct gck_records_gate {
	void (*enter)(void), (*leave)(void);
};
void gck_cuda_records_gate_by(const struct gck_records_gate *gate);

/* Why the objects that live now cannot be made again in a fresh driver: a text that stays until the
 * next call; NULL: they can. */
const char *gck_cuda_records_unable(void);

/* The same for what can be made again, but was not seen to come out as it was whatever the program
 * had done before (test/gpu/random). */
const char *gck_cuda_records_doubt(void);

/* Copies the contents of device memory, of arrays and of modules' variables to host memory. The GPU
 * is idle, no other call is under way, and gck_cuda_records_unable has returned NULL. */
GCK_MUST_CHECK int gck_cuda_records_save(struct gck_error *err);

/* Puts back what the program reads of the driver that has ended, whose memory is gone or reserved.
 * Before a fresh one is loaded, which must not get that place. */
GCK_MUST_CHECK int gck_cuda_records_keep(struct gck_error *err);

/* Makes all objects again. gck_cuda_driver is a fresh driver after cuInit. After a failure neither
 * the program nor this may go on. */
GCK_MUST_CHECK int gck_cuda_records_replay(struct gck_error *err);

/* Then, when memory that has no record is there again, too: makes textures, surfaces and graphs
 * again, and fills what was saved. */
GCK_MUST_CHECK int gck_cuda_records_complete(struct gck_error *err);

/* Frees what was saved. */
void gck_cuda_records_release(void);

/* Have those who asked the driver for it (NVML) close what they have open of the GPU, by end_ns;
 * and open it again, in this process or in one made from its image, where the driver is there
 * again. What cannot be opened is told on the standard error. */
GCK_MUST_CHECK int gck_cuda_records_listeners_close(int64_t end_ns, struct gck_error *err);
void gck_cuda_records_listeners_open(void);

/* ==== for the files of this folder and the generated hooks ===================================
 * One record for each object, in the order in which they were made. */

#define GCK_RECORD_PARAMETERS 12
#define GCK_RECORD_EFFECTS 3

enum gck_record_verb {
	GCK_RECORD_MAKE,
	GCK_RECORD_LEND,
	GCK_RECORD_END,
	GCK_RECORD_HOLD,
	GCK_RECORD_DROP,
	GCK_RECORD_CHANGE,
	GCK_RECORD_RESET,
	GCK_RECORD_APART,
};

/* A function that does something to objects. */
struct gck_record_function {
	const char *name;
	size_t at;              /* of gck_cuda_real: the driver's function */
	/* A letter for each parameter: h a handle, r what receives one, w a number, u the
	 * value of a state, s a text, i a
	 * module's image, p a structure, d one that describes a texture, a an array whose length
	 * follows, j and l options of compilation and of a library, v their values, c how many they
	 * are, n NULL, o another result, x what cannot be repeated. */
	const char *parameters;
	uint8_t kinds[GCK_RECORD_PARAMETERS];   /* of h */
	uint16_t sizes[GCK_RECORD_PARAMETERS];  /* of p, d and a's elements */
	struct gck_record_effect {
		enum gck_record_verb verb;
		uint8_t kind;
		int8_t parameter;   /* the object; -1: a state of what is current */
		int8_t owner;       /* the parameter that it is `of`; -1: none */
	} effects[GCK_RECORD_EFFECTS];
	int neffects;
	char thread;            /* for `change thread`: threads.c; 0: nothing */
	bool again;             /* its effects can be made again */
};

/* A call with copies of what its parameters point to. */
struct gck_record_call {
	const struct gck_record_function *function;
	uint64_t words[GCK_RECORD_PARAMETERS];
	void *copies[GCK_RECORD_PARAMETERS];
};

/* The last call that set a state of an object. */
struct gck_record_state {
	struct gck_record_state *next;
	struct gck_record_call call;
};

struct gck_record {
	struct gck_record *next, *before;
	enum gck_record_kind kind;
	uint64_t handle, now;            /* the program's, the driver's */
	struct gck_record *of, *context; /* what it ends with; what was current as it was made,
					  * which a module of a library ends with, too */
	struct gck_record *physical;     /* a mapping's */
	unsigned uses, mappings;         /* of physical memory; without uses it has no handle */
	/* The order in which objects began and ended. died: a context, module or library that has
	 * ended and must be made again for a while, since a module got its place beside it; 0:
	 * alive. */
	uint64_t born, died;
	uint64_t maps;                   /* by this number the library's mappings that were made
					  * for it are known; 0: none */
	struct gck_record_call made;
	struct gck_record_state *states; /* the oldest first */
	const char *unable;              /* the function or reason that keeps it from being made
					  * again */
	void *data;                      /* memory's contents, while they are saved */
	struct gck_record_variable *variables; /* a module's, once `looked` */
	bool looked;
	struct gck_record_storage *storage;    /* a context's: private.c */
	bool lent;                       /* known by a call that did not make it */
	bool doubted;                    /* its place may be one that something has left that has
					  * ended since, or had before */
	bool allocated;                  /* host memory, by this */
	uint64_t device;                 /* where host memory is for the GPU, once it is saved */
	struct gck_record_graph *graph;  /* a graph's, an executable graph's: graph.h */
	struct gck_record_user *user;    /* an object's that graphs hold: users.c */
	bool recorded;                   /* events.c */
	unsigned recorded_age;
	double recorded_ms;
};

/* How many drivers were there before this one. */
extern _Atomic unsigned gck_records_age;

/* ---- note.c: the library's mappings ---------------------------------------------------------- */

/* What follows is for a new object, whose number is returned; for this one; for none. */
uint64_t gck_record_maps_new(void);
void gck_record_maps_for(uint64_t object);
void gck_record_maps_ended(uint64_t object);
/* Whether the library has kept mappings of objects that have ended. */
bool gck_record_maps_left(void);

/* ---- record.c: the table. All but `now` with the lock ---------------------------------------- */

void gck_records_lock(void);
void gck_records_unlock(void);
struct gck_record *gck_records_first(void);
/* A kernel's handle is a function's, too. */
struct gck_record *gck_record_find(enum gck_record_kind kind, uint64_t handle);
/* By the driver's value, also memory without a handle. */
struct gck_record *gck_record_find_now(enum gck_record_kind kind, uint64_t now);
struct gck_record *gck_record_add(enum gck_record_kind kind, uint64_t handle);
/* Ends the record and all that are `of` it. */
void gck_record_end(struct gck_record *r);
/* One use less; the last one ends it, but for memory that is mapped. */
void gck_record_drop(struct gck_record *r);
void gck_record_hold(struct gck_record *r);
void gck_record_set_now(struct gck_record *r, uint64_t now);
/* A module that a library has in a context, or the function there of one of its kernels. */
bool gck_record_is_library_part(const struct gck_record *r);
/* The context that a module is loaded into, and its image. */
struct gck_record *gck_record_context_of(const struct gck_record *module);
const char *gck_record_image_of(const struct gck_record *module);
/* The mapping or reservation that has the address; NULL: none. */
struct gck_record *gck_record_at(enum gck_record_kind kind, uint64_t address);
/* The driver's value of the program's handle; takes the lock. Others than objects' stay. */
uint64_t gck_record_now(enum gck_record_kind kind, uint64_t handle);

static inline uint64_t gck_now(enum gck_record_kind kind, uint64_t handle)
{
	return atomic_load_explicit(&gck_records_age, memory_order_relaxed)
		       ? gck_record_now(kind, handle) : handle;
}

/* ---- call.c: repeating calls ----------------------------------------------------------------- */

/* Copies what the parameters point to. The name of what cannot be repeated; NULL: all is copied. */
const char *gck_record_keep_call(struct gck_record_call *c, const struct gck_record_function *f,
				 const uint64_t *words);
void gck_record_forget_call(struct gck_record_call *c);
/* Calls the driver. *result: the first that it receives. */
CUresult gck_record_repeat(const struct gck_record_call *c, const struct gck_record *r,
			   uint64_t *result);
/* Whether there was a restart, and one of a launch's attributes is an event, which would have to be
 * translated. */
bool gck_record_attributes_refused(const CUlaunchAttribute *attributes, unsigned n);
/* Whether two calls set the same state, to whatever value. */
bool gck_record_same_state(const struct gck_record_call *a, const struct gck_record_call *b);
/* A copy of a text of the driver's, which stays: a program may keep what it is given. */
const char *gck_record_text(const char *text);

/* ---- note.c: what a call did ----------------------------------------------------------------- */

/* Before a call that may end objects: their handles are free as soon as the driver has done it.
 * After the call, with its result, which is returned. */
void gck_record_begin(const struct gck_record_function *f, const uint64_t *words,
		      struct gck_record **ending);
CUresult gck_record_note(const struct gck_record_function *f, const uint64_t *words,
			 struct gck_record *ending, CUresult rc);
/* A function that nothing can repeat has been called; NULL: none. */
const char *gck_record_spoiled(void);
/* The context that the driver says is current; NULL: none that is recorded. With the lock. */
struct gck_record *gck_record_current(void);

/* A list of kernels or functions: each is looked up by its name. */
typedef CUresult gck_record_get_kernel(CUkernel *kernel, CUlibrary library, const char *name);
typedef CUresult gck_record_get_function(CUfunction *function, CUmodule module, const char *name);
CUresult gck_record_list_kernels(CUkernel *list, unsigned n, CUlibrary library,
				 gck_record_get_kernel *get);
CUresult gck_record_list_functions(CUfunction *list, unsigned n, CUmodule module,
				   gck_record_get_function *get);

/* ---- threads.c: current contexts ------------------------------------------------------------- */

struct gck_record_thread {
	unsigned age;
};

extern __thread struct gck_record_thread gck_record_thread
	__attribute__((tls_model("initial-exec")));

/* Gives the calling thread, which comes from before a restart, its current contexts again. */
void gck_record_thread_back(void);
static inline void gck_record_enter(void)
{
	if (gck_record_thread.age != atomic_load_explicit(&gck_records_age, memory_order_relaxed))
		gck_record_thread_back();
}
/* The capture mode that the thread is about to set. */
void gck_record_thread_wants(const uint64_t *words);
/* After a call that changed the calling thread's state. */
void gck_record_thread_note(char what, const uint64_t *words);
/* Whether a thread's stack of contexts has one that has ended. */
bool gck_record_threads_unable(void);

/* ---- replay.c -------------------------------------------------------------------------------- */

/* A context of a device; NULL: there is none. A context's device. */
const struct gck_record *gck_record_context_on(uint64_t device);
uint64_t gck_record_device_of(const struct gck_record *context);

/* ---- memory.c -------------------------------------------------------------------------------- */

/* Why memory or a mapping of it cannot be made again; NULL: it can. */
const char *gck_record_memory_unable(const struct gck_record *r);
/* Whether a context can use memory at an address, also such that has no record; NULL: whether there
 * is any. */
bool gck_record_memory_usable(const struct gck_record *context, CUdeviceptr at);
/* Copies memory's contents to r->data, or from there when all is mapped again; then it is held as
 * often as it was. */
CUresult gck_record_memory_save(struct gck_record *physical);
CUresult gck_record_memory_fill(struct gck_record *physical);

/* ---- host.c ---------------------------------------------------------------------------------- */

/* Pinned memory: note registers or unregisters it, and records that. */
typedef CUresult gck_record_register(void *p, size_t size, unsigned flags);
typedef CUresult gck_record_unregister(void *p);
CUresult gck_record_host_allocate(void **at, size_t size, unsigned flags,
				  gck_record_register *note);
CUresult gck_record_host_free(void *p, gck_record_unregister *note);
CUresult gck_record_host_register(void *p, size_t size, unsigned flags, gck_record_register *note);
CUresult gck_record_host_unregister(void *p, gck_record_unregister *note);
/* Frees it, if it was allocated here. */
void gck_record_host_forget(const struct gck_record *r);
/* Why it cannot be registered again; NULL: it can. */
const char *gck_record_host_unable(const struct gck_record *r);
/* Where it is for the GPU. In its context. */
CUresult gck_record_host_device(const struct gck_record *r, CUdeviceptr *at);

/* ---- textures.c ------------------------------------------------------------------------------ */

/* The array that a texture means: the driver's handle for the program's, with the lock; the same
 * after a restart, which takes the lock; and back. */
void gck_record_resource(CUDA_RESOURCE_DESC *d);
void gck_record_resource_now(CUDA_RESOURCE_DESC *d);
void gck_record_resource_back(CUDA_RESOURCE_DESC *d);
/* Why an array, a texture or a surface cannot be made again; NULL: it can. */
const char *gck_record_texture_unable(const struct gck_record *r);
/* Copies an array's contents to r->data, or from there, in its context. */
CUresult gck_record_array_copy(struct gck_record *r, bool save);
/* Makes a texture or surface again, if possible with its number, in its context. */
CUresult gck_record_texture_make(const struct gck_record *r, uint64_t *now);

/* ---- pools.c --------------------------------------------------------------------------------- */

/* Why a pool cannot be made again; NULL: it can. Stores its settings in r->data; sets them. */
const char *gck_record_pool_unable(const struct gck_record *r);
CUresult gck_record_pool_save(struct gck_record *r);
CUresult gck_record_pool_set(struct gck_record *r);

/* ---- graph_nodes.c: nodes, and graphs in nodes ----------------------------------------------- */

/* The driver's value of a node or of a graph in one, and the program's handle. With the lock. */
uint64_t gck_record_node_now(uint64_t handle);
uint64_t gck_record_node_handle(uint64_t now);
/* The program's handle of any object; takes the lock. */
uint64_t gck_record_handle(enum gck_record_kind kind, uint64_t now);
/* Nodes that the driver is given, which _done frees, and nodes that it has returned. */
const CUgraphNode *gck_record_nodes_now(const CUgraphNode *nodes, size_t n);
void gck_record_nodes_done(const CUgraphNode *now, const CUgraphNode *nodes);
void gck_record_nodes_back(CUgraphNode *nodes, size_t n);
/* A list of the driver's; stays until the thread's next call. */
void gck_record_node_list_back(const CUgraphNode **nodes, size_t n);
void gck_record_node_params_now(CUgraphNodeParams *p);
void gck_record_node_params_back(CUgraphNodeParams *p, const CUgraphNodeParams *now);
void gck_record_attribute_now(CUkernelNodeAttrID which, CUkernelNodeAttrValue *value);
void gck_record_attribute_back(CUkernelNodeAttrID which, CUkernelNodeAttrValue *value);
CUresult gck_record_graph_destroy(CUgraph graph, CUresult (*note)(CUgraph graph));
CUresult gck_record_node_destroy(CUgraphNode node);
CUresult gck_record_find_in_clone(CUgraphNode *found, CUgraphNode node, CUgraph clone);
/* The function of a kernel's node is recorded if only its module is known; get records it. */
void gck_record_kernel_known(CUgraphNode node, gck_record_get_function *get);
void gck_record_graph_captured(CUgraph graph, gck_record_get_function *get);
/* Handles after a restart: none is known; one is. With the lock. */
void gck_record_nodes_forget(void);
void gck_record_node_set(uint64_t handle, uint64_t now);

/* ---- graph_exec.c ---------------------------------------------------------------------------- */

/* A graph or an executable graph was made of another. */
void gck_record_graph_made(struct gck_record *r, uint64_t of);
/* Objects of the program that graphs hold. The first forgets those that have ended, with the lock.
 * The last two: a graph was copied into a new node; a node was added. */
void gck_record_users_forget(void);
CUresult gck_record_user_create(CUuserObject *object, void *ptr, CUhostFn destroy, unsigned n,
				unsigned flags);
CUresult gck_record_user_retain(CUuserObject object, unsigned n);
CUresult gck_record_user_release(CUuserObject object, unsigned n);
CUresult gck_record_graph_retain(CUgraph graph, CUuserObject object, unsigned n, unsigned flags);
CUresult gck_record_graph_release(CUgraph graph, CUuserObject object, unsigned n);
void gck_record_child_added(CUgraphNode node, CUgraph child);
void gck_record_node_added(CUgraphNode node, const CUgraphNodeParams *p,
			   gck_record_get_function *get);
void gck_record_graph_forget(struct gck_record *r);
/* The node by which the driver knows that of an executable graph. */
CUgraphNode gck_record_executable_node(CUgraphExec executable, CUgraphNode node);
/* The node of the graph that the executable one is made again from; NULL: none. It has been changed
 * alike, with this result. */
CUgraphNode gck_record_same_node(CUgraphExec executable, CUgraphNode node);
void gck_record_same_done(CUgraphExec executable, CUresult rc);
/* After such changes. */
void gck_record_executable_enabled(CUgraphExec executable, CUgraphNode node, unsigned enabled);
void gck_record_executable_child(CUgraphExec executable, CUgraphNode node, CUgraph child);
void gck_record_executable_updated(CUgraphExec executable, CUgraph graph);

/* ---- graph_ask.c, graph_make.c --------------------------------------------------------------- */

/* Why a graph cannot be made again; NULL: it can, and what it holds is stored, since memory without
 * a record may be away later. Makes it of that. A graph is ready if all that it holds is older, or
 * it is made. */
const char *gck_record_graph_unable(struct gck_record *r);
bool gck_record_graph_is_ready(const struct gck_record *r);
CUresult gck_record_graph_make(struct gck_record *r, uint64_t *now);

/* ---- private.c ------------------------------------------------------------------------------- */

/* The driver's private tables. */
CUresult gck_record_export_table(const void **at, const CUuuid *id, gck_record_get_function *get);
const char *gck_record_private_unable(void);
/* Stores what programs read there; puts that and the tables where they were; leads the tables to
 * a fresh driver. */
GCK_MUST_CHECK int gck_record_private_save(struct gck_error *err);
GCK_MUST_CHECK int gck_record_private_keep(struct gck_error *err);
GCK_MUST_CHECK int gck_record_private_again(struct gck_error *err);
/* The program's handle of a device's primary context, of which `now` is the driver's; the same of
 * one that may have ended, 0: it is none; and the driver's of such a handle, while others stay.
 * With the lock. */
uint64_t gck_record_primary(uint64_t device, uint64_t now);
uint64_t gck_record_primary_of(uint64_t now);
uint64_t gck_record_primary_now(uint64_t handle);
/* What programs keep beside a context: forgets it, and puts it into the fresh driver. */
void gck_record_storage_forget(struct gck_record *context);
CUresult gck_record_storage_again(const struct gck_record *context);

/* ---- events.c, variables.c ------------------------------------------------------------------- */

void gck_record_event_recorded(struct gck_record *r);
/* Stores when events were recorded, for questions after the restart. */
GCK_MUST_CHECK int gck_record_events_save(struct gck_error *err);
CUresult gck_record_elapsed(float *ms, CUevent start, CUevent end, bool second);

struct gck_record_variable {
	struct gck_record_variable *next;
	uint64_t address;
	size_t size;
	void *data;
	char name[];
};

/* Where a module's image is, and its bytes: of PTX with its NUL, of a cubin or a fatbin. NULL: of
 * another kind. */
const void *gck_record_image(const char *image, size_t *size);
bool gck_record_is_fatbin(const char *image);

/* A cubin names all its variables, also those of one file or function, and the driver finds each by
 * that name. Why the module cannot be made again; NULL: it can. */
bool gck_record_is_cubin(const char *image);
GCK_MUST_CHECK const char *gck_record_cubin_variables(const char *image, void (*found)(void *arg,
						      const char *name, size_t n), void *arg);

/* The names of the variables of a module's image; of all parts of a fatbin, of which the driver has
 * loaded one. Why the module cannot be made again, and then there are none; NULL: it can. */
GCK_MUST_CHECK const char *gck_record_variables(const char *image,
						struct gck_record_variable **list);
#define GCK_RECORD_UNKNOWN "a module whose variables are not known"
#define GCK_RECORD_MANAGED "a module with managed variables"
#define GCK_RECORD_ALLOCATES "a module whose kernels allocate memory (malloc, new)"
void gck_record_variables_free(struct gck_record_variable *list);

/* ---- graphs: what a graph holds --------------------------------------------------------------
 * The driver is asked for it at a checkpoint, so calls that make and change nodes need not be
 * recorded. It cannot be asked for an executable graph: such a one has a graph of its own, a copy
 * of that which it was made of, in which each change is made, too. */

#define GCK_GRAPH_ATTRIBUTES 20 /* ids of attributes of kernels' nodes are less */

struct gck_graph_node {
	uint64_t handle, now;     /* the program's, 0: it does not know it; the driver's */
	CUgraphNodeType type;
	bool disabled;
	struct gck_graph *child;
	const struct gck_record *function, *event, *source, *target; /* the last two: arrays */
	const struct gck_record *context;  /* NULL: any */
	union {
		CUDA_KERNEL_NODE_PARAMS kernel;
		CUDA_MEMCPY3D memcpy;
		CUDA_MEMSET_NODE_PARAMS memset;
		CUDA_HOST_NODE_PARAMS host;
		CUDA_BATCH_MEM_OP_NODE_PARAMS values; /* in memory */
	} of;
	void **arguments;         /* of a kernel: pointers, and what they point to, behind each */
	size_t narguments, bytes; /* other; the operations of `values` */
	struct gck_graph_attributes {
		bool known[GCK_GRAPH_ATTRIBUTES];
		CUkernelNodeAttrValue v[GCK_GRAPH_ATTRIBUTES];
	} *attributes;
};

struct gck_graph {
	uint64_t handle, now;
	struct gck_graph_node *nodes;
	size_t n;
	struct gck_graph_edge {
		size_t from, to;
		CUgraphEdgeData data;
	} *edges;
	size_t nedges;
};

/* What is kept of a graph and of an executable one, besides its record. */
struct gck_record_graph {
	struct gck_graph *asked;  /* by the last question why not, until it is made again */
	uint64_t own;             /* an executable graph's own graph; 0: it could not be copied */
	cuuint64_t flags;         /* an executable graph's, as long as `asked` */
	bool again;               /* it was made again: by `pairs` are its nodes known */
	/* Nodes of the program: those of an executable graph's own graph, which are disabled; of a
	 * graph that is a copy: which nodes are copies of which. */
	struct gck_cuda_handle_map pairs, disabled;
};

/* ---- graph_ask.c ----------------------------------------------------------------------------- */

/* Asks the driver what a graph holds. Its context, if it can be any: that of the record. handles:
 * by nodes; NULL: as the program knows them. NULL: *why cannot be made again. */
struct gck_graph *gck_graph_ask(uint64_t now, const struct gck_record *r,
				const struct gck_cuda_handle_map *handles, const char **why);
void gck_graph_free(struct gck_graph *g);
/* The nodes of a graph, to be freed; NULL: the driver does not tell. A graph in a node; 0: none. */
CUgraphNode *gck_graph_nodes(uint64_t graph, size_t *n);
/* Edges: the n nodes where they begin, then those where they end; both to be freed. */
bool gck_graph_edges(uint64_t graph, CUgraphNode **ends, CUgraphEdgeData **data, size_t *n);
CUgraphNodeType gck_graph_type(CUgraphNode node);
/* The memory of an operation on a value; 0: it has none. */
CUdeviceptr gck_graph_value_at(const CUstreamBatchMemOpParams *p);
uint64_t gck_graph_child(CUgraphNode node);

/* ---- users.c --------------------------------------------------------------------------------- */

struct gck_record_user {
	CUhostFn destroy;
	void *ptr;
	_Atomic int state;
};

/* gck_user_end is what the driver calls with it. */
struct gck_record_user *gck_user_new(CUhostFn destroy, void *ptr);
void gck_user_end(void *user);
bool gck_user_has_ended(const struct gck_record *object);
const char *gck_record_user_unable(const struct gck_record *r);
/* A graph has n references more, or less. 0, NULL: of all graphs; to all objects. */
void gck_graph_hold(uint64_t graph, struct gck_record *object, unsigned n);
void gck_graph_let(uint64_t graph, const struct gck_record *object, unsigned n);
bool gck_graph_any_holds(void);
/* Those of another graph, too; the driver knows. Instead of its own; the driver is told. */
void gck_graph_hold_alike(uint64_t from, uint64_t to);
void gck_graph_hold_same(uint64_t from, uint64_t to);
/* Whether all that the graph holds began before. */
bool gck_graph_holds_older(uint64_t graph, uint64_t born);
/* In a fresh driver: makes an object; the graph that was made in place of another holds what that
 * held; at the end lets go of what no program has. */
CUresult gck_record_user_make(const struct gck_record *r, uint64_t *now);
CUresult gck_graph_hold_again(uint64_t before, uint64_t now);
CUresult gck_record_user_let(const struct gck_record *r);

/* ---- graph_nodes.c --------------------------------------------------------------------------- */

/* Sets a value; ends the process without memory. */
void gck_graph_put(struct gck_cuda_handle_map *map, uint64_t key, uint64_t value);
uint64_t gck_graph_get(const struct gck_cuda_handle_map *map, uint64_t key); /* 0: none */

#endif
