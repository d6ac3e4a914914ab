#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=dash
# A static shell, which no preload reaches, with static programs, and one for all of them: in each
# round it finds itself, its parent's child and a program in the background by their numbers.
# shellcheck disable=SC2016
export ask='echo $PPID'
busybox sh -c '
me=$$ i=0
busybox sleep 100000 &
sleeper=$!
while [ $i -lt 1500 ]; do
	until [ $i -lt 1499 ] || [ -e "$UNTIL" ]; do busybox sleep 0.1; done
	[ $((i % 10)) -gt 0 ] || [ "$(busybox sh -c "$ask")" = $me ] || echo "not my child"
	kill -0 $sleeper || echo "not there: $sleeper"
	echo "line $i"
	[ -e "$UNTIL" ] || busybox sleep 0.02
	i=$((i + 1))
done
kill $sleeper
wait $sleeper
echo "ended: $?"
' | busybox tee answers | busybox sha256sum >sum
sha256sum answers sum >final
