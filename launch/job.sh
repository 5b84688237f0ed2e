#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that start jobs: starting and waiting, signals and exit codes, the secret, and cleaning of
# /dev/shm, where killed ranks leave shared memory. As a program:
#
#   job.sh SINCE     removes the remains of a killed job on this host since that time (seconds of the epoch)
#
# Removes only segments that belong to this user, were made on this host (by its name) and are mapped by no process, so
# never those of another user's job or of a live one.
# shellcheck disable=SC2317  # functions that traps call

# The program decides the action after a code (trireme supervise --after CODE). Of several ranks launchers report one
# code, srun the highest: a rank that is ended because another stopped then hides the cause.
communication_code=5 requeue_code=75

# job_code CODE END...: prints the job's code. CODE is the launcher's; each END is a rank's exit code, or "signal", in
# the order of the reports.
#
#   0 of the launcher is 0.
#   75 of any rank is the job's: ranks agree on a stop, and none ends before the checkpoint is complete.
#   Else the first code that is not 0: later ones are of ranks that lost a peer.
#   Else a signal ended a rank: 5.
#   14 is 5: Open MPI 5 ends a rank with it whose connection to another was lost.
job_code() {
  local code=$1 end
  shift
  if ((code != 0)); then
    if [[ " $* " == *" $requeue_code "* ]]; then
      echo "$requeue_code"
      return
    fi
    [[ $# -eq 0 ]] || code=$communication_code
    for end in "$@"; do
      if [[ $end != signal && $end != 0 ]]; then
        code=$end
        break
      fi
    done
    ((code != 14)) || code=$communication_code
  fi
  echo "$code"
}

# environment_number NAME DEFAULT MIN MAX: prints the integer in the variable NAME, or DEFAULT if it is unset. A value
# that is no integer from MIN to MAX, as from another job, gives DEFAULT with a message.
environment_number() {
  local value=${!1:-}
  if [[ $value =~ ^[0-9]{1,12}$ ]] && ((10#$value >= $3 && 10#$value <= $4)); then
    echo $((10#$value))
    return
  fi
  [[ -z $value ]] || printf '%s: %s=%q: is not a whole number from %s to %s; it is ignored\n' "${0##*/}" "$1" "${value:0:60}" "$3" "$4" >&2
  echo "$2"
}

# A secret for this job, unless the user provides one. It authenticates ranks that connect over TCP
# (runtime/comm/README.md). It is passed in the environment or in a file with mode 600, never as an argument.
give_secret() {
  [[ -z ${TRIREME_SECRET:-}${TRIREME_SECRET_FILE:-} ]] || return 0
  TRIREME_SECRET=$(od -An -v -N32 -tx1 /dev/urandom | tr -d ' \n')
  export TRIREME_SECRET
}

# Handling of USR1, TERM and Ctrl-C. A TERM or the first Ctrl-C stops the job with a checkpoint, a second Ctrl-C ends it
# at once. The script defines
#
#   checkpoint        asks the ranks for one
#   stop SIGNAL       stops them with a checkpoint, by TERM or INT; exit code 75
#   end_at_once       kills them; exit code 130
#
# It is called once the job runs. Until then the script keeps the last signal in `early`; a checkpoint would save nothing.
forward_signals() {
  interrupted=false
  trap checkpoint USR1
  trap 'stop TERM' TERM
  trap 'interrupt' INT
  if [[ ${early:-} == INT ]]; then interrupted=true; fi
  if [[ ${early:-USR1} != USR1 ]]; then stop "$early"; fi
}
# One Ctrl-C may come twice: `timeout -s INT` signals this process, and then its group.
interrupt() {
  local now=${EPOCHREALTIME//[.,]/}
  if ! $interrupted; then
    interrupted=true
    stop INT
    interrupted_at=${EPOCHREALTIME//[.,]/}
  elif ((now - ${interrupted_at:-0} > 100000)); then
    end_at_once
  fi
}

# wait_at_most TENTHS PROCESS: waits so many tenths of a second, or until the process ends. Not with `wait -n` and a
# timer in the background: bash forgets a timer that ends while a trap runs, and then waits for the process alone.
wait_at_most() {
  local tenths=$1
  while ((tenths-- > 0)) && kill -0 "$2" 2>/dev/null; do sleep 0.1; done
}

# wait_for PROCESS: waits across signals that interrupt a wait. Sets `code`.
wait_for() {
  local late
  while :; do
    wait "$1"
    code=$?
    kill -0 "$1" 2>/dev/null || break
  done
  # The last wait may have returned for a signal while the process ended.
  wait "$1" 2>/dev/null
  late=$?
  ((late == 127)) || code=$late
}

# temporary_file NAME: makes and prints one.
temporary_file() {
  mktemp "${TMPDIR:-/tmp}/$1.XXXXXX" 2>/dev/null && return
  echo "${0##*/}: no file can be made in ${TMPDIR:-/tmp}: free space there, or set TMPDIR to a directory of this host to write to" >&2
  return 1
}

# --- A run as a command in the background. The script defines note TEXT... and run, the run's directory.
#
#   run_once NAME COMMAND...      sets `code`
#   run_at_last NAME COMMAND...   also retries, at most TRIREME_START_RETRIES times, if it failed before its first step
#   stop_run WHY                  sets `stopping` and sends the running command a TERM

# The last run.directory of a command's words.
run_directory_in() {
  local word found=""
  for word in "$@"; do
    if [[ $word == *run.directory=* ]]; then found=${word##*run.directory=}; fi
  done
  echo "$found"
}

# Changes with every step.
state_of_metrics() { stat -c '%Y %s' "$run/metrics.jsonl" 2>/dev/null; }
has_begun() { [[ $(state_of_metrics) != "$metrics_before" ]]; }

job=0 stopping="" run=""
stop_run() {
  stopping=$1
  note "$1: stopping the run"
  ((job == 0)) || kill -s TERM "$job" 2>/dev/null
}

run_once() {
  local name=$1
  shift
  if [[ -n $stopping ]]; then
    code=$requeue_code
    return
  fi
  metrics_before=$(state_of_metrics)
  export TRIREME_START_TIME
  TRIREME_START_TIME=$(date '+%s')
  "$@" &
  job=$!
  [[ -z $stopping ]] || kill -s TERM "$job"
  wait_for "$job"
  job=0
  note "the $name ended with exit code $code"
}

# Losing ranks before the first step, or never starting them, can be temporary; a host's fault repeats.
run_at_last() {
  local start retries
  retries=$(environment_number TRIREME_START_RETRIES 2 0 1000)
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

# --- Shared memory. Removes the segments of a killed mpirun or daemon of Open MPI 4, by its job number.
clear_segments_of() {
  [[ $1 =~ ^[0-9]+$ ]] || return 0
  # The ranks form the first job in mpirun's job family.
  rm -f /dev/shm/vader_segment.*."$(id -u)"."$(printf '%x' $(($1 | 1)))".*
}

# Segments of Open MPI and NCCL on this host that no process maps.
dead_segments() {
  local segment
  for segment in /dev/shm/{vader,sm}_segment."$(hostname)"."$(id -u)".* /dev/shm/nccl-*; do
    [[ -f $segment && ! -L $segment && -O $segment ]] || continue
    (($(stat -c %Y "$segment" 2>/dev/null || echo 0) >= $1)) || continue
    grep -qsF -- "$segment" /proc/[0-9]*/maps || echo "$segment"
  done
}

clear_dead_segments() {
  local first gone
  [[ $1 =~ ^[0-9]+$ ]] || return 0
  first=$(dead_segments "$1")
  [[ -n $first ]] || return 0
  sleep 1  # one that was being made is mapped by then
  mapfile -t gone < <(comm -12 <(sort <<<"$first") <(dead_segments "$1" | sort))
  ((${#gone[@]} == 0)) || rm -f -- "${gone[@]}"
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  [[ ${1:-} =~ ^[0-9]+$ ]] || {
    sed -n '3,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
  }
  clear_dead_segments "$1"
fi
