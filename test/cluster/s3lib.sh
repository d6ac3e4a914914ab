# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For the tests with an object store: requests by curl, faults, the log of requests. Sourced after
# GPUCKPT_LAB_OPTIONS is set, instead of lib.sh.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
s3=$GPUCKPT_LAB/s3
[[ -d $s3 ]] || { echo "Bail out! this lab has no object store: cluster up --s3"; exit 1; }
endpoint=$(<"$s3/endpoint")
# Of what is hers in the bucket.
# shellcheck disable=SC2034 # the tests use it
alice_uid=$(alice id -u)

presign() { "$top/contrib/cluster.d/presign" "$s3/key" "$endpoint" "$@"; }

# request VERB PATH[?QUERY] [CURL-OPTIONS...]: prints the status (000: none), the body goes to $body
body=$s3/body
request()
{
	local url
	url=$(presign "$1" "$2")
	fetch "$url" -X "$1" "${@:3}"
}

fetch() { root curl -s --max-time 60 --cacert "$s3/cert.pem" -o "$body" -w '%{http_code}' "${@:2}" "$1"; }

# faults [RULE...]: these, and no others, from now on (contrib/cluster.d/front)
faults()
{
	printf '%s\n' "$@" >"$s3/faults.new"
	mv "$s3/faults.new" "$s3/faults"
}

# requests REGEX: the lines of the front's log that match, since forget
requests() { tail -n +$((forgotten + 1)) "$s3/log" | grep -E "$1"; }
forgotten=0
forget() { forgotten=$(wc -l <"$s3/log"); }

# s3_names PREFIX: what is in the bucket
lists() { [[ $(request GET "/gpuckpt?list-type=2&prefix=$1") = 200 ]]; }
s3_names()
{
	wait_for 20 lists "$1" || echo "Bail out! no list of $1: $(cat "$body")" >&2
	grep -o '<Key>[^<]*' "$body" | sed 's/<Key>//'
}

s3_has() { s3_names lab/ | grep -E "$1"; }

in_store() { s3_has "/$1/0/"; }
nothing_of() { ! in_store "$1" && nothing_under_way; }
nothing_under_way()
{
	[[ $(request GET '/gpuckpt?uploads') = 200 ]] && ! grep -q '<Key>' "$body"
}

# silence_is SECONDS: for as long nothing need come before a request is made again; not what the default
# is, so that silence does not make a test long
silence_is()
{
	sed -i '/^S3Timeout=/d' "$GPUCKPT_LAB/etc/gpuckpt.conf"
	echo "S3Timeout=$1" >>"$GPUCKPT_LAB/etc/gpuckpt.conf"
	"$cluster" kill gpuckptd
	"$cluster" start gpuckptd
}

# as_of CLUSTER JOB IMAGE FILE: what FILE of another site's, or another job's, with the same image is
as_of()
{
	python3 - "$@" <<-'END'
	import sys, tarfile
	cluster, job, image, path = sys.argv[1:]
	with tarfile.open(image) as old, tarfile.open(path, 'w', format=tarfile.USTAR_FORMAT) as new:
	    for member in old:
	        data = old.extractfile(member)
	        member.name = '/'.join([cluster, job] + member.name.split('/')[2:])
	        new.addfile(member, data)
	END
	chown --reference="$3" "$4"
}
