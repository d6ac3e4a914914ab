/* SPDX-License-Identifier: Apache-2.0
 * The tables of an image's members, with the range that each may have. */
#include "config.h"

#include "shim/process/image/image_fields.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "shim/link.h"

#define MAX_ADDRESS (1ull << 56)
#define MAX_SIZE INT64_MAX
#define MAX_ITEMS (1u << 20)
#define MAX_FILES 65536
#define MAX_THREADS 4096
#define MAX_PACKET (64u << 20)
#define MAX_MESSAGES 65536 /* the kernel's HARD_MSGMAX */
#define MAX_SEMAPHORES 32767 /* also of their values */
#define MAX_XSTATE 65536
#define MAX_TERMINAL_OUTPUT (1u << 20)
#define PID_MIN 1
#define PID_LAST 4194304 /* the kernel's; the preload gives numbers above it, too */

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define SIZE(s, f) sizeof(((struct s *)0)->f)
#define INT(s, f, lo, hi) {#f, GCK_FIELD_INT, offsetof(struct s, f), SIZE(s, f), 0, lo, hi, NULL}
#define HEX(s, f, hi) {#f, GCK_FIELD_HEX, offsetof(struct s, f), SIZE(s, f), 0, 0, hi, NULL}
#define BOOL(s, f) {#f, GCK_FIELD_BOOL, offsetof(struct s, f), SIZE(s, f), 0, 0, 0, NULL}
#define TEXT(s, f, lo) {#f, GCK_FIELD_TEXT, offsetof(struct s, f), 0, 0, lo, PATH_MAX, NULL}
#define BLOB(s, f, n, lo, hi) \
	{#f, GCK_FIELD_BLOB, offsetof(struct s, f), 1, offsetof(struct s, n), lo, hi, NULL}
#define FIXED(s, f) {#f, GCK_FIELD_FIXED, offsetof(struct s, f), SIZE(s, f), 0, 0, 0, NULL}
#define HASH(s, f) {#f, GCK_FIELD_HASH, offsetof(struct s, f), 0, 0, 0, 0, NULL}
#define GROUPS_AS(key, s, f) {key, GCK_FIELD_GROUPS, offsetof(struct s, f), 0, 0, 0, 0, NULL}
#define GROUPS(s, f) GROUPS_AS(#f, s, f)
#define MASKS(s, f) {#f, GCK_FIELD_MASKS, offsetof(struct s, f), 0, 0, 0, 0, NULL}
#define LIST(s, f, n, lo, hi, shape) \
	{#f, GCK_FIELD_LIST, offsetof(struct s, f), 0, offsetof(struct s, n), lo, hi, &(shape)}
#define ARRAY(s, f, shape) \
	{#f, GCK_FIELD_ARRAY, offsetof(struct s, f), COUNT(((struct s *)0)->f), 0, 0, 0, &(shape)}
#define SHAPE(n, s, f) SHAPE_GROWN(n, s, f, 0)
#define SHAPE_GROWN(n, s, f, optional) {n, sizeof(struct s), COUNT(f), f, optional}

static const struct gck_field pending_fields[] = {
	FIXED(gck_pending, info),
};
static const struct gck_shape pending_shape = SHAPE("pending signal", gck_pending, pending_fields);

static const struct gck_field thread_fields[] = {
	INT(gck_thread, vtid, PID_MIN, INT32_MAX),
	INT(gck_thread, rtid, PID_MIN, PID_LAST),
	FIXED(gck_thread, name),
	FIXED(gck_thread, regs),
	BLOB(gck_thread, xstate, xstate_size, 576, MAX_XSTATE),
	HEX(gck_thread, sigmask, UINT64_MAX),
	HEX(gck_thread, tid_address, MAX_ADDRESS),
	HEX(gck_thread, robust_head, MAX_ADDRESS),
	INT(gck_thread, robust_size, 0, 4096),
	HEX(gck_thread, rseq.address, MAX_ADDRESS),
	INT(gck_thread, rseq.size, 0, 4096),
	INT(gck_thread, rseq.signature, 0, UINT32_MAX),
	HEX(gck_thread, altstack.sp, MAX_ADDRESS),
	INT(gck_thread, altstack.size, 0, MAX_SIZE),
	HEX(gck_thread, altstack.flags, UINT32_MAX),
	LIST(gck_thread, pending, npending, 0, MAX_ITEMS, pending_shape),
	BLOB(gck_thread, affinity, affinity_size, 0, 8192),
	INT(gck_thread, nice, -20, 19),
	INT(gck_thread, policy, 0, INT32_MAX),
	INT(gck_thread, priority, 0, 99),
	FIXED(gck_thread, sched),
	INT(gck_thread, io_priority, 0, UINT16_MAX),
};
static const struct gck_shape thread_shape = SHAPE_GROWN("thread", gck_thread, thread_fields, 2);

static const struct gck_field map_fields[] = {
	HEX(gck_map, start, MAX_ADDRESS),
	HEX(gck_map, end, MAX_ADDRESS),
	INT(gck_map, prot, 0, 7),
	INT(gck_map, kind, 0, GCK_MAP_RING),
	INT(gck_map, flags, 0, GCK_MAP_ALL),
	INT(gck_map, content, -1, INT32_MAX),
	INT(gck_map, object, -1, INT32_MAX),
	INT(gck_map, offset, 0, MAX_SIZE),
	TEXT(gck_map, name, 1),
	HEX(gck_map, ring, UINT64_MAX),
};
static const struct gck_shape map_shape = SHAPE_GROWN("mapping", gck_map, map_fields, 1);

static const struct gck_field content_fields[] = {
	TEXT(gck_content, path, 1),
	HEX(gck_content, device, UINT64_MAX),
	HEX(gck_content, inode, UINT64_MAX),
	INT(gck_content, size, 0, MAX_SIZE),
	INT(gck_content, mtime_ns, INT64_MIN, MAX_SIZE),
	BOOL(gck_content, carried),
	GROUPS_AS("windows", gck_content, groups),
	INT(gck_content, owner, 0, UINT32_MAX),
};
static const struct gck_shape content_shape =
	SHAPE_GROWN("content", gck_content, content_fields, 1);

static const struct gck_field object_fields[] = {
	TEXT(gck_object, name, 1),
	BOOL(gck_object, has_path),
	INT(gck_object, mode, 0, 07777),
	HEX(gck_object, seals, UINT32_MAX),
	INT(gck_object, size, 0, MAX_SIZE),
	HEX(gck_object, device, UINT64_MAX),
	HEX(gck_object, inode, UINT64_MAX),
	GROUPS_AS("windows", gck_object, groups),
	INT(gck_object, mtime_ns, INT64_MIN, MAX_SIZE),
	INT(gck_object, owner, 0, UINT32_MAX),
	INT(gck_object, shared, 0, INT32_MAX),
	BOOL(gck_object, elsewhere),
	INT(gck_object, segment, 0, UINT32_MAX),
	TEXT(gck_object, ranks, 0),
	INT(gck_object, number, 0, UINT32_MAX),
};
static const struct gck_shape object_shape = SHAPE_GROWN("object", gck_object, object_fields, 7);

static const struct gck_field message_fields[] = {
	INT(gck_ipc_message, type, 1, INT64_MAX),
	INT(gck_ipc_message, size, 0, MAX_PACKET),
};
static const struct gck_shape message_shape = SHAPE("message", gck_ipc_message, message_fields);

static const struct gck_field ipc_fields[] = {
	INT(gck_ipc, kind, 0, GCK_IPC_KINDS - 1),
	INT(gck_ipc, id, 0, INT32_MAX),
	INT(gck_ipc, number, 0, INT32_MAX),
	HEX(gck_ipc, key, UINT32_MAX),
	INT(gck_ipc, mode, 0, 0177777),
	INT(gck_ipc, size, 0, MAX_SIZE),
	INT(gck_ipc, object, -1, INT32_MAX),
	BOOL(gck_ipc, used),
	BLOB(gck_ipc, data, data_size, 0, MAX_PACKET),
	LIST(gck_ipc, messages, nmessages, 0, MAX_ITEMS, message_shape),
	TEXT(gck_ipc, ranks, 0),
	INT(gck_ipc, common, 0, UINT32_MAX),
	BOOL(gck_ipc, elsewhere),
};
static const struct gck_shape ipc_shape = SHAPE_GROWN("System V object", gck_ipc, ipc_fields, 3);

static const struct gck_field undo_fields[] = {
	INT(gck_undo, id, 0, INT32_MAX),
	INT(gck_undo, semaphore, 0, MAX_SEMAPHORES),
	INT(gck_undo, value, -MAX_SEMAPHORES - 1, MAX_SEMAPHORES),
};
static const struct gck_shape undo_shape = SHAPE("undo value", gck_undo, undo_fields);

static const struct gck_field epoll_fields[] = {
	INT(gck_epoll_entry, fd, 0, INT32_MAX),
	HEX(gck_epoll_entry, events, UINT32_MAX),
	HEX(gck_epoll_entry, data, UINT64_MAX),
};
static const struct gck_shape epoll_shape = SHAPE("epoll entry", gck_epoll_entry, epoll_fields);

static const struct gck_field right_fields[] = {
	INT(gck_right, fd, 0, INT32_MAX),
};
static const struct gck_shape right_shape = SHAPE("right", gck_right, right_fields);

static const struct gck_field packet_fields[] = {
	INT(gck_packet, size, 0, MAX_PACKET),
	BLOB(gck_packet, from, from_size, 0, GCK_SOCKET_NAME_MAX + 1),
	LIST(gck_packet, rights, nrights, 0, GCK_RIGHTS_MAX, right_shape),
	INT(gck_packet, priority, 0, UINT32_MAX),
};
static const struct gck_shape packet_shape = SHAPE_GROWN("packet", gck_packet, packet_fields, 3);

static const struct gck_field connection_fields[] = {
	HEX(gck_connection, id, UINT64_MAX),
};
static const struct gck_shape connection_shape =
	SHAPE("connection", gck_connection, connection_fields);

static const struct gck_field option_fields[] = {
	INT(gck_socket_option, name, 0, INT32_MAX),
	BLOB(gck_socket_option, value, size, 4, 16),
};
static const struct gck_shape option_shape =
	SHAPE("socket option", gck_socket_option, option_fields);

static const struct gck_field lock_fields[] = {
	INT(gck_lock, kind, 0, GCK_LOCK_LEASE),
	BOOL(gck_lock, exclusive),
	INT(gck_lock, start, 0, MAX_SIZE),
	INT(gck_lock, length, 0, MAX_SIZE),
};
static const struct gck_shape lock_shape = SHAPE("lock", gck_lock, lock_fields);

static const struct gck_field watch_fields[] = {
	INT(gck_watch, wd, 0, GCK_WATCH_MAX),
	HEX(gck_watch, mask, UINT32_MAX),
	HEX(gck_watch, ignored, UINT32_MAX),
	HEX(gck_watch, flags, UINT32_MAX),
	TEXT(gck_watch, path, 1),
	HEX(gck_watch, was.inode, UINT64_MAX),
	INT(gck_watch, was.owner, 0, UINT32_MAX),
};
static const struct gck_shape watch_shape = SHAPE("watch", gck_watch, watch_fields);

static const struct gck_field terminal_fields[] = {
	FIXED(gck_terminal, settings),
	FIXED(gck_terminal, size),
	BOOL(gck_terminal, packets),
	BOOL(gck_terminal, locked),
	INT(gck_terminal, number, 0, INT32_MAX),
	INT(gck_terminal, session, 0, PID_LAST),
	INT(gck_terminal, foreground, 0, PID_LAST),
	BLOB(gck_terminal, input, input_size, 0, 3 * GCK_TERMINAL_WAITS),
	BLOB(gck_terminal, output, output_size, 0, MAX_TERMINAL_OUTPUT),
};
static const struct gck_shape terminal_shape = SHAPE("terminal", gck_terminal, terminal_fields);

static const struct gck_field buffer_fields[] = {
	HEX(gck_ring_buffer, address, MAX_ADDRESS),
	INT(gck_ring_buffer, size, 0, UINT32_MAX),
};
static const struct gck_shape buffer_shape =
	SHAPE("registered buffer", gck_ring_buffer, buffer_fields);

static const struct gck_field registered_fields[] = {
	INT(gck_ring_file, fd, -1, INT32_MAX),
};
static const struct gck_shape registered_shape =
	SHAPE("registered file", gck_ring_file, registered_fields);

static const struct gck_field ring_fields[] = {
	INT(gck_ring, submissions, 1, 1 << 15),
	INT(gck_ring, completions, 1, 1 << 16),
	INT(gck_ring, submitted, 0, GCK_RING_MOST),
	BOOL(gck_ring, thread),
	FIXED(gck_ring, offsets),
	LIST(gck_ring, buffers, nbuffers, 0, GCK_RING_TABLE, buffer_shape),
	LIST(gck_ring, files, nfiles, 0, GCK_RING_TABLE, registered_shape),
};
static const struct gck_shape ring_shape = SHAPE("io_uring", gck_ring, ring_fields);

static const struct gck_field file_fields[] = {
	INT(gck_file, kind, 0, GCK_FD_FANOTIFY),
	HEX(gck_file, flags, UINT32_MAX),
	INT(gck_file, offset, INT64_MIN, MAX_SIZE),
	TEXT(gck_file, path, 0),
	INT(gck_file, size, 0, MAX_SIZE),
	INT(gck_file, least, 0, MAX_SIZE),
	INT(gck_file, mtime_ns, INT64_MIN, MAX_SIZE),
	INT(gck_file, mode, 0, 0177777),
	BOOL(gck_file, unlinked),
	BOOL(gck_file, whole),
	BOOL(gck_file, written),
	HASH(gck_file, prefix),
	GROUPS(gck_file, data),
	INT(gck_file, data_size, 0, MAX_SIZE),
	HEX(gck_file, id, UINT64_MAX),
	BLOB(gck_file, name, name_size, 0, GCK_SOCKET_NAME_MAX),
	INT(gck_file, sock_type, 0, SOCK_SEQPACKET),
	INT(gck_file, shutdown, 0, 3),
	INT(gck_file, peer, 0, 2),
	BOOL(gck_file, write_end),
	INT(gck_file, pipe_size, 0, 1 << 30),
	HEX(gck_file, count, UINT64_MAX),
	BOOL(gck_file, semaphore),
	INT(gck_file, clock, 0, 15),
	INT(gck_file, value_ns, 0, MAX_SIZE),
	INT(gck_file, interval_ns, 0, MAX_SIZE),
	HEX(gck_file, ticks, UINT64_MAX),
	HEX(gck_file, sigmask, UINT64_MAX),
	INT(gck_file, object, -1, INT32_MAX),
	LIST(gck_file, entries, nentries, 0, MAX_ITEMS, epoll_shape),
	LIST(gck_file, packets, npackets, 0, MAX_ITEMS, packet_shape),
	LIST(gck_file, options, noptions, 0, 64, option_shape),
	HEX(gck_file, was.inode, UINT64_MAX),
	INT(gck_file, was.owner, 0, UINT32_MAX),
	INT(gck_file, shared, 0, INT32_MAX),
	LIST(gck_file, locks, nlocks, 0, MAX_ITEMS, lock_shape),
	LIST(gck_file, queue, nqueue, 0, MAX_ITEMS, connection_shape),
	HEX(gck_file, to, UINT64_MAX),
	LIST(gck_file, terminals, nterminals, 0, 1, terminal_shape),
	INT(gck_file, process, 0, PID_LAST),
	INT(gck_file, peer_pid, 0, INT32_MAX),
	LIST(gck_file, watches, nwatches, 0, MAX_ITEMS, watch_shape),
	HEX(gck_file, init_flags, UINT32_MAX),
	HEX(gck_file, event_flags, UINT32_MAX),
	BOOL(gck_file, async),
	INT(gck_file, signo, 0, 64),
	INT(gck_file, owner, 0, PID_LAST),
	INT(gck_file, owner_type, F_OWNER_TID, F_OWNER_PGRP),
	INT(gck_file, mq_most, 0, MAX_MESSAGES),
	INT(gck_file, mq_size, 0, MAX_PACKET),
	LIST(gck_file, rings, nrings, 0, 1, ring_shape),
};
static const struct gck_shape file_shape = SHAPE_GROWN("file", gck_file, file_fields, 21);

static const struct gck_field fd_fields[] = {
	INT(gck_fd, fd, 0, INT32_MAX),
	BOOL(gck_fd, cloexec),
	INT(gck_fd, file, 0, UINT32_MAX),
	BOOL(gck_fd, in_flight),
};
static const struct gck_shape fd_shape = SHAPE_GROWN("descriptor", gck_fd, fd_fields, 1);

static const struct gck_field action_fields[] = {
	HEX(gck_sigaction, handler, UINT64_MAX),
	HEX(gck_sigaction, flags, UINT64_MAX),
	HEX(gck_sigaction, restorer, UINT64_MAX),
	HEX(gck_sigaction, mask, UINT64_MAX),
};
static const struct gck_shape action_shape = SHAPE("action", gck_sigaction, action_fields);

static const struct gck_field itimer_fields[] = {
	INT(gck_itimer, value_ns, 0, MAX_SIZE),
	INT(gck_itimer, interval_ns, 0, MAX_SIZE),
};
static const struct gck_shape itimer_shape = SHAPE("interval timer", gck_itimer, itimer_fields);

static const struct gck_field timer_fields[] = {
	INT(gck_posix_timer, id, 0, INT32_MAX),
	INT(gck_posix_timer, clock, 0, 15),
	INT(gck_posix_timer, notify, 0, 4),
	INT(gck_posix_timer, signo, 0, 64),
	INT(gck_posix_timer, vtid, 0, INT32_MAX),
	HEX(gck_posix_timer, sigval, UINT64_MAX),
	INT(gck_posix_timer, value_ns, 0, MAX_SIZE),
	INT(gck_posix_timer, interval_ns, 0, MAX_SIZE),
};
static const struct gck_shape timer_shape = SHAPE("timer", gck_posix_timer, timer_fields);

static const struct gck_field attribute_fields[] = {
	TEXT(gck_attribute, name, 1),
	HEX(gck_attribute, value, UINT64_MAX),
};
static const struct gck_shape attribute_shape = SHAPE("attribute", gck_attribute, attribute_fields);

static const struct gck_field child_fields[] = {
	INT(gck_child, vpid, PID_MIN, INT32_MAX),
	INT(gck_child, rpid, PID_MIN, PID_LAST),
	INT(gck_child, status, 0, UINT16_MAX),
	INT(gck_child, exit_signal, 0, 64),
	INT(gck_child, group, 0, INT32_MAX),
	BOOL(gck_child, session),
	BOOL(gck_child, runs),
	BOOL(gck_child, orphan),
	INT(gck_child, leader, 0, INT32_MAX),
};
static const struct gck_shape child_shape = SHAPE_GROWN("child", gck_child, child_fields, 2);

struct limit {
	uint64_t soft, hard;
};
static const struct gck_field limit_fields[] = {
	HEX(limit, soft, UINT64_MAX),
	HEX(limit, hard, UINT64_MAX),
};
static const struct gck_shape limit_shape = SHAPE("limit", limit, limit_fields);

static const struct gck_field image_fields[] = {
	INT(gck_image, vpid, PID_MIN, INT32_MAX),
	INT(gck_image, restarts, 0, UINT32_MAX),
	TEXT(gck_image, exe, 1),
	TEXT(gck_image, cwd, 1),
	INT(gck_image, umask, 0, 0777),
	HEX(gck_image, brk, MAX_ADDRESS),
	HEX(gck_image, start_brk, MAX_ADDRESS),
	HEX(gck_image, start_code, MAX_ADDRESS),
	HEX(gck_image, end_code, MAX_ADDRESS),
	HEX(gck_image, start_data, MAX_ADDRESS),
	HEX(gck_image, end_data, MAX_ADDRESS),
	HEX(gck_image, start_stack, MAX_ADDRESS),
	HEX(gck_image, arg_start, MAX_ADDRESS),
	HEX(gck_image, arg_end, MAX_ADDRESS),
	HEX(gck_image, env_start, MAX_ADDRESS),
	HEX(gck_image, env_end, MAX_ADDRESS),
	BLOB(gck_image, auxv, auxv_size, 0, 4096),
	ARRAY(gck_image, actions, action_shape),
	ARRAY(gck_image, itimers, itimer_shape),
	LIST(gck_image, timers, ntimers, 0, MAX_ITEMS, timer_shape),
	LIST(gck_image, pending, npending, 0, MAX_ITEMS, pending_shape),
	LIST(gck_image, threads, nthreads, 1, MAX_THREADS, thread_shape),
	LIST(gck_image, maps, nmaps, 1, MAX_ITEMS, map_shape),
	LIST(gck_image, contents, ncontents, 0, MAX_ITEMS, content_shape),
	LIST(gck_image, objects, nobjects, 0, MAX_ITEMS, object_shape),
	GROUPS(gck_image, pages),
	GROUPS(gck_image, device),
	LIST(gck_image, files, nfiles, 0, MAX_FILES, file_shape),
	LIST(gck_image, fds, nfds, 0, MAX_FILES, fd_shape),
	HEX(gck_image, shim_state, MAX_ADDRESS),
	ARRAY(gck_image, limits, limit_shape),
	{"cpu_flags", GCK_FIELD_TEXT, offsetof(struct gck_image, cpu_flags), 0, 0, 1, 65536, NULL},
	HASH(gck_image, vdso),
	INT(gck_image, realtime_ns, 0, MAX_SIZE),
	INT(gck_image, monotonic_ns, 0, MAX_SIZE),
	INT(gck_image, dumpable, 0, 2),
	INT(gck_image, thp_disable, 0, 3),
	HEX(gck_image, personality, UINT32_MAX),
	INT(gck_image, lock_future, 0, MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT),
	MASKS(gck_image, guards),
	LIST(gck_image, attributes, nattributes, 0, MAX_ITEMS, attribute_shape),
	LIST(gck_image, children, nchildren, 0, MAX_THREADS, child_shape),
	LIST(gck_image, processes, nprocesses, 0, MAX_THREADS, gck_image_shape),
	BOOL(gck_image, keeps_numbers),
	LIST(gck_image, ipc, nipc, 0, MAX_ITEMS, ipc_shape),
	LIST(gck_image, undo, nundo, 0, MAX_ITEMS, undo_shape),
	TEXT(gck_image, boot, 0),
};
const struct gck_shape gck_image_shape = SHAPE_GROWN("image", gck_image, image_fields, 9);

static void free_elements(const struct gck_shape *shape, void *v, size_t n)
{
	for (size_t i = 0; v && i < n; i++)
		gck_shape_free(shape, (char *)v + i * shape->size);
}

void gck_shape_free(const struct gck_shape *shape, void *base)
{
	for (size_t i = 0; i < shape->nfields; i++) {
		const struct gck_field *f = &shape->fields[i];
		char *at = (char *)base + f->offset;

		switch (f->type) {
		case GCK_FIELD_LIST:
			free_elements(f->of, *(void **)(void *)at,
				      *(size_t *)(void *)((char *)base + f->count));
			free(*(void **)(void *)at);
			break;
		case GCK_FIELD_ARRAY:
			free_elements(f->of, at, f->size);
			break;
		case GCK_FIELD_TEXT:
		case GCK_FIELD_BLOB:
			free(*(void **)(void *)at);
			break;
		case GCK_FIELD_GROUPS:
		case GCK_FIELD_MASKS:
			gck_hex_table_clear(&((struct gck_page_groups *)(void *)at)->rows);
			break;
		default:
			break;
		}
	}
}
