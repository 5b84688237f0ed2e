#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One job of `trireme campaign` on hosts, which starts it; it outlives the campaign's process, which finds it again by the lock
# that all its processes inherit:
#
#   attempt.sh DIRECTORY check|no LAUNCHER... -- CONFIG [--set KEY=VALUE]...
#
# `check` lets trireme doctor look at the hosts first; where it finds a problem the job ends with code 5. DIRECTORY/started
# and DIRECTORY/ended say when, where, and with which exit code. TERM stops the run with a checkpoint.
# shellcheck disable=SC2317  # functions that traps call
set -u

readonly communication=5
[[ $# -ge 5 && " ${*:3} " == *" -- "* ]] || {
  sed -n '3,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
place=$1 check=$2
shift 2
launcher=()
while [[ $1 != -- ]]; do
  launcher+=("$1")
  shift
done
shift

# write NAME TEXT: complete or not at all, and again while the disk is full.
write() {
  until printf '%s\n' "$2" >"$place/$1.tmp" 2>/dev/null && mv "$place/$1.tmp" "$place/$1"; do sleep 1; done
}
write started "$(hostname) $$ $(date '+%s')"

job=0 stopping=false
stop() {
  stopping=true
  ((job == 0)) || kill -s TERM "$job" 2>/dev/null
}
trap stop TERM INT
trap '' HUP

# run COMMAND...: sets code.
run() {
  local late
  "$@" &
  job=$!
  ! $stopping || kill -s TERM "$job"
  # Signals interrupt a wait.
  while :; do
    wait "$job"
    code=$?
    kill -0 "$job" 2>/dev/null || break
  done
  wait "$job" 2>/dev/null
  late=$?
  ((late == 127)) || code=$late
  job=0
}

TRIREME_START_TIME=$(date '+%s')
export TRIREME_START_TIME
code=0
if [[ $check == check ]]; then
  run "${launcher[@]}" doctor "$@"
  if ((code != 0)) && ! $stopping; then
    echo "error: the health check ended with code $code" >&2
    write ended "$communication $(date '+%s')"
    exit $communication
  fi
fi
if $stopping; then
  code=75
else
  run "${launcher[@]}" train "$@"
fi
write ended "$code $(date '+%s')"
exit "$code"
