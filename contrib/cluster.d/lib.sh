# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Outside the lab: start it, end it, enter it. Sourced by contrib/cluster, which sets $here.
: "${here:?}"

# Tests enter the lab some times a second: that makes as few processes as it can.

die()
{
	echo "cluster: $*" >&2
	exit 1
}

# lab_lives: sets $pid to the pid of the lab's init in this machine's pid namespace, if it lives
lab_lives()
{
	local words
	{ read -r pid <"$GPUCKPT_LAB/run/init.pid" &&
		mapfile -d '' words <"/proc/$pid/cmdline"; } 2>/dev/null || return
	[[ "${words[*]}" = *"/init $GPUCKPT_LAB" ]]
}

lab_need()
{
	[[ -n ${GPUCKPT_LAB-} ]] || die "GPUCKPT_LAB is not set: export the line of 'cluster up'"
	lab_lives || die "no lab runs in $GPUCKPT_LAB"
}

lab_enter()
{
	local pid
	lab_lives && nsenter --target "$pid" --mount --uts --ipc --net --pid -- "$@"
}

# Run one of the lab's own scripts with the settings of this lab.
lab_inside()
{
	local pid
	lab_need
	lab_enter env -i PATH="$PATH" LAB="$GPUCKPT_LAB" "$@"
}

lab_exec()
{
	local user=root node='' home=/root pid prefix at=()
	while getopts u:n: opt; do
		case $opt in
		u) user=$OPTARG ;;
		n) node=$OPTARG ;;
		*) usage ;;
		esac
	done
	shift $((OPTIND - 1))
	[[ $# -ge 1 ]] || usage
	lab_need
	[[ $user = root ]] || home=$GPUCKPT_LAB/work/$user
	read -r prefix <"$GPUCKPT_LAB/etc/prefix"
	[[ -z $node ]] || at=(env "LAB=$GPUCKPT_LAB" "$here/node" enter "$node")
	local clean=(env -i -C "$home"
		"PATH=$prefix/bin:$prefix/sbin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
		"HOME=$home" "PWD=$home" "USER=$user" "LOGNAME=$user" "TERM=${TERM-dumb}"
		LANG=C.UTF-8 "GPUCKPT_LAB=$GPUCKPT_LAB")
	local as=(setpriv --reuid "$user" --regid "$user" --init-groups)
	[[ $user = root ]] && as=()
	lab_enter "${at[@]}" "${as[@]}" "${clean[@]}" "$@"
}

lab_status()
{
	# shellcheck disable=SC2016 # expanded inside the lab
	lab_exec bash -c '
		for p in "$GPUCKPT_LAB"/run/*.pid; do
			pid=$(<"$p"); state=dead; kill -0 "$pid" 2>/dev/null && state=running
			name=${p##*/}; [ "$name" = init.pid ] || echo "${name%.pid} $state"
		done
		sinfo -N -o "%N %T %E"; squeue'
}

# The host must have Debian's munge, slurmctld, slurmd, slurm-client, iproute2, procps and
# util-linux; for an object store see contrib/prepare.
lab_check_host()
{
	local c
	[[ $(id -u) -eq 0 ]] || die "must run as root: it makes namespaces"
	local need=(munged slurmctld slurmd srun sinfo ip unshare nsenter setpriv pgrep)
	case $1 in
	'') ;;
	swift) need+=(swift-proxy-server memcached openssl curl) ;;
	ceph) need+=(radosgw ceph-mon ceph-osd openssl curl) ;;
	*) die "--s3=$1: must be swift or ceph" ;;
	esac
	for c in "${need[@]}"; do
		command -v "$c" >/dev/null ||
			die "$c is missing: contrib/demo installs the packages"
	done
}

lab_up()
{
	local prefix=${GPUCKPT_PREFIX-} owner='' server=''
	while [[ $# -gt 0 ]]; do
		case $1 in
		--prefix) prefix=$2 && shift ;;
		--owner) owner=$2 && shift ;;
		--s3) server=swift ;;
		--s3=*) server=${1#*=} ;;
		*) usage ;;
		esac
		shift
	done
	PATH=$PATH:/usr/sbin:/sbin
	lab_check_host "$server"
	GPUCKPT_LAB=${GPUCKPT_LAB:-$(mktemp -d "${TMPDIR:-/tmp}/gpuckpt-lab.XXXXXX")}
	export GPUCKPT_LAB
	local pid
	! lab_lives || die "a lab runs in $GPUCKPT_LAB already"
	"$here/layout" "$GPUCKPT_LAB" "${prefix:-/usr/local}" "$server"
	# The owner's death ends the lab; without an owner it lives until "down".
	setsid unshare --mount --propagation private --uts --ipc --net --pid --fork --kill-child \
		--mount-proc -- "$here/init" "$GPUCKPT_LAB" \
		>"$GPUCKPT_LAB/log/init.out" 2>&1 </dev/null &
	local outer=$!
	lab_record_init "$outer" ||
		die "the lab's init did not start: $(cat "$GPUCKPT_LAB/log/init.out")"
	trap 'lab_down; exit 1' INT TERM
	if [[ -n $owner ]]; then
		setsid "$here/watch" "$GPUCKPT_LAB" "$owner" </dev/null >/dev/null 2>&1 &
		echo $! >"$GPUCKPT_LAB/watch.pid"
	fi
	if ! lab_wait_ready; then
		tail -n 20 "$GPUCKPT_LAB"/log/*.out "$GPUCKPT_LAB"/log/*.log >&2 || :
		lab_down
		die "the cluster did not start"
	fi
	echo "GPUCKPT_LAB=$GPUCKPT_LAB"
}

lab_record_init()
{
	local pid
	for _ in {1..600}; do
		pid=$(pgrep -P "$1") && [[ -n $pid ]] && {
			echo "$1" >"$GPUCKPT_LAB/outer.pid"
			echo "$pid" >"$GPUCKPT_LAB/run/init.pid"
			lab_lives && return 0
		}
		sleep 0.1
	done
	return 1
}

lab_wait_ready()
{
	local _ states pid
	for _ in {1..3600}; do
		lab_lives || return 1
		states=$(lab_enter sinfo -h -o '%T %D' 2>/dev/null) &&
			[[ $states = 'idle 3' ]] && return 0
		sleep 0.1
	done
	return 1
}

lab_down()
{
	[[ -n ${GPUCKPT_LAB-} ]] || die "GPUCKPT_LAB is not set"
	[[ -e $GPUCKPT_LAB/.gpuckpt-lab ]] || die "$GPUCKPT_LAB is not a lab's directory"
	local pid
	pid=$(cat "$GPUCKPT_LAB/watch.pid" 2>/dev/null) && [[ $pid != "$$" ]] &&
		grep -qzxF "$GPUCKPT_LAB" "/proc/$pid/cmdline" 2>/dev/null && kill "$pid"
	if lab_lives; then
		kill -KILL "$pid"
		# unshare ends when the last process of the namespaces has ended.
		pid=$(cat "$GPUCKPT_LAB/outer.pid")
		while [[ $(ps -o state= -p "$pid") = [!Z]* ]]; do sleep 0.05; done
	fi
	find "$(findmnt --noheadings --types cgroup2 --output TARGET | head -n 1)" -maxdepth 1 \
		-name "${GPUCKPT_LAB//\//-}-n[123]" -exec rmdir {} + 2>/dev/null || :
	# A process that is being killed may still write.
	for _ in {1..600}; do
		rm -rf --one-file-system "$GPUCKPT_LAB" 2>/dev/null && return
		sleep 0.1
	done
	die "$GPUCKPT_LAB cannot be removed"
}
