#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# srun inside a batch job, so that a TERM reaches the ranks: srun itself takes one as an order to kill them. train.sbatch
# calls it:
#
#   launch/slurm/srun_run.sh --ntasks=4 --mpi=pmix build/cpu/trireme train configs/gpt_tiny.yaml
#
# USR1 goes to the ranks: a checkpoint. TERM stops them with one. Exit code: srun's, the highest of the ranks'; 5 where a
# signal ended a rank, which is then named (srun itself gives 128 + the signal).
# shellcheck disable=SC2317  # functions that traps call
set -u

readonly communication=5
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

# The first that srun reports is the culprit: the others are ended for it. A step that Slurm ends has none.
first=$(grep -m 1 -E 'srun: error: [^:]+: tasks? [^:]+: |CANCELLED' "$log")
pattern='error: ([^:]+): tasks? ([^:]+): (Killed|Terminated|Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception)'
if ((code > 128)) && [[ $first =~ $pattern ]]; then
  echo "[rank ${BASH_REMATCH[2]} ${BASH_REMATCH[1]}] error: ended by a signal (${BASH_REMATCH[3]}), and the job with it" >&2
  code=$communication
fi
exit "$code"
