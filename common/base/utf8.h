/* SPDX-License-Identifier: Apache-2.0
 * Text as JSON can carry it. */
#ifndef GCK_UTF8_H
#define GCK_UTF8_H

/* Make the text UTF-8, in place: a byte that is of no character becomes '?', and a character that the
 * text's end cuts is dropped. */
void gck_utf8_sanitize(char *text);

#endif
