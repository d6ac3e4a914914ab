#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpuckpt with a coordinator that gives fixed answers, and a real store.
# shellcheck source=../../../test/support/tap.sh
. "${srcdir:-.}/test/support/tap.sh"
gpuckpt=${GPUCKPT:-./gpuckpt}
tools=${TOOLS:-./coordinator/cli/test}
dir=$(mktemp -d) || exit 99
fake=

finish()
{
	[ -z "$fake" ] || kill "$fake" 2>/dev/null
	wait
	rm -rf "$dir"
}
trap finish EXIT

result() { check "$1" "$2" || show "$(cat "$dir/out" "$dir/err" "$dir/requests")"; }

answers() # OP MESSAGES: the coordinator's answers
{
	printf '%s\n' "$2" >"$dir/$1.new"
	mv "$dir/$1.new" "$dir/$1.json"
}

call() # STATUS ARGUMENT...
{
	want=$1
	shift
	: >"$dir/requests"
	"$gpuckpt" "$@" -f "$dir/conf" >"$dir/out" 2>"$dir/err"
	[ $? -eq "$want" ]
	result $? "gpuckpt $*: exit status $want"
}

has() # FILE TEXT
{
	grep -qF -- "$2" "$dir/$1"
	result $? "$1 has $2"
}

# on_terminal REGEX VERB ARGUMENT...: succeeds there, and shows its progress by such a line
on_terminal()
{
	shows=$1
	shift
	script -qec "$gpuckpt $* -f $dir/conf" "$dir/terminal" >/dev/null
	result $? "$1: done on a terminal"
	tr '\r' '\n' <"$dir/terminal" | grep -q "$shows"
	result $? "$1: it shows its progress there"
}

"$tools/fake" "$dir" 2>"$dir/why" &
fake=$!
while [ ! -e "$dir/conf" ] && kill -0 $fake 2>/dev/null; do
	sleep 0.1
done
if [ ! -e "$dir/conf" ]; then
	skip_all "$(cat "$dir/why")"
fi

answers tasks '[{"op":"end","ok":true,"data":{"jobs":[]}}]'
commits='[{"seq":1,"hash":"a","time":1700000000,"put":1048576,"stored":524288,"quiesce_ms":7,
"stall_ms":12.5,"write_s":0.5,"reason":"interval","ranks":2},
{"seq":2,"hash":"b","time":1700000600,"put":3221225472,
"stored":100,"ranks":2,"reason":"bad\u001b[31m"}]'
some()
{
	echo '[{"op":"end","ok":true,"data":{'"$2"'"steps":[
{"job":'"$1"',"step":0,"commits":[{"seq":1}]}]}}]'
}
answers list "$(some 11 '"more":12,')"
answers list.12 "$(some 12 '"more":70,')"
answers list.70 "$(some 70 '')"
call 0 list
has requests '{"from":70,"op":"list"}'
[ "$(grep -Ec '^ *(11|12|70)[.]0 ' "$dir/out")" = 3 ]
result $? "several answers make one list"
answers list.70 '[{"op":"end","ok":false,"error":"it is late"}]'
call 1 list
[ ! -s "$dir/out" ]
result $? "an incomplete list is an error"

answers list '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"user":"alice",
"state":"running","commits":'"$commits"'}]}}]'
call 0 list
has requests '{"op":"list"}'
has out '7.0  alice   1'
has out '1.00M   512K  0.007s 0.013s  0.5s interval'
has out '3.00G    100'
has out 'bad?[31m'
call 0 list 7.0 --json
has requests '{"job":7,"op":"list","step":0}'
has out '"put": 3221225472'

