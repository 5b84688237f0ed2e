#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# srun inside a batch job, so that a TERM reaches the ranks: srun itself takes one as an order to kill them. train.sbatch
# calls it:
#
#   launch/slurm/srun_run.sh --ntasks=4 --mpi=pmix build/cpu/trireme train configs/gpt_tiny.yaml
#
# USR1 goes to the ranks: a checkpoint. TERM and the first Ctrl-C stop them with one, a second Ctrl-C kills them at once (code
# 130). Exit code: see job_code in launch/job.sh; a rank that a signal ended is named (srun itself gives 128 + the signal). Where srun
# could not start the ranks: 5. What killed ranks leave in the memory of their nodes is removed there.
# shellcheck disable=SC2317  # functions that traps call
set -u

launch=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=launch/job.sh
source "$launch/job.sh"
log=$(mktemp "${TMPDIR:-/tmp}/trireme-srun.XXXXXX")
trap 'rm -f "$log"' EXIT
exec {messages}> >(tee "$log" >&2)
copier=$!
started=$(date +%s)
# A session of its own: Ctrl-C reaches this script only.
setsid srun "$@" 2>&"$messages" &
step=$!
exec {messages}>&-
# To the ranks of every step, not to the batch script.
to_ranks() { scancel --signal="$1" "$SLURM_JOB_ID"; }
checkpoint() { to_ranks USR1; }
stop() { to_ranks TERM; }
ended_at_once=false
end_at_once() {
  echo "srun_run.sh: interrupted a second time: killing the ranks" >&2
  ended_at_once=true
  to_ranks KILL
  kill -s KILL "$step" 2>/dev/null
}
heed_signals
wait_for "$step"
wait "$copier" 2>/dev/null
if ((code != 0)); then
  # The job may be over, and its nodes with it.
  timeout 20 srun --overlap --immediate=10 --mpi=none --ntasks-per-node=1 --ntasks="${SLURM_JOB_NUM_NODES:-1}" "$launch/job.sh" \
    "$started" >/dev/null 2>&1
fi
if $ended_at_once; then exit 130; fi

signals='Killed|Terminated|Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception|Out Of Memory'
# Signals behind the end of the step are its own: a step that Slurm ends has no culprit, and of several ranks the first is it.
mapfile -t ends < <(awk -v signals="tasks? [^:]+: ($signals)" '
  /CANCELLED/ { cancelled = 1 }
  !/^srun: error: [^:]+: tasks? / { next }
  /: Exited with exit code [0-9]+/ { print $NF; next }
  $0 ~ signals && !cancelled { print "signal" }' "$log")
launcher_code=$code
code=$(job_code "$launcher_code" "${ends[@]}")
# Where a node does not start its ranks Slurm ends those of the others, and srun's code is the low byte of one of Slurm's errors:
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
