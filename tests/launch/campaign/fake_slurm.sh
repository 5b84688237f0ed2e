#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# In the place of Slurm's commands, by the name that it is called by. In the directory FAKE_SLURM:
#   nodes     names of all nodes (default: n1 to n4)       idle      of those that are idle (default: all)
#   down      is there: nobody answers
#   silent    is there: sbatch submits and fails
#   refusal   what sbatch says instead of submitting       gate      is there: sbatch has submitted and does not return
#   plan      a line "STEP CODE MESSAGE" per job: the checkpoint that it leaves and how it ends; wait: it runs until TERM;
#             pending: it waits for the reason MESSAGE
#   jobs/ID   what scontrol says of a job                  calls     every submission: its options
set -u
place=$FAKE_SLURM
command=${0##*/}
mkdir -p "$place/jobs"
if [[ -e $place/down ]]; then
  echo "$command: error: Unable to contact slurm controller" >&2
  exit 1
fi
read -r -a all <<<"$(cat "$place/nodes" 2>/dev/null || echo n1 n2 n3 n4)"
read -r -a nodes <<<"$(cat "$place/idle" 2>/dev/null || echo "${all[*]}")"

# set_job ID STATE CODE: the rest stays.
set_job() {
  local job=$place/jobs/$1
  sed -i -E "s/JobState=[^ ]*/JobState=$2/; s/ExitCode=[^ ]*/ExitCode=$3:0/; s/EndTime=[^ ]*/EndTime=$(date +%FT%T)/" "$job.tmp"
  cp "$job.tmp" "$job.new" && mv "$job.new" "$job"
}

# run_job ID LOG RUN: what the job does.
run_job() {
  local id=$1 log=$2 run=$3 step code message
  read -r step code message < <(sed -n "${id}p" "$place/plan")
  if [[ $code == pending ]]; then
    sed -i "s/JobState=[^ ]*/JobState=PENDING/; s/Reason=[^ ]*/Reason=$message/" "$place/jobs/$id"
    return
  fi
  mkdir -p "$run/checkpoints/$(printf 'step_%08d' "$step")"
  echo "{\"step\":$step,\"loss\":1,\"step_ms\":20}" >>"$run/metrics.jsonl"
  if [[ $code == wait ]]; then
    trap 'code=75' TERM
    touch "$place/waiting.$id"
    until [[ $code != wait ]]; do sleep 0.05; done
  fi
  {
    [[ -z $message ]] || echo "$message"
    ((code != 0)) || echo "final loss 1 (of step 9; exact bits 0x1p+0), weights xxh3 abc"
    echo "train.sbatch: the run ended with exit code $code"
  } >>"$log"
  if ((code == 0)); then set_job "$id" COMPLETED 0; else set_job "$id" FAILED "$code"; fi
}

case $command in
  sinfo) for node in "${nodes[@]}"; do echo "$node|idle"; done ;;
  squeue)
    name=""
    for word; do [[ $word != --name=* ]] || name=${word#*=}; done
    grep -l " JobName=$name " "$place"/jobs/*[0-9] 2>/dev/null | sed 's/.*\///'
    exit 0
    ;;
  scontrol)
    if [[ $2 == hostnames ]]; then
      tr , '\n' <<<"$3"
    elif ! cat "$place/jobs/$4" 2>/dev/null; then
      echo "slurm_load_jobs error: Invalid job id specified" >&2
      exit 1
    fi
    ;;
  scancel)
    echo "$*" >>"$place/cancels"
    [[ $1 != --batch ]] || kill -s TERM "$(cat "$place/jobs/${!#}.pid")"
    ;;
  sbatch)
    if [[ -e $place/refusal ]]; then
      echo "sbatch: error: $(cat "$place/refusal")" >&2
      exit 1
    fi
    test_only=false excluded=","
    for word; do
      case $word in
        --test-only) test_only=true ;;
        --nodes=*) count=${word#*=} ;;
        --job-name=*) name=${word#*=} ;;
        --output=*) log=${word#*=} ;;
        --exclude=*) excluded=,${word#*=}, ;;
        run.directory=*) run=${word#*=} ;;
      esac
    done
    taken=() possible=0
    for node in "${all[@]}"; do [[ $excluded == *,$node,* ]] || possible=$((possible + 1)); done
    for node in "${nodes[@]}"; do
      [[ $excluded == *,$node,* ]] || ((${#taken[@]} >= count)) || taken+=("$node")
    done
    if ((possible < count)); then
      echo "sbatch: error: Requested node configuration is not available" >&2
      exit 1
    fi
    if $test_only; then
      when=now
      ((${#taken[@]} == count)) || when="now + 1 hour"
      echo "sbatch: Job 1 to start at $(date -d "$when" +%FT%T) using 4 processors on nodes n1 in partition main" >&2
      exit 0
    fi
    exec {lock}>"$place/submit.lock"
    flock "$lock"
    id=$(($(find "$place/jobs" -name '*[0-9]' | wc -l) + 1))
    echo "$id $*" >>"$place/calls"
    echo "JobId=$id JobName=$name JobState=RUNNING Reason=None NodeList=$(IFS=, && echo "${taken[*]}") StartTime=$(date +%FT%T) EndTime=Unknown ExitCode=0:0" \
      >"$place/jobs/$id.tmp"
    cp "$place/jobs/$id.tmp" "$place/jobs/$id"
    # Not the lock of the one who submits.
    (
      exec {lock}>&- 99>&-
      run_job "$id" "$log" "$run"
    ) </dev/null >/dev/null 2>&1 &
    echo $! >"$place/jobs/$id.pid"
    exec {lock}>&-
    while [[ -e $place/gate ]]; do
      touch "$place/submitted"
      sleep 0.05
    done
    if [[ -e $place/silent ]]; then
      echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
      exit 1
    fi
    echo "$id"
    ;;
esac
