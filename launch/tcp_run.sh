#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts N processes of a program on this machine without MPI's launcher: they find each other by RANK, WORLD_SIZE,
# MASTER_ADDR and MASTER_PORT, as under Kubernetes or torchrun. Ends with the first code that is not 0.
#
#   launch/tcp_run.sh 4 build/cpu/trireme train configs/gpt_tiny.yaml
#
# MASTER_PORT is chosen at random unless it is set.
set -uo pipefail

if [[ ! ${1:-} =~ ^[1-9][0-9]*$ || $# -lt 2 ]]; then
  sed -n '3,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
ranks=$1
shift
# Below the range that the system hands out by itself.
export WORLD_SIZE=$ranks MASTER_ADDR=127.0.0.1 MASTER_PORT=${MASTER_PORT:-$((20000 + RANDOM % 12000))}

pids=()
trap 'kill "${pids[@]}" 2>/dev/null' INT TERM
for ((rank = 0; rank < ranks; ++rank)); do
  RANK=$rank "$@" &
  pids+=($!)
done
result=0
for pid in "${pids[@]}"; do
  wait "$pid"
  code=$?
  if ((result == 0)); then result=$code; fi
done
exit "$result"
