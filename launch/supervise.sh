#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a training job until it is done: starts it again after a failure, from its newest checkpoint, and gives up where
# that would not help.
#
#   launch/supervise.sh [options] -- launch/mpi_run.sh -np 8 trireme train configs/gpt.yaml --set run.directory=runs/a
#
# launch/supervise.sh --help lists the options: how often, how long between, on which hosts and numbers of ranks.
#
#   launch/supervise.sh --hosts a:8,b:8,c:8 --min-ranks 16 -- launch/mpi_run.sh --host {hosts} -np {ranks} trireme train gpt.yaml
#
# Hosts answer by OMPI_MCA_plm_rsh_agent or ssh within TRIREME_PROBE_SECONDS (default 5), or sooner where others do.
# `parallel.search: true` in the config (with parallel.hardware) has the planner choose the layout for as many ranks as there are.
#
# USR1, TERM and Ctrl-C go on to the job; the last two also mean that nothing is started again. mpirun kills a second after its
# own TERM, launch/mpi_run.sh in its place leaves time for a checkpoint. One log per start and a line about its end in DIR/supervise/. Where
# the supervisor itself is killed its job is told to stop, and the next one waits for the end of what still runs.
#
# Exit code: the job's, when it is done (0), cannot succeed (2 config, 3 data, 6 loss), was stopped (75, requeue), or the
# restarts are used up; 93 when the same failure would come again: the same step and message twice in a row, or no progress.
# A full disk, a directory that an ending job holds, a lost host and a daemon that could not be started may pass: they cost
# restarts, with the backoff, and nothing else.
set -u

# shellcheck source=launch/program.sh
source "$(dirname "${BASH_SOURCE[0]}")/program.sh"
for program in "$(program_of_scripts)" "$(command -v trireme)" "${TRIREME_BINARY:-}"; do
  [[ ! -f $program || ! -x $program ]] || exec "$program" supervise "$@"
done
echo "supervise.sh: no trireme, which supervises, beside this script or in PATH; build it, add it to PATH or set TRIREME_BINARY" >&2
exit 2
