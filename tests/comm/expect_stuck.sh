#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# expect_stuck.sh CODE SECONDS DUMPS TEXT... -- COMMAND...: the command, given an empty directory as its last argument,
# ends by itself within SECONDS with exit code CODE ("bad": any but 0), prints every TEXT, and leaves
# collectives.rank*.txt of the ranks DUMPS ("0 2 3"; "": of none; or "any") there, each with the calls that went well. More
# are no fault: the launcher's signals wake a stopped rank, which may still write its own.
set -u
code=$1
seconds=$2
dumps=$3
shift 3
texts=()
while [[ $1 != -- ]]; do
  texts+=("$1")
  shift
done
shift

directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
output=$(timeout -k 5 "$seconds" "$@" "$directory/run" 2>&1)
got=$?
printf '%s\n' "$output"
failed=0
complain() {
  printf 'expected %s\n' "$*"
  failed=1
}
if [[ $got -eq 124 || $got -eq 137 && $SECONDS -ge $seconds ]]; then
  complain "an end within $seconds s"
elif [[ $code == bad ]]; then
  [[ $got -ne 0 ]] || complain "a failure"
elif [[ $got -ne $code ]]; then
  complain "exit code $code, got $got"
fi
for text in "${texts[@]}"; do
  [[ $output == *"$text"* ]] || complain "the output to contain: $text"
done
[[ $dumps != any ]] || exit $failed
found=$(cd "$directory/run" 2>/dev/null && ls collectives.rank*.txt 2>/dev/null | tr -dc '0-9\n' | sort -n | xargs)
[[ -n $dumps || -z $found ]] || complain "no dumps, found those of ranks '$found'"
for rank in $dumps; do
  [[ " $found " == *" $rank "* ]] || complain "a dump of rank $rank, found those of '$found'"
  dump=$directory/run/collectives.rank$rank.txt
  grep -q 'done.*all_reduce(f32, count 12, sum) number 2 "bucket 2" of step 12' "$dump" ||
    { complain "the calls of rank $rank in its dump"; cat "$dump"; }
done
exit $failed