answers show '[{"op":"end","ok":true,"data":{"job":7,"step":0,"seq":2,"hash":"b",
"nodes":["n1","n2"],"copy_s":0.25}}]'
call 0 show 7
has requests '{"job":7,"op":"show","seq":2,"step":0}'
has out 'Nodes=n1,n2'
has out 'MemoryCopy=0.2s'
! grep -v '^[A-Za-z]*=' "$dir/out"
result $? "no key has a blank"
call 0 show 7 --json
[ "$(tr -d ' \n' <"$dir/out" | cut -c1-13)" = '{"commits":[{' ]
result $? "one commit is a list as well"
call 0 show 7.0 1
has requests '{"job":7,"op":"show","seq":1,"step":0}'

answers create '[{"op":"event","text":"writing","data":{"job":7,"step":0,"seq":3,"phase":"writing",
"done":1,"all":2}},{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"seq":3,
"stall_ms":250,"write_s":1.25,"put":2048,"stored":0}]}}]'
call 0 create 7
has requests '{"job":7,"op":"create","wait":true}'
has out '7.0    3 0.250s  1.2s 2.00K      0'
[ ! -s "$dir/err" ]
result $? "no progress without a terminal"
on_terminal '7[.]0 checkpoint 3: writing .*50% of 2' create 7
answers create '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"seq":3,
"waited_for":"rank 0 on n1: it was in MPI_Init"}]}}]'
call 0 create 7
[ "$(cat "$dir/err")" = 'gpuckpt: step 7.0 was waited for: rank 0 on n1: it was in MPI_Init' ]
result $? "create says what was waited for"
call 0 create --no-wait 7.0
has requests '{"job":7,"op":"create","step":0,"wait":false}'
answers list '[{"op":"end","ok":true,"data":{"steps":[]}}]'
call 1 create --verify 7
has requests '{"job":7,"op":"list","step":0}'

answers requeue '[{"op":"end","ok":false,"error":"job 7 is not a batch job"}]'
call 1 requeue 7
has err 'gpuckpt: requeue: job 7 is not a batch job'
answers vacate '[{"op":"error","error":"unknown op"}]'
call 1 vacate 7
has err 'unknown op'
answers disable '[{"op":"end","ok":true}]'
call 0 disable 7
[ ! -s "$dir/out" ]
result $? "disable prints nothing"
answers enable '[]'
call 1 enable 7

answers able '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"able":true,"items":[]}]}}]'
call 0 able 7
answers able '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"able":false,"items":[
{"rank":1,"object":"fd 5","reason":"an outside TCP connection","remedy":"close it",
"refuse":true}]}]}}]'
call 1 able 7
has out 'fd 5'
has err 'step 7.0 cannot be checkpointed: fd 5: an outside TCP connection'
item='"object":"clocks","reason":"they start anew","remedy":"use another","refuse":false'
answers able '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"able":true,"items":[
{"rank":10,'"$item"'},{"rank":0,'"$item"'},{"rank":2,'"$item"'},{"rank":1,'"$item"'}]}]}}]'
call 0 able 7
! grep -q clocks "$dir/out"
result $? "what prevents no checkpoint is not shown"
has err 'gpuckpt: able: 1 note that prevents no checkpoint: -v shows it'
call 0 able 7 -v
has out '7.0  0-2,10 no      clocks they start anew; use another'
[ "$(wc -l <"$dir/out")" -eq 5 ] && [ ! -s "$dir/err" ]
result $? "ranks with the same reason share a line"

answers status '[{"op":"end","ok":true,"data":{"version":"0.1.0","epoch":3,"since":1700000000,
"agents":2,"steps":[{"job":7,"step":0,"user":"alice","state":"writing","ntasks":4,"disabled":false,
"last":{"seq":2,"time":'$(($(date +%s) - 3725))'},
"checkpoint":{"seq":3,"done":1024,"all":2048,"rate":10},
"nodes":[{"node":"n1"},{"node":"n2"}],
"last_error":"the store is full"}]}}]'
call 0 status
has out 'Epoch=3'
has out ' 1h02m       3  50% 2.00K 10/s 1m42s the store is full'
answers status '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"state":"writing",
"checkpoint":{"seq":3,"done":1024,"all":2048,"rate":3145728}}]}}]'
"$gpuckpt" watch 7 -f "$dir/conf" >"$dir/watched" &
watching=$!
end=$(($(date +%s) + 60))
until [ "$(grep -c writing "$dir/watched")" -ge 2 ] || [ "$(date +%s)" -ge $end ]; do
	sleep 0.1
