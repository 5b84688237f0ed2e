# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The second half of train.sbatch, which sources it: runs `command`, and ends the job or has it come back.
# shellcheck disable=SC2317  # functions that traps call

# Changes with every step of this start.
state_of_metrics() { stat -c '%Y %s' "$run/metrics.jsonl" 2>/dev/null; }
has_begun() { [[ $(state_of_metrics) != "$metrics_before" ]]; }

job=0 stopping=""
stop() {
  stopping=$1
  note "$1: stopping the run"
  ((job == 0)) || kill -s TERM "$job" 2>/dev/null
}
# The signal comes --signal's seconds before the limit. Where that is before the first step, or leaves less than half of the
# time, it comes too soon: the engine knows the limit, and what a checkpoint takes, and stops in time by itself. Somebody's
# scancel looks the same, but for a job that has hours to go.
limit_is_near() {
  local left
  left=$(seconds_of_allocation 0)
  if ((left > 60 && left < 3600)) && { ((SECONDS < left)) || ! has_begun; }; then
    note "the time limit is $left s away: going on"
  else
    stop "the time limit is near"
  fi
}
trap limit_is_near USR1
trap 'stop TERM' TERM

# run_once NAME COMMAND...: sets `code`.
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

# Requeues this job and waits for the end that this brings. Slurm requeues a preempted job and one that lost a node itself,
# and a cancelled one must not come back.
requeue_job() {
  local state
  state=$(job_field JobState)
  [[ $state == RUNNING ]] || {
    note "the job is $state: not requeued from here"
    return
  }
  (($(environment_number SLURM_RESTART_COUNT 0 0 1000000) < $(environment_number TRIREME_MAX_REQUEUES 100 0 1000000))) || {
    note "TRIREME_MAX_REQUEUES is used up"
    return
  }
  note "requeueing"
  scontrol requeue "$SLURM_JOB_ID" && sleep 600
}

# A start that loses ranks before the first step, or has none, may be a daemon's bad moment; a host's fault comes back.
retries=$(environment_number TRIREME_START_RETRIES 2 0 1000)
# run_at_last NAME COMMAND...: run_once, and again where that may help.
run_at_last() {
  local start
  for ((start = 0; ; ++start)); do
    run_once "$@"
    if ((code != communication)) || [[ -n $stopping ]] || has_begun; then return; fi
    if ((start >= retries)); then
      note "no start in $((start + 1)) came to a step on $SLURM_JOB_NODELIST; sbatch --exclude=HOST leaves out a host that is named above"
      return
    fi
    note "ranks on $SLURM_JOB_NODELIST were lost before the first step: start $((start + 1)) of $retries more"
  done
}

if ((${#health_check[@]} > 0)); then
  run_at_last "health check" "${health_check[@]}"
  if ((code != 0)) && [[ -z $stopping ]]; then
    ((code == communication)) || note "the health check found a problem on $SLURM_JOB_NODELIST"
    exit "$communication"
  fi
fi
run_at_last run "${command[@]}"

# Told to stop by train.sbatch, or by Slurm for a more urgent job.
preempt_time=$(job_field PreemptTime)
if [[ -z $stopping && -n $preempt_time && $preempt_time != None ]]; then stopping=preempted; fi
if [[ $(job_field JobState) == TIMEOUT ]] && ! has_begun; then
  note "the time limit struck before the first step: give the job more time (sbatch --time)"
fi
# A run that was told to stop may lose its code to a rank that died on the way.
if ((code == requeue)) || [[ -n $stopping && " 0 2 3 6 " != *" $code "* ]]; then
  requeue_job
  code=$requeue
fi
exit "$code"
