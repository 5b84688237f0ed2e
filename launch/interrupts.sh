# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that start ranks: what USR1, TERM and Ctrl-C mean to a job. The script says how:
#
#   checkpoint        asks the ranks for one
#   stop SIGNAL       has them stop with a checkpoint, by TERM or INT; exit code 75
#   end_at_once       kills them; exit code 130
#
# The first Ctrl-C stops the job with a checkpoint, as a TERM does, a second one ends it at once.
# shellcheck disable=SC2317  # called by traps

interrupted=false
interrupt() {
  if $interrupted; then
    end_at_once
  else
    interrupted=true
    stop INT
  fi
}
trap checkpoint USR1
trap 'stop TERM' TERM
trap interrupt INT
