#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# s3_server.sh [swift|ceph]: the lab's object store alone, with curl: it refuses what a server must
# refuse, so that the other tests prove something; and each fault of contrib/cluster.d/front does
# what its name says.
server=${1-swift}
export GPUCKPT_LAB_OPTIONS=--s3=$server
# shellcheck source=s3lib.sh
. "$(dirname "$(readlink -f "$0")")/s3lib.sh"
is "$(<"$s3/kind")" "$server" "this is $server"

head -c 3000000 /dev/urandom >"$s3/data"
put=(-T "$s3/data" -H Expect:)
error() { sed -n 's:.*<Code>\([^<]*\)</Code>.*:\1:p' "$body"; }

# ---- the server

is "$(request PUT '/gpuckpt/a/one' "${put[@]}")" 200 "put"
is "$(request GET '/gpuckpt/a/one')" 200 "get"
check "the same bytes come back" cmp "$s3/data" "$body"
is "$(s3_names a/)" a/one "list"
is "$(request GET '/gpuckpt/a/one' -r 10-19)" 206 "a range"
is "$(stat -c %s "$body")" 10 "a range of ten bytes has ten"
is "$(request GET '/gpuckpt/a/none') $(error)" "404 NoSuchKey" "an object that does not exist"

url=$(presign GET /gpuckpt/a/one)
is "$(fetch "${url/a\/one/a/two}") $(error)" "403 SignatureDoesNotMatch" "a URL is for one object"
is "$(fetch "$url" -X DELETE)" 403 "a URL is for one verb"
url=$(presign GET /gpuckpt/a/one 1)
expired() { [[ $(fetch "$url") = 403 ]]; }
wait_for 20 expired
is "$(fetch "$url") $(error)" "403 AccessDenied" "a URL that has expired"
sed 's/^secret=./&x/' "$s3/key" >"$s3/bad"
url=$("$top/contrib/cluster.d/presign" "$s3/bad" "$endpoint" GET /gpuckpt/a/one)
is "$(fetch "$url") $(error)" \
	"403 SignatureDoesNotMatch" "a wrong secret"
md5=$(openssl md5 -binary /etc/hosts | base64)
is "$(request PUT /gpuckpt/a/md5 "${put[@]}" -H "Content-MD5: $md5")" 400 "a wrong Content-MD5"
is "$(s3_names a/)" a/one "a wrong Content-MD5 stores nothing"
request PUT '/gpuckpt/a/one' "${put[@]}" -H 'If-None-Match: *' >"$s3/code"
declare -A conditional=([swift]="501 NotImplemented" [ceph]="412 PreconditionFailed")
is "$(<"$s3/code") $(error)" "${conditional[$server]}" "If-None-Match on an object that exists"
check_not "curl refuses its certificate without --cacert" root curl -s "$(presign GET /gpuckpt)"
endpoint=https://gpuckpt.ctl:9000
is "$(request GET /a/one)" 200 "the bucket as part of the host's name"
endpoint=$(<"$s3/endpoint")

# ---- faults, each on the first matching request only

put_code() { request PUT "/gpuckpt/$1" "${put[@]}"; }
get_code() { request GET "/gpuckpt/a/one"; }
exists() { [[ $(request HEAD "/gpuckpt/$1" -I) = 200 ]]; }

faults "2 put /f/ answer 503 SlowDown"
is "$(put_code f/1) $(put_code f/2) $(put_code f/3) $(get_code)" "200 503 200 200" \
	"answer: the second put only"
is "$(s3_names f/ | xargs)" "f/1 f/3" "answer: the server did not get that request"
faults "1 put f/4 after 500 InternalError"
is "$(put_code f/4) $(error)" "500 InternalError" "after: the answer"
check "after: the server has done it" exists f/4
faults "1 put f/5 lost" "1 put f/6 mute" "1 put f/7 silence" "1 put f/8 cut 1000000" \
	"1 put f/9 stall 1000000"
is "$(put_code f/5)" 000 "lost: no answer"
check "lost: the server has done it" exists f/5
is "$(request PUT /gpuckpt/f/6 "${put[@]}" --max-time 15)" 000 "mute: no answer"
check "mute: the server has done it" exists f/6
is "$(request PUT /gpuckpt/f/7 "${put[@]}" --max-time 1)" 000 "silence: no answer"
check_not "silence: the server has not done it" exists f/7
is "$(put_code f/8)" 000 "cut: no answer"
is "$(request PUT /gpuckpt/f/9 "${put[@]}" --max-time 1)" 000 "stall: no answer"
check_not "cut: the server has not done it" exists f/8
check_not "stall: the server has not done it" exists f/9
faults "1 put f/10 flip 2000000"
is "$(put_code f/10) $(request GET /gpuckpt/f/10)" "200 200" \
	"flip: without a checksum the server does not notice it"
is "$(cmp "$s3/data" "$body" | sed 's/.* byte \([0-9]*\),.*/\1/')" 2000001 "flip: that byte differs"
faults "1 get one flip-answer 5"
is "$(get_code) $(cmp -l "$s3/data" "$body" | wc -l)" "200 1" "flip-answer: one byte differs"
faults "1 get one cut-answer 5" "1 get one short 7"
root curl -s --cacert "$s3/cert.pem" -o "$body" "$(presign GET /gpuckpt/a/one)"
is $? 18 "cut-answer: less than Content-Length"
is "$(get_code) $(stat -c %s "$body")" "200 2999993" "short: less, with that Content-Length"
faults "1 get one error200 InternalError" "1 get one junk" "1 list gpuckpt/f/ html" \
	"1 list gpuckpt/f/ short 9"
is "$(get_code) $(error)" "200 InternalError" "error200"
is "$(request GET '/gpuckpt?list-type=2&prefix=f/') $(head -c 6 "$body")" "200 <html>" \
	"html: a list is chosen by its prefix"
request GET '/gpuckpt?list-type=2&prefix=f/' >"$s3/code"
is "$(<"$s3/code") $(tail -c 5 "$body")" "200 tBuck" "short: an answer in chunks, too"
is "$(get_code)" 000 "junk"
faults "1 get one drip-answer 2000000"
begin=$EPOCHREALTIME
is "$(get_code)" 200 "drip-answer"
is "$(awk "BEGIN { print ($EPOCHREALTIME - $begin > 1) }")" 1 "drip-answer: takes longer than 1 s"
faults "1 * . refuse"
is "$(get_code) $(get_code)" "000 200" "refuse: the first connection"
faults "1 get one hold"
forget
get_code >"$s3/held" &
check "hold: the request is in the log" wait_for 20 requests '^begin [0-9]+ get .*one .*hold$'
held=$(requests '^begin [0-9]+ get .*one .*hold$' | cut -d ' ' -f 2)
check_not "hold: it has no answer" requests "^end $held "
faults
wait $!
is "$(<"$s3/held")" 200 "hold: it is answered when the faults change"
"$cluster" kill s3
is "$(get_code)" 000 "kill s3: no answer"
check "start s3" "$cluster" start s3
is "$(get_code)" "$([[ $server = swift ]] && echo 200 || echo 404)" \
	"start s3: Swift keeps its objects, Ceph does not"
finish