done
answers status '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"state":"finished"}]}}]'
wait $watching
result $? "watch ends when the job's steps have"
cp "$dir/watched" "$dir/out"
has out '3  50% 2.00K 3.00M/s   0s'
has out 'finished'
[ "$(grep -c writing "$dir/out")" -ge 2 ]
result $? "watch goes on while one runs"
answers status '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"state":"running",
"next":'$(($(date +%s) + 90000))'}]}}]'
call 0 status 7
grep -Eq 'NEXT$' "$dir/out" && grep -Eq ' (1d01h|1d00h)$' "$dir/out"
result $? "the time until the next checkpoint"
answers list '[{"op":"end","ok":true,"data":{"steps":[]}}]'
call 1 list 7.5
has err 'gpuckpt: list: step 7.5 never ran with --gpu-ckpt'
call 0 list
has err 'gpuckpt: list: no step has a commit yet'
call 0 list 7
has err 'gpuckpt: list: job 7 has no commit yet'
call 0 status 7
[ "$(wc -l <"$dir/out")" -eq 2 ]
result $? "status of a job: its steps only"
answers status '[{"op":"end","ok":true,"data":{"version":"1","time":1000,"steps":[]}}]'
"$gpuckpt" check -f "$dir/conf" >"$dir/out" 2>&1
grep -q '^warning  *clock .*ahead of gpuckptd.s.*NTP' "$dir/out"
result $? "gpuckpt check warns of a clock that is ahead, and says what to do"

# ---- several jobs and steps
answers status '[{"op":"end","ok":false,"error":"no step runs or ran with --gpu-ckpt"}]'
for job in 7 8 9; do
	answers status.$job '[{"op":"end","ok":true,"data":{"epoch":3,"steps":[{"job":'$job',
"step":0,"user":"root","uid":0,"state":"running"},{"job":'$job',"step":1,"user":"daemon","uid":1,
"state":"running"}]}}]'
done
call 0 status 7 8 9 --noheader
[ "$(sed 's/ .*//' "$dir/out" | tr '\n' ' ')" = '7.0 7.1 8.0 8.1 9.0 9.1 ' ]
result $? "several jobs make one table, without titles if asked for"
call 0 status 7 8 --json
[ "$(tr -d ' \n' <"$dir/out" | grep -o '"job":[78]' | tr '\n' ' ')" = \
	'"job":7 "job":7 "job":8 "job":8 ' ] && [ "$(grep -c epoch "$dir/out")" -eq 1 ]
result $? "and one document"
call 1 status 7 6 8.0
[ "$(cat "$dir/err")" = 'gpuckpt: status: 6: no step runs or ran with --gpu-ckpt' ] &&
	grep -q '^8[.]0 ' "$dir/out"
