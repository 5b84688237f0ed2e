#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# srun inside a batch job, so that a TERM reaches the ranks: srun itself takes one as an order to kill them. train.sbatch
# calls it:
#
#   launch/slurm/srun_run.sh --ntasks=4 --mpi=pmix build/cpu/trireme train configs/gpt_tiny.yaml
#
# USR1 goes to the ranks: a checkpoint. TERM stops them with one. Exit code: see launch/exit_codes.sh; a rank that a signal
# ended is named (srun itself gives 128 + the signal). Where srun could not start the ranks: 5.
# shellcheck disable=SC2317  # functions that traps call
set -u

# shellcheck source=launch/exit_codes.sh
source "$(dirname "${BASH_SOURCE[0]}")/../exit_codes.sh"
log=$(mktemp "${TMPDIR:-/tmp}/trireme-srun.XXXXXX")
trap 'rm -f "$log"' EXIT
exec {messages}> >(tee "$log" >&2)
copier=$!
srun "$@" 2>&"$messages" &
step=$!
exec {messages}>&-
# To the ranks of every step, not to the batch script.
trap 'scancel --signal=USR1 "$SLURM_JOB_ID"' USR1
trap 'scancel --signal=TERM "$SLURM_JOB_ID"' TERM INT
# Signals interrupt a wait.
while :; do
  wait "$step"
  code=$?
  kill -0 "$step" 2>/dev/null || break
done
wait "$copier" 2>/dev/null

signals='Killed|Terminated|Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception|Out Of Memory'
# Signals behind the end of the step are its own: a step that Slurm ends has no culprit, and of several ranks the first is it.
mapfile -t ends < <(awk -v signals="tasks? [^:]+: ($signals)" '
  /CANCELLED/ { cancelled = 1 }
  !/^srun: error: [^:]+: tasks? / { next }
  /: Exited with exit code [0-9]+/ { print $NF; next }
  $0 ~ signals && !cancelled { print "signal" }' "$log")
launcher_code=$code
code=$(job_code "$launcher_code" "${ends[@]}")
pattern="srun: error: ([^:]+): tasks? ([^:]+): ($signals)"
if [[ ${ends[0]:-} == signal && $code == "$communication_code" && $(grep -m 1 -E "$pattern" "$log") =~ $pattern ]]; then
  echo "[rank ${BASH_REMATCH[2]} ${BASH_REMATCH[1]}] error: ended by a signal (${BASH_REMATCH[3]}), and the job with it" >&2
elif ((launcher_code > 0 && launcher_code < 128 && ${#ends[@]} == 0)) &&
  grep -qE '^srun: error: (Task launch|Application launch|Unable to (create|confirm)|.*mpi/pmix|.*Communication connection)' "$log"; then
  echo "error: srun could not start the ranks on ${SLURM_JOB_NODELIST:-its nodes}" >&2
  code=$communication_code
fi
exit "$code"
