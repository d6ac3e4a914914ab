# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For the tests with an object store: requests by curl, faults, the log of requests. Source it
# instead of lib.sh, after GPUCKPT_LAB_OPTIONS is set.
# shellcheck source=lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
s3=$GPUCKPT_LAB/s3
[[ -d $s3 ]] || { echo "Bail out! this lab has no object store: cluster up --s3"; exit 1; }
endpoint=$(<"$s3/endpoint")
: >"$s3/faults"
# A part of the names of alice's objects in the bucket.
# shellcheck disable=SC2034 # the tests use it
alice_uid=$(alice id -u)

presign() { "$top/contrib/cluster.d/presign" "$s3/key" "$endpoint" "$@"; }

# request VERB PATH[?QUERY] [CURL-OPTIONS...]: prints the status (000: none); the body is in file
# $body
body=$s3/body
request()
{
	local url
	url=$(presign "$1" "$2")
	fetch "$url" -X "$1" "${@:3}"
}

fetch()
{
	root curl -s --max-time 60 --cacert "$s3/cert.pem" -o "$body" -w '%{http_code}' \
		"${@:2}" "$1"
}

# faults [RULE...]: from now on these faults, and no others (contrib/cluster.d/front)
faults()
{
	printf '%s\n' "$@" >"$s3/faults.new"
	mv "$s3/faults.new" "$s3/faults"
}

# requests REGEX: the lines of the front's log since forget that match
requests() { tail -n +$((forgotten + 1)) "$s3/log" | grep -E "$1"; }
forgotten=0
forget() { forgotten=$(wc -l <"$s3/log"); }

# lists PREFIX [TOKEN]: a page of the bucket's list is in $body; s3_names PREFIX: names, of all
# pages
lists()
{
	local token=${2:+&continuation-token=$(jq -rn --arg t "$2" '$t | @uri')}
	[[ $(request GET "/gpuckpt?list-type=2$token&prefix=$1") = 200 ]]
}
s3_names()
{
	local token=''
	while wait_for 20 lists "$1" "$token" ||
		echo "Bail out! no list of $1: $(cat "$body")" >&2; do
		grep -o '<Key>[^<]*' "$body" | sed 's/<Key>//'
		token=$(grep -o '<NextContinuationToken>[^<]*' "$body" | sed 's/.*>//')
		[[ $token ]] || return 0
	done
}

s3_has() { s3_names lab/ | grep -E "$1"; }

in_store() { s3_has "/$1/0/"; }
# nothing_of JOB: the bucket has no object of it, and no upload is under way; prints what there is
nothing_of() { ! in_store "$1" && nothing_under_way; }
nothing_under_way()
{
	[[ $(request GET '/gpuckpt?uploads') = 200 ]] && ! grep -o '<Key>[^<]*' "$body"
}

# silence_is SECONDS: a request that gets no answer is repeated after that, instead of the default,
# which is long
silence_is() { conf_with "S3Timeout=$1"; }

# as_of CLUSTER JOB IMAGE FILE: FILE is a copy of IMAGE as that cluster's and that job's
as_of()
{
	python3 - "$@" <<-'END'
	import sys, tarfile
	cluster, job, image, path = sys.argv[1:]
	with tarfile.open(image) as old, \
	        tarfile.open(path, 'w', format=tarfile.USTAR_FORMAT) as new:
	    for member in old:
	        data = old.extractfile(member)
	        member.name = '/'.join([cluster, job] + member.name.split('/')[2:])
	        new.addfile(member, data)
	END
	chown --reference="$3" "$4"
}