result $? "one that fails is named in one line, and the others are shown"
call 1 status 5 6
[ "$(wc -l <"$dir/err")" -eq 2 ] && [ ! -s "$dir/out" ]
result $? "all fail: one line each"
call 0 status 7 8 --user daemon
[ "$(grep -c daemon "$dir/out")" -eq 2 ] && ! grep -q root "$dir/out"
result $? "the steps of one user"
call 0 status 7 -u 1,root
[ "$(wc -l <"$dir/out")" -eq 3 ]
result $? "users by name and number"
call 1 status 7 -u nosuchuser
has err 'there is no user "nosuchuser"'
call 1 watch 6 7 -u nosuchuser
[ "$(wc -l <"$dir/err")" -eq 2 ]
result $? "watch ends when all have failed, and says so once"
answers tasks.19 '[{"op":"end","ok":true,"data":{"jobs":[{"job":7,"task":1},{"job":8,"task":4},
{"job":9,"task":12}]}}]'
call 0 status 19
has requests '{"job":9,"op":"status"}'
[ "$(wc -l <"$dir/out")" -eq 7 ]
result $? "an array's number means all its tasks"
call 0 status '19_[2-5,12]' --noheader
[ "$(sed 's/ .*//' "$dir/out" | tr '\n' ' ')" = '8.0 8.1 9.0 9.1 ' ]
result $? "some tasks of an array"
call 0 status 19_4.1
has requests '{"job":8,"op":"status","step":1}'
call 1 status 19_2 7
has err 'gpuckpt: status: 19_2: no such task of job array 19 runs or ran with --gpu-ckpt'
has out '7.0'
call 1 remove --all 19
has err 'these are several jobs of an array: name one, such as 19_1'
for job in 7 8; do
	answers create.$job '[{"op":"end","ok":true,"data":{"steps":[{"job":'$job',"step":0,
"seq":3}]}}]'
	answers show.$job '[{"op":"end","ok":true,"data":{"job":'$job',"step":0,"seq":2}}]'
	answers disable.$job '[{"op":"end","ok":true}]'
done
answers create.9 '[{"op":"end","ok":false,"error":"it is not a batch job"}]'
call 1 create 7 9 8 19_4
[ "$(cat "$dir/err")" = 'gpuckpt: create: 9: it is not a batch job' ]
result $? "a checkpoint that fails is named"
[ "$(grep -c '^[78][.]0' "$dir/out")" -eq 3 ]
result $? "and the others are taken"
call 0 disable 7 8
answers list '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"commits":'"$commits"'}]}}]'
call 0 show 7.0:2 7.0:1 --json
has requests '"seq":2,'
has requests '"seq":1,'
[ "$(grep -c '"seq": 2' "$dir/out")" -eq 2 ]
result $? "several commits are shown"
rm "$dir"/status.[0-9]* "$dir"/create.[0-9]* "$dir"/show.[0-9]* "$dir"/disable.[0-9]*
answers list '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"commits":[
{"seq":1,"hash":"a","reason":"create by user 1"},{"seq":2,"hash":"b",
"reason":"requeue by user 4294967290"}]}]}}]'
call 0 list 7
has out 'create by daemon'
has out 'requeue by user 4294967290'

# ---- the store
made=$("$tools/make_store" "$dir" 7 0 3)
answers list '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"store":"file:'"$dir"'",
"cluster":"test","commits":'"$made"'}]}}]'
call 0 verify 7
[ "$(grep -c yes "$dir/out")" -eq 3 ]
result $? "three commits are intact"
on_terminal '7[.]0 checkpoint 1: reading .*% of' verify 7
call 0 verify 7.0 2 --json
has out '"whole": true'
call 0 verify 7 --quick
has out OBJECTS
[ "$(grep -c 'yes  *[123]$' "$dir/out")" -eq 3 ]
result $? "three commits have all their objects"

# ---- files
call 0 export 7.0:2 "$dir/image"
[ "$(tar -tf "$dir/image" | tail -1)" = test/7/0/commit-2.json ]
result $? "tar lists the file, with the commit last"
mkdir "$dir/out.d" && tar -xf "$dir/image" -C "$dir/out.d" && cmp "$dir/test/7/0/commit-2.json" \
	"$dir/out.d/test/7/0/commit-2.json"
result $? "and extracts the store's files"
renumbered() # JOB: the same file, of a job with that number
{
	cp -r "$dir/out.d/test/7" "$dir/out.d/test/$1"
	tar -tf "$dir/image" | sed "s,^test/7/,test/$1/," >"$dir/names"
	tar --format=ustar -cf "$dir/bad" -C "$dir/out.d" -T "$dir/names"
}
renumbered 8
call 0 import "$dir/bad" --store "file:$dir"
for job in -1 +7 07 4294967296; do
	renumbered "$job"
	call 1 import "$dir/bad" --store "file:$dir"
	has err 'it does not say of which step'
