#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs run with --gpu-ckpt as without: each row of launch.tbl is a task of one step without the
# option and of one with it. Exit status and output are compared. Arguments: names of rows. So are
# static programs and broken ones that Slurm executes itself. Ranks that mpirun starts run, too.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
dir=$(work_dir)

# ---- programs

b=$GPUCKPT_LAB/work/launch
cc=${CC-gcc} source=$top/test/programs/launched.c

# build NAME COMPILER OPTION...
build() { "${@:2}" -O1 -o "$b/$1" "$source" -pthread 2>"$b/$1.log"; }

# library NAME <source
library() { "$cc" -shared -fPIC -x c -o "$b/lib/$1" -; }

programs()
{
	mkdir -p "$b/lib"
	library libuser.so <<-'END'
		#include <unistd.h>
		int user_library;
		__attribute__((constructor)) static void begin(void)
		{
			user_library = write(1, "a library\n", 10);
		}
	END
	library libaudit.so <<<'unsigned la_version(unsigned v) { return v; }'
	build launched-static "$cc" -static & build launched-address "$cc" -fsanitize=address &
	build launched-thread "$cc" -fsanitize=thread &
	build launched-undefined "$cc" -fsanitize=undefined &
	build launched-linked "$cc" "-L$b/lib" -Wl,--no-as-needed -luser &
	build launched-musl musl-gcc & build launched-musl-static musl-gcc -static &
	"$cc" -m32 -nostdlib -o "$b/launched32" "${source%.c}32.c" /lib32/libc.so.6 \
		-Wl,-dynamic-linker,/lib/ld-linux.so.2 2>"$b/launched32.log" &
	! [[ ${GPUCKPT_LONG-} ]] || ! command -v go >/dev/null ||
		HOME=$b GOFLAGS=-mod=mod go build -o "$b/launched-go" "${source%.c}.go" \
			2>"$b/launched-go.log" &
	build launched "$cc" || return
	install -m 4755 "$b/launched" "$b/launched-setuid"
	install -m 755 "$b/launched" "$b/launched-caps"
	setcap cap_net_raw=ep "$b/launched-caps"
	printf '#!%s\n' "$b/launched hello" >"$b/script"
	# shellcheck disable=SC2016 # for that script
	printf '%s\n' '#!/bin/bash' 'own=$(readlink /proc/self/ns/user)' \
		'until [[ $(readlink "/proc/$1/ns/user") != "$own" ]]; do sleep 0.1; done' \
		'exec nsenter -U --preserve-credentials -t "$1" id -u' >"$b/enter"
	chmod 755 "$b/script" "$b/enter"
	mkdir -p "$b"/image/{usr,etc,dev,proc,sys,tmp,home}
	ln -s usr/bin usr/sbin usr/lib usr/lib64 "$b/image"
	touch "$b"/image/etc/{passwd,group,hosts,resolv.conf}
	wait
}
[[ -x $b/enter ]] || programs || { echo "Bail out! programs cannot be built"; exit 1; }

shared() { ldconfig -p | sed -n "s/.*$1.* => //p" | head -n 1; }
jemalloc=$(shared libjemalloc.so.2) tcmalloc=$(shared libtcmalloc_minimal.so.4)
mimalloc=$(shared libmimalloc.so.2)

# ---- rows

# missing NEEDS: the first that is not here
missing()
{
	local need
	for need in ${1//,/ }; do
		need=$(eval echo "$need")
		case $need in
		-) ;;
		long) [[ ${GPUCKPT_LONG-} ]] || { echo "the long form"; return; } ;;
		/*) [[ -e $need ]] || { echo "$need"; return; } ;;
		*) command -v "$need" >/dev/null || { echo "${need:-a library}"; return; } ;;
		esac
	done
}

names=() skipped=()
while IFS='|' read -r name needs command; do
	[[ $name && $name != '#'* ]] || continue
	name=${name% } needs=${needs# } needs=${needs% }
	[[ $# -eq 0 || " $* " = *" $name "* ]] || continue
	why=$(missing "$needs")
	if [[ $why ]]; then
		skipped+=("$name # SKIP no $why")
	else
		names+=("$name")
		echo "$command" >>"$dir/commands"
	fi
done <"$test_dir/launch.tbl"

cat >"$dir/task" <<END
#!/bin/bash
$(declare -p b jemalloc tcmalloc mimalloc)
l=\$b/lib
ulimit -c 0
eval "\$(sed -n "\$((SLURM_PROCID + 1))p" "$dir/commands")"
END
chmod 755 "$dir/task"

# ---- steps

# run KIND [OPTION]: the rows' tasks; leaves KIND/N.out, KIND/N.err, and KIND/status as srun says it
run()
{
	local kind=$1
	shift
	alice mkdir "$dir/$kind"
	alice timeout 300 srun -N1 -n "${#names[@]}" -O --chdir="$dir" -o "$kind/%t.out" \
		-e "$kind/%t.err" "$@" ./task </dev/null >"$dir/$kind.said" 2>&1
}

# ends KIND N: how srun says that the task ended; nothing for status 0
ends()
{
	sed -n 's/.*: tasks\? \([0-9,-]*\): \(.*\)/\1 \2/p' "$dir/$1.said" |
		while read -r tasks how; do
			in_list "$2" "$tasks" && echo "$how"
		done
}

in_list()
{
	local part
	for part in ${2//,/ }; do
		[[ $1 -lt ${part%-*} || $1 -gt ${part#*-} ]] || return 0
	done
	return 1
}

# came KIND N: all that is compared. A process's number, and lines of ours, are not.
came()
{
	ends "$1" "$2"
	echo "-- output"
	sed 's/(process [0-9]*)//' "$dir/$1/$2.out"
	echo "-- errors"
	sed '/^gpuckpt: /d; s/==[0-9]*==/==/' "$dir/$1/$2.err"
}

run plain &
run with --gpu-ckpt=interval=off
wait
for ((i = 0; i < ${#names[@]}; i++)); do
	is "$(came with $i)" "$(came plain $i)" "${names[i]}"
done
for name in "${skipped[@]}"; do
	report 0 "$name"
done

# ---- programs that Slurm executes itself: static ones, and what cannot be executed

# shellcheck disable=SC2016 # for that script
printf '#!/bin/busybox sh\necho "$0 $1"; kill -USR1 $$\n' >"$dir/static"
cp "$dir/static" "$dir/no-execution"
head -c 3000 /bin/busybox >"$dir/torn"
printf '#!/none/sh\n' >"$dir/no-interpreter"
chmod 755 "$dir"/{static,torn,no-interpreter}
chmod 644 "$dir/no-execution"
# alone [OPTION] PROGRAM...: what it, srun and slurmstepd say, whose lines may come in any order
alone()
{
	alice timeout 60 srun -n1 --chdir="$dir" "$@" </dev/null 2>&1 |
		sed 's/StepId=[0-9.]*//' | sort
}
for program in static no-execution torn no-interpreter absent; do
	is "$(alone --gpu-ckpt "./$program" x)" "$(alone "./$program" x)" \
		"srun ./$program: the same with the option as without"
