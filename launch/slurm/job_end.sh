# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# The second half of train.sbatch, which sources it: runs `command`, and ends the job or has it come back.
# shellcheck disable=SC2317  # functions that traps call

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

if ((${#health_check[@]} > 0)); then
  run_at_last "health check" "${health_check[@]}"
  if ((code != 0)) && [[ -z $stopping ]]; then
    ((code == communication_code)) || note "the health check found a problem on $SLURM_JOB_NODELIST"
    exit "$communication_code"
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
if ((code == requeue_code)) || [[ -n $stopping && " 0 2 3 6 " != *" $code "* ]]; then
  requeue_job
  code=$requeue_code
fi
exit "$code"
