#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tcp_unknown_peers.sh PROGRAM TRIREME: unknown peers connect to the port of a job without MPI's launcher while its two ranks
# find each other (PROGRAM: failing_rank), and the job ends as if they had not. Then TRIREME is told to stop while it
# waits for others. Prints the number of cases and of survived ones.
set -uo pipefail
program=$1 trireme=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=launch/job.sh
source "$here/../../launch/job.sh"
unset TRIREME_SECRET TRIREME_SECRET_FILE RANK
give_secret
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 12000)) TRIREME_JOB_ID=$$ TRIREME_START_SECONDS=60
place=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$place"' EXIT

cases=0 survived=0
# check WHAT CONDITION...
check() {
  local what=$1
  shift
  cases=$((cases + 1))
  if "$@"; then survived=$((survived + 1)); else echo "expected $what"; fi
}
answers() { (: 3<>"/dev/tcp/127.0.0.1/$MASTER_PORT") 2>/dev/null; }
await_port() {
  local process=$1
  until answers; do
    kill -0 "$process" || return 1
    sleep 0.02
  done
}
# Sends standard input as far as it is accepted, and holds the connection.
hold() {
  exec {connection}<>"/dev/tcp/127.0.0.1/$MASTER_PORT" || return 1
  cat 1>&"$connection" 2>/dev/null || true
}
end_of() {
  wait "$1"
  local code=$?
  [[ $code -eq $2 ]] || echo "code $code in place of $2"
  [[ $code -eq $2 ]]
}
says() { grep -q "$2" "$place/$1.log"; }

RANK=0 "$program" none >"$place/0.log" 2>&1 &
rank_0=$!
check "rank 0 to listen" await_port $rank_0
for ((i = 0; i < 20; ++i)); do check "an answer to a probe of the port" answers; done
for ((i = 0; i < 10; ++i)); do check "a place for somebody who is silent" hold </dev/null; done
check "rank 0 to outlive garbage" hold < <(head -c 100000 /dev/urandom)
check "rank 0 to outlive HTTP" hold < <(printf 'GET / HTTP/1.1\r\n\r\n')
# A hello of earlier versions, and a message of 2^62 bytes.
check "rank 0 to outlive a hello" hold < <(printf 'TRIREME1\1\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0@')
RANK=1 TRIREME_SECRET=the-secret-of-somebody-else TRIREME_START_SECONDS=1 "$program" none >"$place/other_secret.log" 2>&1 &
other_secret=$!
RANK=1 TRIREME_JOB_ID=other "$program" none >"$place/other_job.log" 2>&1 &
other_job=$!
WORLD_SIZE=3 RANK=2 "$program" none >"$place/other_size.log" 2>&1 &
other_size=$!
check "a rank of another secret to be turned away" end_of $other_secret 5
check "a rank of another job to be turned away" end_of $other_job 5
check "a rank of another size to be turned away" end_of $other_size 5
check "the secret in its message" says other_secret TRIREME_SECRET
check "another job in its message" says other_job 'belongs to another job'
check "another size in its message" says other_size 'WORLD_SIZE differs'
RANK=1 "$program" none >"$place/1.log" 2>&1 &
rank_1=$!
check "rank 0 to end well" end_of $rank_0 0
check "rank 1 to end well" end_of $rank_1 0
check "a word of who was refused" says 0 'refused a connection'
keeps_the_secret() { ! grep -rq "$TRIREME_SECRET" "$place"; }
check "no secret in any message" keeps_the_secret

RANK=0 "$trireme" train none.yaml >"$place/stopped.log" 2>&1 &
rank_0=$!
check "rank 0 to listen" await_port $rank_0
kill -TERM $rank_0
check "the end of a rank that is told to stop" end_of $rank_0 143
RANK=1 "$trireme" train none.yaml >"$place/stopped.log" 2>&1 &
rank_1=$!
until grep -qs "^SigBlk:.*[4-7c-f]...$" "/proc/$rank_1/status" || ! kill -0 $rank_1; do sleep 0.02; done
kill -TERM $rank_1
check "the end of a rank that is told to stop" end_of $rank_1 143

echo "chaos: $cases cases, $survived survived"
((survived == cases)) || { tail -n 5 "$place"/*.log && exit 1; }
