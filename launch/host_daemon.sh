#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Open MPI's daemon on another host (of Open MPI 5: prted). Ends it when its ranks have ended and mpirun is unreachable.
# launch/mpi_run.sh names it as launch agent:
#
#   host_daemon.sh END_SECONDS TCP_RETRIES orted ARGUMENTS...
#
# A daemon that loses mpirun while data is in flight waits until the kernel drops the connection: 15 minutes, on a host
# that the next job may already use. mpi_run.sh sources this file for its functions.

# shellcheck source=launch/job.sh
source "$(dirname "${BASH_SOURCE[0]}")/job.sh"

# For this host (or network namespace); needs root. "" and "-" change nothing.
set_tcp_retries() {
  [[ -n $1 && $1 != - ]] || return 0
  if ! echo "$1" 2>/dev/null >/proc/sys/net/ipv4/tcp_retries2; then
    echo "$(hostname): cannot set net.ipv4.tcp_retries2 = $1 (needs root); a dead connection may take 15 minutes to fail" >&2
  fi
}

# All descendants of a process, deepest last.
descendants() {
  local child
  for child in $(pgrep -P "$1"); do
    echo "$child"
    descendants "$child"
  done
}

# Removes the remains of a killed mpirun on this host, by its process: segments, and its session files.
clear_job_of() {
  local place number
  for place in "${TMPDIR:-/tmp}"/ompi.*."$(id -u)/pid.$1"; do
    [[ -r $place/contact.txt ]] || continue
    read -r number <"$place/contact.txt"
    clear_segments_of "${number%%.*}"
    rm -rf "$place"
  done
  # Open MPI 5 names segments by a hash: they are those that its ranks map, or that nothing maps (clear_dead_segments).
  grep -lsz "^PMIX_NAMESPACE=prterun-$(hostname -s)-$1@" /proc/[0-9]*/environ | while read -r place; do
    grep -hso '/dev/shm/sm_segment[^ ]*' "${place%environ}maps"
  done | sort -u | xargs -r rm -f
  rm -rf "${TMPDIR:-/tmp}/prterun.$(hostname -s).$1."*
}

guard_daemon() {
  local end_seconds=$1 daemon had_ranks=false alone=0 number="" word before="" started
  started=$(date +%s)
  set_tcp_retries "$2"
  shift 2
  for word in "$@"; do
    [[ $before != *ess_base_jobid ]] || number=${word//\"/}
    before=$word
  done
  "$@" &
  daemon=$!
  trap 'kill -s TERM "$daemon" 2>/dev/null' TERM INT HUP
  while kill -0 "$daemon" 2>/dev/null; do
    wait_at_most 10 "$daemon"
    if pgrep -P "$daemon" >/dev/null; then
      had_ranks=true alone=0
    elif $had_ranks && ((++alone > end_seconds)); then
      kill -s KILL "$daemon" 2>/dev/null
    fi
  done
  local code
  wait "$daemon"
  code=$?
  if [[ -n $number ]]; then clear_segments_of "$number"; else clear_dead_segments "$started"; fi
  return "$code"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  [[ $# -ge 3 ]] || {
    sed -n '3,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
  }
  guard_daemon "$@"
fi
