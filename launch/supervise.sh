#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Restarts a training job until it is done: after a failure it starts again from the newest checkpoint, and gives up if
# that would not help.
#
#   launch/supervise.sh [options] -- launch/mpi_run.sh -np 8 trireme train configs/gpt.yaml --set run.directory=runs/a
#
# launch/supervise.sh --help lists the options: number of restarts, pauses, hosts and rank counts.
#
#   launch/supervise.sh --hosts a:8,b:8,c:8 --min-ranks 16 -- launch/mpi_run.sh --host {hosts} -np {ranks} trireme train gpt.yaml
#
# Hosts answer by OMPI_MCA_plm_rsh_agent (Open MPI 5: PRTE_MCA_plm_ssh_agent) or ssh within TRIREME_PROBE_SECONDS
# (default 5), or sooner if others do. With
# `parallel.search: true` and parallel.hardware in the config the planner chooses the layout for the ranks at hand.
#
# USR1, TERM and Ctrl-C are passed to the job; after the last two nothing is restarted. mpirun kills a second after its
# TERM; use launch/mpi_run.sh, which leaves time for a checkpoint. DIR/supervise/ has a log per start and a line about
# its end. If the supervisor is killed its job is told to stop, and the next supervisor waits until it has ended.
#
# Exit code: the job's if it is done (0), cannot succeed (2 config, 3 data, 6 loss), was stopped (75, requeue), or no
# restarts are left; 93 if the failure would repeat: the same step and message twice in a row, or no progress. A full
# disk, a directory that an ending job holds, a lost host and a daemon that could not start may be temporary: they only
# cost restarts, with the backoff.
set -u

# shellcheck source=launch/program.sh
source "$(dirname "${BASH_SOURCE[0]}")/program.sh"
for program in "$(program_of_scripts)" "$(command -v trireme)" "${TRIREME_BINARY:-}"; do
  [[ ! -f $program || ! -x $program ]] || exec "$program" supervise "$@"
done
echo "supervise.sh: no trireme, which supervises, beside this script or in PATH; build it, add it to PATH or set TRIREME_BINARY" >&2
exit 2