done

# ---- what has no preload is refused by name

# refuses JOB TEXT: able does, with that text
# shellcheck disable=SC2317 # called by wait_for
refuses() { [[ $(alice gpuckpt able "$1" 2>&1) = *"$2"* ]]; }

if [[ -x $b/launched-musl ]]; then
	job=$(submit "$dir" -n1 --gpu-ckpt <<-END
		#!/bin/bash
		srun -n1 env -i LAUNCHED_UNTIL=$dir/end $b/launched-musl wait
	END
	)
	check "able refuses a program of musl without its parent by name" \
		wait_for 30 refuses "$job" "static without gpuckpt-parent"
	end_job "$job"
fi

# ---- what passes is waited for

tries() { grep -c "step $1[.]0: .*it is tried again" "$GPUCKPT_LAB/log/gpuckptd.out"; }
# shellcheck disable=SC2317 # called by wait_for
has_tried() { [[ $(tries "$1") -ge $2 ]]; }
job=$(submit "$dir" -n1 --gpu-ckpt <<-END
	#!/bin/bash
	LAUNCHED_UNTIL=$dir/first srun -n1 bash -c \
		"$b/launched-setuid wait; until [ -e $dir/second ]; do sleep 0.1; done"
END
)
check "able names a process without the preload" wait_for 30 refuses "$job" "has no preload"
alice gpuckpt create "$job" >"$dir/create" 2>&1 &
creating=$!
check "create tries again, and does not give up" wait_for 30 has_tried "$job" 5
alice touch "$dir/first"
wait "$creating"
report $? "when the process has ended, the checkpoint is done" || diag "$(cat "$dir/create")"
like "$(cat "$dir/create")" "^gpuckpt: step $job.0 was waited for: .*has no preload" \
	"create says what it waited for"
end_job "$job"

# ---- ranks that a launcher starts

# ranks_end NAME [SBATCH-OPTION...] -- COMMAND...: a job of two ranks with the option, which its
# steps inherit, ends; leaves its output in $out
ranks_end()
{
	local name=$1 job options=()
	out=$dir/${name// /_}.out
	for ((; $# > 1; )); do
		shift
		[[ $1 != -- ]] || break
		options+=("$1")
	done
	shift
	job=$(submit "$dir" -n2 -o "$out" --gpu-ckpt "${options[@]}" <<-END
		#!/bin/bash
		timeout 200 $*
		echo "status \$?"
	END
	)
	wait_for 70 grep -q ^status "$out"
	is "$(grep -e ^rank -e ^status "$out" | sort)" "$("$ring" want 2 20; echo status 0)" \
		"$name: all ranks end" || diag "$(cat "$out")"
	end_job "$job"
}

if command -v mpicc >/dev/null && command -v mpirun >/dev/null; then
	ring=$(CC=mpicc program ring)
	ranks_end "mpirun" -N2 -- mpirun -np 2 --map-by node "$ring" 20
	like "$(cat "$out")" "gpuckpt: ranks that (or|pr)ted starts are not checkpointed" \
		"the user is told that they are not checkpointed"
	if [[ ${GPUCKPT_LONG-} ]] && command -v mpicc.mpich >/dev/null; then
		mpicc.mpich -o "$b/ring-mpich" "$top/test/programs/ring.c" -lm
		ranks_end "hydra" -N2 -- mpiexec.hydra -n 2 -ppn 1 "$b/ring-mpich" 20
		like "$(cat "$out")" \
			"gpuckpt: ranks that [^ ]*hydra_[a-z_]* starts are not checkpointed" \
			"the user is told that they are not checkpointed"
	fi
	if [[ ${GPUCKPT_LONG-} ]]; then
		ranks_end "mpirun in a rank" -N1 -- srun -n1 bash -c \
			"'mpirun --oversubscribe -np 2 $ring 20'"
		# shellcheck disable=SC2016 # for the shell in the task
		ranks_end "one rank without the stand-in" -N2 -- srun --mpi=pmix bash -c \
			"'[[ \$SLURM_PROCID = 0 ]] || unset LD_PRELOAD; exec $ring 20'"
	fi
fi
finish
