#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# srun inside a batch job, so that a TERM reaches the ranks: srun itself takes one as an order to kill them. train.sbatch
# calls it:
#
#   launch/slurm/srun_run.sh --ntasks=4 --mpi=pmix build/cpu/trireme train configs/gpt_tiny.yaml
#
# USR1 goes to the ranks: a checkpoint. TERM stops them with one. Exit code: srun's, the highest of the ranks'.
# shellcheck disable=SC2317  # functions that traps call
set -u

srun "$@" &
step=$!
# To the ranks of every step, not to the batch script.
trap 'scancel --signal=USR1 "$SLURM_JOB_ID"' USR1
trap 'scancel --signal=TERM "$SLURM_JOB_ID"' TERM INT
# Signals interrupt a wait.
while :; do
  wait "$step"
  code=$?
  kill -0 "$step" 2>/dev/null || exit "$code"
done
