#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts N processes of a program on this machine without MPI's launcher: they find each other by RANK, WORLD_SIZE,
# MASTER_ADDR and MASTER_PORT, as under Kubernetes or torchrun. Ends with the first code that is not 0.
#
#   launch/tcp_run.sh 4 build/cpu/trireme train configs/gpt_tiny.yaml
#   HOSTS=2 HOST_INDEX=1 MASTER_ADDR=a MASTER_PORT=29500 launch/tcp_run.sh 4 ...     4 of 8 on the second host; 0 is a
#
# MASTER_PORT is chosen at random unless it is set.
set -uo pipefail

if [[ ! ${1:-} =~ ^[1-9][0-9]*$ || $# -lt 2 ]]; then
  sed -n '3,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
ranks=$1
shift
hosts=${HOSTS:-1} index=${HOST_INDEX:-0}
if ((hosts > 1)); then
  [[ -n ${MASTER_ADDR:-} && -n ${MASTER_PORT:-} ]] || {
    echo "tcp_run.sh: HOSTS=$hosts needs MASTER_ADDR and MASTER_PORT, the same on every host" >&2
    exit 2
  }
  # Under Kubernetes the first host has its name some time after it has started.
  for _ in {1..600}; do
    getent hosts "$MASTER_ADDR" >/dev/null && break
    sleep 1
  done
fi
# Below the range that the system hands out by itself.
export WORLD_SIZE=$((hosts * ranks)) MASTER_PORT=${MASTER_PORT:-$((20000 + RANDOM % 12000))}
if ((hosts == 1)); then export MASTER_ADDR=127.0.0.1; fi

pids=()
trap 'kill "${pids[@]}" 2>/dev/null' INT TERM
trap 'kill -s USR1 "${pids[@]}" 2>/dev/null' USR1
for ((rank = 0; rank < ranks; ++rank)); do
  RANK=$((index * ranks + rank)) "$@" &
  pids+=($!)
done
result=0
for pid in "${pids[@]}"; do
  # Signals interrupt a wait.
  while :; do
    wait "$pid"
    code=$?
    kill -0 "$pid" 2>/dev/null || break
  done
  if ((result == 0)); then result=$code; fi
done
exit "$result"
