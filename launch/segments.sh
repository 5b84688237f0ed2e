#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Memory that ranks of one host share, under /dev/shm, which outlives them where they are killed. Sourced by the scripts that
# start ranks, or as a program:
#
#   segments.sh SINCE     removes what a killed job left on this host since that time (seconds of the epoch)
#
# Only what belongs to this user, was made on this host (by its name) and is mapped by no process goes: never what another user's
# job or one that lives uses.

# What a killed mpirun or daemon leaves of a job, whose number is given.
clear_segments_of() {
  [[ $1 =~ ^[0-9]+$ ]] || return 0
  # Open MPI's ranks are a job of mpirun's own, the first of its family.
  rm -f /dev/shm/vader_segment.*."$(id -u)"."$(printf '%x' $(($1 | 1)))".*
}

# Open MPI's of this host, and NCCL's.
dead_segments() {
  local segment
  for segment in /dev/shm/vader_segment."$(hostname)"."$(id -u)".* /dev/shm/nccl-*; do
    [[ -f $segment && ! -L $segment && -O $segment ]] || continue
    (($(stat -c %Y "$segment" 2>/dev/null || echo 0) >= $1)) || continue
    grep -qsF -- "$segment" /proc/[0-9]*/maps || echo "$segment"
  done
}

clear_dead_segments() {
  local first dead
  [[ $1 =~ ^[0-9]+$ ]] || return 0
  first=$(dead_segments "$1")
  [[ -n $first ]] || return 0
  sleep 1  # one that was being made is mapped by then
  mapfile -t dead < <(comm -12 <(sort <<<"$first") <(dead_segments "$1" | sort))
  ((${#dead[@]} == 0)) || rm -f -- "${dead[@]}"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  [[ ${1:-} =~ ^[0-9]+$ ]] || {
    sed -n '3,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
  }
  clear_dead_segments "$1"
fi
