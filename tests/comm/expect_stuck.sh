#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# expect_stuck.sh CODE SECONDS DUMPS TEXT... -- COMMAND...: the command, given an empty directory as its last argument,
# ends by itself within SECONDS with exit code CODE ("bad": any but 0), prints every TEXT, and leaves
# collectives.rank*.txt of the ranks DUMPS ("0 2 3"; "": of none; or "any") there, each with the calls that went well. More
# are no fault: the launcher's signals wake a stopped rank, which may still write its own. "hasty 0 2 3": the launcher
# ends the job at once and leaves the ranks a second at most, in which a crowded machine may not get round to all of
# them; one of three runs must leave them all. A run in which mpirun itself crashes at its end (PMIx_server_finalize of
# PMIx 4.2 does, once in some hundred aborts), or goes on when all of its ranks have ended, tells nothing and is repeated.
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

runs=1
if [[ $dumps == hasty* ]]; then
  runs=3
  dumps=${dumps#hasty }
fi

complain() {
  printf 'expected %s\n' "$*"
  failed=1
}

check_dumps() {
  local directory=$1 found rank dump
  [[ $dumps != any ]] || return
  found=$(cd "$directory/run" 2>/dev/null && ls collectives.rank*.txt 2>/dev/null | tr -dc '0-9\n' | sort -n | xargs)
  [[ -n $dumps || -z $found ]] || complain "no dumps, found those of ranks '$found'"
  for rank in $dumps; do
    dump=$directory/run/collectives.rank$rank.txt
    if [[ " $found " != *" $rank "* ]]; then
      complain "a dump of rank $rank, found those of '$found'"
    elif ! grep -q 'done.*all_reduce(f32, count 12, sum) number 2 "bucket 2" of step 12' "$dump"; then
      complain "the calls of rank $rank in its dump"
      cat "$dump"
    fi
  done
}

check_end() {
  local got=$1 output=$2 took=$3 text
  if [[ $got -eq 124 || $got -eq 137 && $took -ge $seconds ]]; then
    complain "an end within $seconds s"
  elif [[ $code == bad ]]; then
    [[ $got -ne 0 ]] || complain "a failure"
  elif [[ $got -ne $code ]]; then
    complain "exit code $code, got $got"
  fi
  for text in "${texts[@]}"; do
    [[ $output == *"$text"* ]] || complain "the output to contain: $text"
  done
}

# Late in a run: lists the remaining ranks.
list_ranks() {
  sleep $((seconds - 2))
  pgrep -f -- "$root/$run/run" | xargs -r ps -o comm=,stat=,args= -p | grep -v -e '^mpi' -e '^timeout' -e '^expect_stuck' >"$root/ranks"
}

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
for ((run = 1; ; ++run)); do
  began=$SECONDS
  rm -f "$root/ranks"
  list_ranks 2>/dev/null &
  watcher=$!
  output=$(timeout -k 5 "$seconds" "$@" "$root/$run/run" 2>&1)
  got=$?
  took=$((SECONDS - began))
  pkill -P $watcher 2>/dev/null
  wait $watcher 2>/dev/null
  printf '%s\n' "$output"
  if [[ $took -ge $seconds && ($got -eq 124 || $got -eq 137) ]]; then  # 137 alone: a rank was killed
    if [[ -e $root/ranks && ! -s $root/ranks && $run -lt 3 ]]; then
      echo "mpirun continues without ranks: again"
      continue
    fi
    cat "$root/ranks" 2>/dev/null
  fi
  if [[ $got -eq 139 && $output == *PMIx_server_finalize* && $run -lt 3 ]]; then
    echo "mpirun crashed at its end: again"
    continue
  fi
  failed=0
  check_end $got "$output" $took
  [[ $failed -eq 0 ]] || exit 1
  check_dumps "$root/$run"
  [[ $failed -ne 0 && $run -lt $runs ]] || exit $failed
done
