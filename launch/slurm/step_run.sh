#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One run as a step of the surrounding allocation, by srun and Slurm's PMIx. Called by `trireme scale --launcher srun`:
#
#   launch/slurm/step_run.sh 4 [SRUN-OPTION]... -- build/cpu/trireme train configs/gpt_tiny.yaml
#
# Ranks fill nodes in turn, as under mpirun; plain srun would use the whole allocation. Each has a GPU if the allocation
# has some. A step larger than the allocation would wait forever: it is refused with code 2. A step that cannot start
# its ranks, or loses them before the first step of training (code 5), is retried TRIREME_START_RETRIES times (default
# 2). TERM and Ctrl-C stop it with a checkpoint.
set -u
early="" && trap 'early=TERM' TERM && trap 'early=INT' INT  # until stop_run is there

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
note() { echo "step_run.sh: $*" >&2; }
die() {
  note "$*"
  exit 2
}
[[ ${1:-} =~ ^[1-9][0-9]*$ && " ${*:2} " == *" -- "* ]] || {
  sed -n '3,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
[[ -n ${SLURM_JOB_ID:-} ]] || die "this is not in an allocation; use salloc or sbatch around it"
ranks=$1
shift
options=()
while [[ $1 != -- ]]; do
  options+=("$1")
  shift
done
shift

# shellcheck source=launch/slurm/allocation.sh
source "$here/allocation.sh"
read_allocation
gpus=$(sum_of "${node_gpus[@]}") cores=$(sum_of "${node_cpus[@]}")
((ranks <= cores)) || [[ -n ${SLURM_OVERCOMMIT:-} ]] ||
  die "$ranks ranks need as many cores, and Slurm granted $cores ($(granted_text)); allocate more (--ntasks=$ranks)"
if ((gpus > 0)) && computes_on_cpu "$@"; then
  unset SLURM_GPUS SLURM_GPUS_PER_NODE SLURM_GPUS_PER_TASK SLURM_TRES_PER_TASK
  gpus=0 options=(--gres=none "${options[@]}")
fi
((gpus == 0 || ranks <= gpus)) ||
  die "$ranks ranks need as many GPUs, and Slurm granted $gpus ($(granted_text)); allocate more (--gpus-per-task=1)"
# At least, on the fullest node.
per_node=$(((ranks + ${#node_names[@]} - 1) / ${#node_names[@]}))
# shellcheck source=launch/mpi_env.sh
source "$here/../mpi_env.sh" "$per_node" || exit 2

if ((gpus > 0)); then
  # See train.sbatch. Without --gpus a step requests the whole job's, which some of its nodes do not have.
  unset SLURM_GPUS_PER_TASK SLURM_TRES_PER_TASK SLURM_GPU_BIND SLURM_TRES_BIND SLURM_NTASKS_PER_GPU
  options=(--gpus="$ranks" --cpu-bind=none "${options[@]}")
  set -- "$here/../rank_affinity.sh" "$@"
fi
# shellcheck source=launch/job.sh
source "$here/../job.sh"
run=$(run_directory_in "$@")
trap 'stop_run TERM' TERM
trap 'stop_run INT' INT
[[ -z $early ]] || stop_run "$early"
run_at_last run "$here/srun_run.sh" --mpi=pmix --kill-on-bad-exit=1 --distribution=block:block,Pack --ntasks="$ranks" "${options[@]}" "$@"
exit "$code"
