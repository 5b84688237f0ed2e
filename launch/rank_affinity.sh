#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a rank on the cores next to its GPU. Launchers hand out cores in blocks without regard to GPUs: rank 1 may get
# cores of one socket and a GPU of the other.
#
#   launch/mpi_run.sh -np 8 --bind-to none launch/rank_affinity.sh build/cuda/trireme train configs/gpt2_124m.yaml
#
# A rank takes its GPU by its number on the host, as the program does, and of its allowed cores whole ones that the
# kernel calls local to that GPU; ranks with GPUs on one socket divide them. Network cards need no help: NCCL and UCX
# take the nearest to each GPU (launch/mpi_env.sh restricts the choice). Binds nothing without GPUs, on MIG instances,
# and if Slurm granted no core next to the GPU; it reports the last case, since it costs speed.
set -u

[[ $# -ge 1 ]] || {
  sed -n '3,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}
# shellcheck source=launch/slurm/allocation.sh
source "$(dirname "${BASH_SOURCE[0]}")/slurm/allocation.sh"
readonly sysfs=${TRIREME_SYSFS:-/sys}

# Checks mpirun's variables first: its ranks also see Slurm's variables of its daemon.
find_place() {
  local counts
  rank=${OMPI_COMM_WORLD_LOCAL_RANK:-${SLURM_LOCALID:-${LOCAL_RANK:-}}}
  here=${OMPI_COMM_WORLD_LOCAL_SIZE:-${LOCAL_WORLD_SIZE:-}}
  if [[ -z $here && -n ${SLURM_STEP_TASKS_PER_NODE:-} ]]; then
    mapfile -t counts < <(expand_counts "$SLURM_STEP_TASKS_PER_NODE")
    here=${counts[SLURM_NODEID]:-}
  fi
  [[ $rank =~ ^[0-9]+$ && $here =~ ^[0-9]+$ ]]
}

# "0-3,8" as numbers, one per line.
expand_list() {
  local part
  for part in ${1//,/ }; do seq "${part%-*}" "${part#*-}"; done
}

# PCI addresses of this rank's visible GPUs, in the kernel's spelling and the program's order.
visible_gpus() {
  local index address id wanted all=()
  while IFS=', ' read -r index address id; do
    address=${address,,}
    all+=("$index $id ${address: -12}")
  done < <(nvidia-smi --query-gpu=index,pci.bus_id,uuid --format=csv,noheader 2>/dev/null)
  if [[ -z ${CUDA_VISIBLE_DEVICES+set} ]]; then
    printf '%s\n' "${all[@]##* }"
    return
  fi
  for wanted in ${CUDA_VISIBLE_DEVICES//,/ }; do
    local gpu
    for gpu in "${all[@]}"; do
      read -r index id address <<<"$gpu"
      if [[ $wanted == "$index" || $wanted == GPU-* && $id == "$wanted"* ]]; then echo "$address"; fi
    done
  done
}

# Processors allowed to this rank and local to its GPU, threads of a core adjacent.
local_processors() {
  local processor allowed
  allowed=$(sed -nE 's/^Cpus_allowed_list:\s*//p' /proc/self/status)
  comm -12 <(expand_list "$allowed" | sort) <(expand_list "$1" | sort) | while read -r processor; do
    local core
    core=$(cat "$sysfs/devices/system/cpu/cpu$processor/topology/thread_siblings_list" 2>/dev/null || echo "$processor")
    echo "${core%%[-,]*} $processor"
  done | sort -n -k 1,1 -k 2,2
}

# Prints this rank's processors, "4,5,6,7", or nothing if there is no choice.
choose() {
  local gpus lists=() list gpu other before=0 sharing=0 mine
  mapfile -t gpus < <(visible_gpus)
  ((${#gpus[@]} > 0)) || return
  for gpu in "${gpus[@]}"; do
    list=$(cat "$sysfs/bus/pci/devices/$gpu/local_cpulist" 2>/dev/null) && [[ -n $list ]] || return
    lists+=("$list")
  done
  mine=${lists[rank % ${#gpus[@]}]}
  # If each rank sees only its GPU, the others' places are unknown: it takes the whole socket.
  if ((${#gpus[@]} > 1)); then
    for ((other = 0; other < here; ++other)); do
      [[ ${lists[other % ${#gpus[@]}]} == "$mine" ]] || continue
      ((other >= rank)) || before=$((before + 1))
      sharing=$((sharing + 1))
    done
  else
    sharing=1
  fi
  local lines cores first last
  mapfile -t lines < <(local_processors "$mine")
  if ((${#lines[@]} == 0)); then
    echo "rank_affinity.sh: $(hostname): local rank $rank may use none of the cores beside its GPU ($mine); under Slurm add" \
      "--gres-flags=enforce-binding, or --exclusive" >&2
    return
  fi
  mapfile -t cores < <(printf '%s\n' "${lines[@]%% *}" | uniq)
  first=$((${#cores[@]} * before / sharing)) last=$((${#cores[@]} * (before + 1) / sharing))
  if ((first == last)); then first=0 last=${#cores[@]}; fi
  for ((; first < last; ++first)); do printf '%s\n' "${lines[@]}" | awk -v core="${cores[first]}" '$1 == core { print $2 }'; done | paste -sd ,
}

if find_place && command -v nvidia-smi >/dev/null && command -v taskset >/dev/null; then
  processors=$(choose)
  if [[ -n $processors ]]; then exec taskset --cpu-list "$processors" "$@"; fi
fi
exec "$@"
