#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three processes add to a number in a file, under flock(2) and under a lock of fcntl(2).
exec 9>first # a file that no process has open would not be in the checkpoint
echo 0 >first
echo 0 >second
# shellcheck disable=SC2016 # expanded by the shell that it is for
add='n=$(cat first); [[ -e $UNTIL ]] || sleep 0.3; echo $((n + 1)) >first; echo "$n" >>answers'
work()
{
	local i
	for ((i = 0; i < 60; i++)); do
		until [[ $i -lt 59 || -e $UNTIL ]]; do sleep 0.1; done
		flock lock bash -c "$add"
	done
}
posix='
import fcntl, os, time
f = open("second", "r+")
for i in range(400):
    fcntl.lockf(f, fcntl.LOCK_EX)
    f.seek(0)
    n = int(f.read())
    if not os.path.exists(os.environ["UNTIL"]):
        time.sleep(.1)
    f.seek(0)
    f.write(str(n + 1))
    f.flush()
    fcntl.lockf(f, fcntl.LOCK_UN)
'
work & work & work &
/usr/bin/python3 -c "$posix" &
/usr/bin/python3 -c "$posix" &
wait
cat first second >final
