#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The preload's shared object: its exports and needs; its freestanding objects: what they must not
# use. Runs in the build folder.
srcdir=${srcdir:-.}
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
lib=.libs/libgpuckpt-preload.so

listed=$(sed -n 's/^	\([a-z_].*\);$/\1/p' "$srcdir/shim/preload/preload.map" | LC_ALL=C sort)
shown=$(nm -D --defined-only $lib | awk '{ print $3 }' | LC_ALL=C sort)
same "$shown" "$listed" "the preload exports the listed functions and nothing else"

needed=$(readelf -d $lib | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
same "$needed" libc.so.6 "it needs libc and nothing else"

readelf -d $lib | grep -q INITFIRST
check $? "its constructor runs first"

undefined=$(nm -u shim/preload/helper/.libs/*.o | sed -n 's/^ *[Uw] //p' |
	grep -v -e '^gck_' -e '^_GLOBAL_OFFSET_TABLE_$')
same "$undefined" "" "the helper calls nothing outside its folder"

objdump -d shim/preload/helper/.libs/*.o | grep -q '%[fg]s:'
[ $? -eq 1 ]
check $? "the helper uses no thread-local storage"

tap_done