done
on_terminal '7[.]0 checkpoint 2: .*% of' export 7.0:2 "$dir/copy"
call 1 export 7:2 "$dir/image"
has err 'is there already'
call 1 export 7:9 "$dir/image2"
has err 'has no commit 9'
call 1 import "$dir/image"
has err 'say where'
cp "$dir/image" "$dir/bad"
printf x | dd of="$dir/bad" bs=1 seek=700 conv=notrunc 2>/dev/null
answers may_import '[{"op":"end","ok":false,"error":"job 7 is not yours"}]'
call 1 import "$dir/bad" --store s3://bucket
has err 'job 7 is not yours'
answers may_import '[{"op":"end","ok":true,"data":{"cluster":"test"}}]'
call 1 import "$dir/bad" --store s3://bucket
has err 'damaged'
! grep -q '"op":"import"' "$dir/requests"
result $? "the import of a damaged file is requested and does not begin"
call 1 import "$dir/bad" --store "file:$dir"
has err 'commit-2.json is there already'
mkdir "$dir/new"
size=$(stat -c %s "$dir/image")
for cut in 100 512 5000 $((size - 1024)) $((size - 512 - 1024 - 1)); do
	head -c "$cut" "$dir/image" >"$dir/bad"
	call 1 import "$dir/bad" --store "file:$dir/new"
done
cp "$dir/image" "$dir/bad"
printf x | dd of="$dir/bad" bs=1 seek=700 conv=notrunc 2>/dev/null
call 1 import "$dir/bad" --store "file:$dir/new"
has err 'damaged'
[ ! -e "$dir/new/test/7" ]
result $? "an import of a damaged or truncated file leaves no file"
(ulimit -f 4 && exec "$gpuckpt" export 7:2 "$dir/image3" -f "$dir/conf") 2>"$dir/err"
has err 'File too large'
(ulimit -f 4 && exec "$gpuckpt" import "$dir/image" --store "file:$dir/new" \
	-f "$dir/conf") 2>"$dir/err"
has err 'File too large'
[ ! -e "$dir/new/test/7" ] && [ "$(echo "$dir"/image*)" = "$dir/image" ]
result $? "nor when there is no space"
call 0 import "$dir/image" --store "file:$dir/new"
has out 'restart=7:2'
diff -r "$dir/new/test/7/0" "$dir/out.d/test/7/0"
result $? "the store has the content of the file"
call 1 verify 7.0 9
has err 'step 7.0 has no commit 9'
forgets() # REMOVED KEPT BUSY [STORE]: the answer to remove
{
	answers remove '[{"op":"end","ok":true,"data":{"job":7,"step":0,
"store":"'"${4-file:$dir}"'",
"remove":['"$1"'],"keep":['"$2"'],"busy":'"$3"',"removals":5}}]'
}

