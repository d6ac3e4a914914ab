#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What the root object exports. Runs in the build folder.
srcdir=${srcdir:-.}
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"

listed=$(sed -n 's/^	\([_a-z].*\);$/\1/p' "$srcdir/shim/namespace/root.map" | LC_ALL=C sort)
exported=$(nm -D --defined-only libgpuckpt-root.so | awk '{ print $3 }' | LC_ALL=C sort)
same "$exported" "$listed" "the root object exports only the listed functions"

needed=$(readelf -d libgpuckpt-root.so | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
same "$needed" libc.so.6 "the root object needs only libc"

tap_done
