#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# srun inside a batch job, with TERM passed to the ranks: srun would kill them. Called by train.sbatch:
#
#   launch/slurm/srun_run.sh --ntasks=4 --mpi=pmix build/cpu/trireme train configs/gpt_tiny.yaml
#
# USR1 makes a checkpoint. TERM and the first Ctrl-C stop with one, a second Ctrl-C kills at once (code 130). Exit code:
# see job_code in launch/job.sh; a rank ended by a signal is named (srun returns 128 + the signal). 5 if srun could not
# start the ranks. Removes what killed ranks leave in shared memory on their nodes.
# shellcheck disable=SC2317  # functions that traps call
set -u
trap 'early=USR1' USR1 && trap 'early=TERM' TERM && trap 'early=INT' INT  # until forward_signals

launch=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/job.sh
source "$launch/job.sh"
log=$(temporary_file trireme-srun) || exit 1
trap 'rm -f "$log"' EXIT
exec {messages}> >(tee "$log" >&2)
copier=$!
started=$(date +%s)
# In a new session, so that Ctrl-C reaches this script only.
setsid srun "$@" 2>&"$messages" &
step=$!
exec {messages}>&-
# To the ranks of every step, not to the batch script. scancel repeats its errors, and where Slurm ends the job it is late.
to_ranks() { scancel --signal="$1" "$SLURM_JOB_ID" --quiet 2>&1 | sort -u >&2; }
checkpoint() { to_ranks USR1; }
stop() { to_ranks TERM; }
ended_at_once=false
end_at_once() {
  echo "srun_run.sh: interrupted a second time: killing the ranks" >&2
  ended_at_once=true
  to_ranks KILL
  kill -s KILL "$step" 2>/dev/null
}
forward_signals
wait_for "$step"
wait "$copier" 2>/dev/null
if ((code != 0)); then
  # The job may have ended and lost its nodes.
  timeout 20 srun --overlap --immediate=10 --mpi=none --ntasks-per-node=1 --ntasks="${SLURM_JOB_NUM_NODES:-1}" "$launch/job.sh" \
    "$started" >/dev/null 2>&1
fi
if $ended_at_once; then exit 130; fi

signals='Killed|Terminated|Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception|Out Of Memory'
# Signals after the end of the step are not counted: in a step that Slurm ends no rank is the cause. Of several ranks
# the first is named.
mapfile -t ends < <(awk -v signals="tasks? [^:]+: ($signals)" '
  /CANCELLED/ { cancelled = 1 }
  !/^srun: error: [^:]+: tasks? / { next }
  /: Exited with exit code [0-9]+/ { print $NF; next }
  $0 ~ signals && !cancelled { print "signal" }' "$log")
launcher_code=$code
code=$(job_code "$launcher_code" "${ends[@]}")
# If a node does not start its ranks Slurm ends the others, and srun's code is the low byte of one of Slurm's errors:
# 167 for "Job credential expired".
failure=$(grep -m 1 -E '^srun: error: (Task|Application) launch ' "$log")
if [[ -z $failure ]] && ((launcher_code < 128 && ${#ends[@]} == 0)); then
  failure=$(grep -m 1 -E '^srun: error: (Unable to (create|confirm)|.*mpi/pmix|.*Communication connection)' "$log")
fi
pattern="srun: error: ([^:]+): tasks? ([^:]+): ($signals)"
if ((launcher_code != 0)) && [[ -n $failure && ("$code" == "$communication_code" || ${#ends[@]} -eq 0) ]]; then
  nodes=$(sed -nE 's/^srun: error: Task launch .*failed on node ([^: ]+):.*/\1/p' "$log" | sort -u | paste -sd ,)
  echo "error: ranks on ${nodes:-${SLURM_JOB_NODELIST:-the nodes}} could not be started: srun: ${failure##*: }" >&2
  code=$communication_code
elif [[ ${ends[0]:-} == signal && $code == "$communication_code" && $(grep -m 1 -E "$pattern" "$log") =~ $pattern ]]; then
  echo "[rank ${BASH_REMATCH[2]} ${BASH_REMATCH[1]}] error: ended by a signal (${BASH_REMATCH[3]}), and the job with it" >&2
fi
exit "$code"
