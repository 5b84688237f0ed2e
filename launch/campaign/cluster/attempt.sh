#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One job of `trireme campaign` on hosts. It outlives the campaign's process, which finds it again by the lock that all its
# processes inherit:
#
#   attempt.sh DIRECTORY check|no LAUNCHER... -- CONFIG [--set KEY=VALUE]...
#
# `check` runs trireme doctor first; if it finds a problem the job ends with code 5. DIRECTORY/started and DIRECTORY/ended
# have the time, the host and the exit code. TERM stops the run with a checkpoint.
# shellcheck disable=SC2317  # functions that traps call
set -u

# shellcheck source=launch/job.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../job.sh"
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

# write NAME TEXT: atomic; retries while the disk is full.
write() {
  until printf '%s\n' "$2" >"$place/$1.tmp" 2>/dev/null && mv "$place/$1.tmp" "$place/$1"; do sleep 1; done
}
write started "$(hostname) $$ $(date '+%s')"
note() { :; }  # the campaign logs it
run=$(run_directory_in "$@")
trap 'stop_run TERM' TERM INT
trap '' HUP

code=0
[[ $check != check ]] || run_once "health check" "${launcher[@]}" doctor "$@"
if [[ -n $stopping ]]; then
  code=$requeue_code
elif ((code != 0)); then
  echo "error: the health check ended with code $code" >&2
  code=$communication_code
else
  run_once run "${launcher[@]}" train "$@"
fi
write ended "$code $(date '+%s')"
exit "$code"