answers swept '[{"op":"end","ok":true}]'
forgets 1 2,3 4
call 0 remove 7.0 1
has requests '{"job":7,"op":"remove","seq":1,"step":0}'
has requests '{"job":7,"op":"swept","removals":5,"step":0}'
[ ! -e "$dir/test/7/0/commit-1.json" ] && [ -e "$dir/test/7/0/commit-2.json" ]
result $? "the commit is removed, the others exist"
answers list '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"store":"file:'"$dir"'",
"cluster":"test","commits":'"$(echo "$made" | sed 's/{"seq":1[^}]*},//')"'}]}}]'
call 0 verify 7
object=$(find "$dir/test/7/0/3-a" -type f ! -name 'rank-*')
printf x | dd of="$object" bs=1 conv=notrunc 2>/dev/null
call 1 verify 7
has out 'no'
has err "$object"
call 1 export 7:3 "$dir/image4"
has err 'gpuckpt verify tells'
[ ! -e "$dir/image4" ]
result $? "a damaged commit is not exported"
call 0 verify 7 --quick
truncate -s 4999 "$object"
call 1 verify 7 --quick
has err "$object is cut off: it has 4999 bytes, 5000 are needed"
rm "$object"
call 1 verify 7 --quick
has err "$object"
[ "$(grep -c no "$dir/out")" -eq 1 ]
result $? "the other commits do not need it"
answers remove '[{"op":"end","ok":false,"error":"commit 3 is needed"}]'
call 1 remove 7.0 3
[ -e "$dir/test/7/0/commit-3.json" ]
result $? "commits that the coordinator keeps are not removed"
[ ! -s "$dir/out" ]
result $? "and no empty table is printed"
! grep -q swept "$dir/requests"
result $? "and no sweep is reported"
answers remove '[{"op":"end","ok":true,"data":{"remove":[2,3]}}]'
call 1 remove 7 --all
has err 'another release'
echo damaged >"$dir/test/7/0/commit-8.json"
forgets '' 2,3,8 9
call 1 remove 7 --all
has err commit-8.json
! grep -q counts "$dir/err"
result $? "a store that cannot be swept: commits that were not forgotten are not listed"
forgets 1,0 2,3,8 9
call 1 remove 7 --all --json
has err 'what no longer counts (commit 1, 0) is still in the store; the next checkpoint'
[ "$(tr -d ' \n' <"$dir/out")" = '{"steps":[{"job":7,"step":0,"removed":[1,0]}]}' ]
result $? "commits that were forgotten are listed"
forgets 1 2,3,8 9 s3://bucket
call 1 remove 7 --all
has err 'it will be removed later'
rm "$dir/test/7/0/commit-8.json"
forgets '' 2,3 4
call 0 remove 7 --all
has err 'gpuckpt: remove: commit 3 of step 7.0 stays'
mkdir "$dir/test/7/0/9-dead"
: >"$dir/test/7/0/9-dead/rank-0.json"
forgets 3 2 9
call 0 remove 7 --all
[ ! -e "$dir/test/7/0/commit-3.json" ] && [ -e "$dir/test/7/0/commit-2.json" ] &&
	[ -e "$dir/test/7/0/9-dead/rank-0.json" ]
result $? "objects of a checkpoint that may be under way stay"
answers list '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,"store":"file:'"$dir"'",
"cluster":"test","commits":[]}]}}]'
forgets '' '' 10
call 0 remove 7 --all
[ ! -e "$dir/test/7" ]
result $? "a step without commits: forgotten and aborted checkpoints are removed"
call 0 remove 7 --all
has requests '"op":"swept"'
call 1 verify 7
# A reason is truncated; one of these is cut inside a character.
long=$(printf 'é%.0s' $(seq 120))
for first in a ab; do
	store=$dir/$first$long/$long
	mkdir -p "$store"
	made=$("$tools/make_store" "$store" 7 0 2)
	answers list '[{"op":"end","ok":true,"data":{"steps":[{"job":7,"step":0,
"store":"file:'"$store"'",
"cluster":"test","commits":'"$made"'}]}}]'
	rm "$(find "$store/test/7/0/2-a" -type f ! -name 'rank-*')"
	call 1 verify 7 --json
	[ "$(grep -c '"whole": true' "$dir/out")$(grep -c '"whole": false' "$dir/out")" = 11 ]
	result $? "one of two commits is reported as damaged, also with a truncated reason"
done
sed -i s/^CoordinatorUser=.*/CoordinatorUser=nobody/ "$dir/conf"
call 1 list
[ ! -s "$dir/requests" ]
result $? "who is not CoordinatorUser gets no request that he can read"
kill $fake
wait $fake
fake=
call 1 list
has err 'cannot connect'
tap_done
