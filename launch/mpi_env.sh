# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Open MPI's settings for ranks that share one machine. Source it, then use mpirun as usual:
#
#   source launch/mpi_env.sh 4 && mpirun -np 4 build/cpu/trireme train configs/gpt_tiny.yaml
#
# The argument is the number of ranks (default: the number of cores). Values that are set already are kept.
# Jobs of a batch system need none of this: there the scheduler owns slots and cores.

trireme_ranks=${1:-$(nproc)}

# Open MPI refuses root unless both are set; containers and CI are root.
export OMPI_ALLOW_RUN_AS_ROOT=${OMPI_ALLOW_RUN_AS_ROOT:-1}
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:-1}

# mpirun counts physical cores as slots and refuses more ranks than those.
export OMPI_MCA_rmaps_base_oversubscribe=${OMPI_MCA_rmaps_base_oversubscribe:-1}

# Open MPI binds every mpirun's first rank to core 0: two runs at once would share it, and a rank's worker threads would
# share their rank's one core. The kernel's scheduler places them better.
export OMPI_MCA_hwloc_base_binding_policy=${OMPI_MCA_hwloc_base_binding_policy:-none}

# With more ranks than cores a waiting rank must give its core to the one that it waits for: a 1 MiB all-reduce of 4 ranks
# on 2 cores takes 16 ms without yielding and 0.4 ms with it. With a core each, yielding costs a few percent.
if ((trireme_ranks > $(nproc))); then
  export OMPI_MCA_mpi_yield_when_idle=${OMPI_MCA_mpi_yield_when_idle:-1}
fi

# Containers often forbid the system call that copies between processes; Open MPI then warns and falls back anyway.
export OMPI_MCA_btl_vader_single_copy_mechanism=${OMPI_MCA_btl_vader_single_copy_mechanism:-none}

# A rank is one core: library thread pools would only get in each other's way.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

unset trireme_ranks
