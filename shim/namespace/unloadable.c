/* SPDX-License-Identifier: Apache-2.0
 * A library that cannot be loaded, because it refers to a symbol that does not exist. discard.c
 * opens it. */
extern int gck_ns_is_nowhere;

__attribute__((visibility("default"))) int *gck_ns_end = &gck_ns_is_nowhere;
