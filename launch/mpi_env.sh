#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All settings of Open MPI and NCCL for a job on one host or several, and PATH. Source it, then start the job as usual, or
# give it the command to start:
#
#   source launch/mpi_env.sh 4 && mpirun -np 4 build/cpu/trireme train configs/gpt_tiny.yaml
#   launch/mpi_env.sh 4 srun --mpi=pmix build/cpu/trireme train configs/gpt_tiny.yaml
#
# The argument is the number of ranks on each host (default: the number of cores). Existing values are kept.
# launch/mpi_run.sh and launch/slurm/train.sbatch source it. Our variables:
#
#   TRIREME_INTERFACE   the network between the hosts: an interface (ib0) or a subnet (10.1.0.0/16)
#   TRIREME_HCA         InfiniBand or RoCE cards to use instead of all: mlx5_0,mlx5_1:1 (default: port 1)
#   TRIREME_START_SECONDS   how long ranks wait for each other at the start (default 120, and 0.25 per rank beyond 128; 0: forever)
#   TRIREME_PORTS       ports on which ranks listen, for firewalls and network policies: 40000-40999

trireme_ranks=${1:-$(nproc)}

# A setting of mpirun: OMPI_MCA_$1 of Open MPI 4 and PRTE_MCA_$2 of Open MPI 5, whose mpirun is PRRTE. The value is $3, for
# PRRTE $4 if it means another.
trireme_mpirun_setting() {
  local old=OMPI_MCA_$1 new=PRTE_MCA_$2
  export "$old=${!old:-$3}"
  export "$new=${!new:-${4:-${!old}}}"
}

# --- Root. Open MPI refuses it unless both are set; containers and CI are root.
export OMPI_ALLOW_RUN_AS_ROOT=${OMPI_ALLOW_RUN_AS_ROOT:-1}
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:-1}

# --- Slots and cores. In an allocation the scheduler owns both.
if [[ -z ${SLURM_JOB_ID:-} ]]; then
  # mpirun counts physical cores as slots and refuses more ranks than those.
  trireme_mpirun_setting rmaps_base_oversubscribe rmaps_default_mapping_policy 1 slot:oversubscribe

  # Open MPI binds every mpirun's first rank to core 0: two runs at once would share it, and a rank's worker threads
  # would share their rank's one core. The kernel's scheduler places them better.
  trireme_mpirun_setting hwloc_base_binding_policy hwloc_default_binding_policy none
fi

# With more ranks than cores a waiting rank must yield its core to the rank it waits for: a 1 MiB all-reduce of 4 ranks
# on 2 cores takes 16 ms without yielding and 0.4 ms with it. With a core each, yielding costs a few percent.
if ((trireme_ranks > $(nproc))); then
  export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}
fi

# A rank is one core: thread pools of libraries would compete for it.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

# --- Memory. Containers often forbid the system call that copies between processes; Open MPI then warns and falls back.
export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}

# --- Interfaces. Open MPI uses every interface that is up, also bridges of container engines, which other hosts cannot
# reach: the job then hangs at its first message. NCCL skips those, and takes names only; a leading = means an exact
# name.
if [[ -n ${TRIREME_INTERFACE:-} ]]; then
  export OMPI_MCA_btl_tcp_if_include=${OMPI_MCA_btl_tcp_if_include:-$TRIREME_INTERFACE}
  trireme_mpirun_setting oob_tcp_if_include prte_if_include "$TRIREME_INTERFACE"
  trireme_name=$TRIREME_INTERFACE
  if [[ $trireme_name == */* ]]; then
    trireme_name=$(ip -o -4 addr show to "$TRIREME_INTERFACE" 2>/dev/null | awk 'NR == 1 { print $2 }')
  fi
  if [[ -n $trireme_name ]]; then export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-=$trireme_name}; fi
  unset trireme_name
elif [[ -z ${OMPI_MCA_btl_tcp_if_include:-} ]]; then
  export OMPI_MCA_btl_tcp_if_exclude=${OMPI_MCA_btl_tcp_if_exclude:-127.0.0.0/8,docker0,virbr0,cni0,flannel.1,podman0,lxcbr0}
fi

# --- Cards. NCCL and UCX give each GPU the nearest of all active cards, also those for storage or management.
if [[ -n ${TRIREME_HCA:-} ]]; then
  trireme_cards=""
  for trireme_card in ${TRIREME_HCA//,/ }; do
    [[ $trireme_card == *:* ]] || trireme_card+=:1
    trireme_cards+=${trireme_cards:+,}$trireme_card
  done
  # Without = NCCL matches prefixes: mlx5_1 would match mlx5_10.
  export NCCL_IB_HCA=${NCCL_IB_HCA:-=$trireme_cards} UCX_NET_DEVICES=${UCX_NET_DEVICES:-$trireme_cards}
  unset trireme_cards trireme_card
fi

# --- Ports. Open MPI's, and through the kernel all others. NCCL has no setting for ports. The second needs root or, in
# a pod, the sysctl in its description (launch/kubernetes).
if [[ -n ${TRIREME_PORTS:-} ]]; then
  if [[ ! $TRIREME_PORTS =~ ^([0-9]{4,5})-([0-9]{4,5})$ ]] || ((BASH_REMATCH[1] >= BASH_REMATCH[2] || BASH_REMATCH[2] > 65535)); then
    echo "mpi_env.sh: TRIREME_PORTS: '$TRIREME_PORTS' is not a range of ports; for example 40000-40999" >&2
    # shellcheck disable=SC2317  # where it is run and not sourced
    return 2 2>/dev/null || exit 2
  fi
  export OMPI_MCA_btl_tcp_port_min_v4=${OMPI_MCA_btl_tcp_port_min_v4:-${BASH_REMATCH[1]}}
  export OMPI_MCA_btl_tcp_port_range_v4=${OMPI_MCA_btl_tcp_port_range_v4:-$((BASH_REMATCH[2] - BASH_REMATCH[1] + 1))}
  trireme_mpirun_setting oob_tcp_dynamic_ipv4_ports oob_tcp_dynamic_ipv4_ports "$TRIREME_PORTS"
fi

# --- A lost host. By default mpirun notices after 8 minutes; with these three after 5 s, by keepalive probes of the
# kernels. Use more if links fail for longer and recover.
trireme_mpirun_setting oob_tcp_keepalive_time oob_tcp_keepalive_time 2
trireme_mpirun_setting oob_tcp_keepalive_intvl oob_tcp_keepalive_intvl 1
trireme_mpirun_setting oob_tcp_keepalive_probes oob_tcp_keepalive_probes 3

# --- GPUs are numbered in bus order, as in nvidia-smi. CUDA's default puts the fastest first, so on hosts with mixed
# GPUs two programs would mean different GPUs by one number.
export CUDA_DEVICE_ORDER=${CUDA_DEVICE_ORDER:-PCI_BUS_ID}

# --- NCCL. Its warnings name the cause of a failed call; the error code does not.
export NCCL_DEBUG=${NCCL_DEBUG:-WARN}

# --- The program that belongs to this file becomes `trireme` in PATH.
# shellcheck source=launch/program.sh
source "$(dirname "${BASH_SOURCE[0]}")/program.sh"
put_program_on_path

unset trireme_ranks
unset -f trireme_mpirun_setting

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
  [[ $# -ge 2 ]] || {
    sed -n '3,16s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
  }
  exec "${@:2}"
fi
