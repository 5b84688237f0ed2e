# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that start a run in an allocation: a start that failed before the run's first step is made again, at
# most TRIREME_START_RETRIES times. The script defines note TEXT..., and run, the run's directory.
#
#   run_once NAME COMMAND...      sets `code`
#   run_at_last NAME COMMAND...   the same, and again where that may help
#   stop WHY                      sets `stopping`, and sends the command that runs a TERM
# shellcheck disable=SC2317  # functions that traps call

# shellcheck source=launch/exit_codes.sh
source "$(dirname "${BASH_SOURCE[0]}")/../exit_codes.sh"
# shellcheck source=launch/environment.sh
source "$(dirname "${BASH_SOURCE[0]}")/../environment.sh"

# The last run.directory of a command's words.
run_directory_in() {
  local word found=""
  for word in "$@"; do
    if [[ $word == *run.directory=* ]]; then found=${word##*run.directory=}; fi
  done
  echo "$found"
}

# Changes with every step of this start.
state_of_metrics() { stat -c '%Y %s' "$run/metrics.jsonl" 2>/dev/null; }
has_begun() { [[ $(state_of_metrics) != "$metrics_before" ]]; }

job=0 stopping=""
stop() {
  stopping=$1
  note "$1: stopping the run"
  ((job == 0)) || kill -s TERM "$job" 2>/dev/null
}

run_once() {
  local late name=$1
  shift
  metrics_before=$(state_of_metrics)
  export TRIREME_START_TIME
  TRIREME_START_TIME=$(date '+%s')
  "$@" &
  job=$!
  [[ -z $stopping ]] || kill -s TERM "$job"
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
  note "the $name ended with exit code $code"
}

# A start that loses ranks before the first step, or has none, may be a daemon's bad moment; a host's fault comes back.
retries=$(environment_number TRIREME_START_RETRIES 2 0 1000)
run_at_last() {
  local start
  for ((start = 0; ; ++start)); do
    run_once "$@"
    if ((code != communication_code)) || [[ -n $stopping ]] || has_begun; then return; fi
    if ((start >= retries)); then
      note "no start in $((start + 1)) came to a step on $SLURM_JOB_NODELIST; leave out a host that is named above (--exclude=HOST)"
      return
    fi
    note "ranks on $SLURM_JOB_NODELIST were lost before the first step: start $((start + 1)) of $retries more"
  done
}
