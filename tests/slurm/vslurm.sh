#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A Slurm cluster on this machine, in a second, without systemd or cgroups. Needs root and Debian's slurmctld, slurmd,
# slurm-client, munge, iproute2 (scripts/install_deps.sh --slurm).
#
#   vslurm.sh up DIR [NODES] [CPUS] [accounting]      then: export SLURM_CONF=DIR/slurm.conf; sbatch ...
#   vslurm.sh down DIR
#
# NODES (default 2) with CPUS (default 2) each, whatever cores this machine has. Every node is a slurmd in a network
# namespace with its own address, host name and /dev/shm (see ../hosts/network.sh), so that ranks on two of them speak TCP and
# a link can be cut. Each has two GPUs, which are /dev/null. Partitions: main, and low, which main's jobs preempt. With
# accounting (slurmdbd, and mariadb-server-core for its database, which takes two seconds more) jobs need an account: physics
# is root's. down ends every process of the nodes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/hosts/network.sh
source "$here/../hosts/network.sh"

action=${1:-} place=${2:-}
[[ "$action $place" =~ ^(up|down)\ / ]] || {
  sed -n '3,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

stop_daemon() {
  local pid
  [[ -s $1 ]] || return 0
  pid=$(<"$1")
  # The process number may be reused.
  [[ $(ps -o args= -p "$pid" 2>/dev/null) == *$place* || $(ps -o comm= -p "$pid" 2>/dev/null) == slurm* ]] || return 0
  # Its data is not needed any more. Waiting for its end would hang if no process reaps it.
  kill -s KILL "$pid" 2>/dev/null || true
}

down() {
  network_load "$place"
  stop_daemon "$place/run/slurmctld.pid"
  stop_daemon "$place/run/slurmdbd.pid"
  stop_daemon "$place/run/mariadbd.pid"
  [[ ! -L $place/database ]] || rm -rf "$(readlink "$place/database")"
  network_down "$place"
  stop_daemon "$place/run/munged.pid"
}

# A database in memory: on a disk creating it takes seconds.
start_database() {
  local data options
  data=$(mktemp -d /dev/shm/trireme-slurm.XXXXXX)
  ln -sfn "$data" "$place/database"
  options=(--no-defaults --datadir="$data" --user=root --innodb-log-file-size=4M --innodb-buffer-pool-size=16M --innodb-flush-method=nosync)
  mariadb-install-db "${options[@]}" --auth-root-authentication-method=normal --skip-test-db >"$place/log/database.log" 2>&1
  mariadbd "${options[@]}" --skip-grant-tables --bind-address="$network_gateway" --port=$((17100 + network_number)) \
    --socket="$place/run/mariadbd.sock" --pid-file="$place/run/mariadbd.pid" >>"$place/log/mariadbd.log" 2>&1 </dev/null &
  disown
}

accounting_config() {
  if [[ $1 != accounting ]]; then
    echo "AccountingStorageType=accounting_storage/none"
    return
  fi
  cat <<CONFIG
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=$network_gateway
AccountingStoragePort=$((17400 + network_number))
AccountingStoragePass=$place/run/munge.sock
AccountingStorageEnforce=associations
CONFIG
}

# Waits for the database, and for the daemon to answer.
start_accounting() {
  cat >"$place/slurmdbd.conf" <<CONFIG
AuthType=auth/munge
AuthInfo=socket=$place/run/munge.sock
DbdHost=$(hostname -s)
DbdAddr=$network_gateway
DbdPort=$((17400 + network_number))
SlurmUser=root
PidFile=$place/run/slurmdbd.pid
LogFile=$place/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=$network_gateway
StoragePort=$((17100 + network_number))
StorageUser=root
StorageLoc=accounting
CONFIG
  chmod 600 "$place/slurmdbd.conf"
  wait_for 20 test -S "$place/run/mariadbd.sock"
  slurmdbd
  wait_for 20 sacctmgr -i add cluster virtual
  sacctmgr -i add account physics >>"$place/log/sacctmgr.log"
  sacctmgr -i add user root account=physics >>"$place/log/sacctmgr.log"
}

# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >>"$place/log/sacctmgr.log" 2>&1; do
    ((SECONDS < deadline)) || {
      echo "vslurm.sh: waited in vain for: $*" >&2
      return 1
    }
    sleep 0.1
  done
}

write_config() {
  local nodes=$1 cpus=$2 node
  # For tasks' shells: nodes share this machine's cores, unknown to srun.
  printf '#!/bin/bash\necho export OMPI_MCA_mpi_yield_when_idle=1\n' >"$place/taskprolog.sh"
  chmod +x "$place/taskprolog.sh"
  local gpu
  for gpu in 0 1; do [[ -e $place/gpu$gpu ]] || mknod "$place/gpu$gpu" c 1 3; done
  echo "NodeName=n[1-$nodes] Name=gpu Flags=nvidia_gpu_env File=$place/gpu[0-1]" >"$place/gres.conf"
  printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n' >"$place/cgroup.conf"
  {
    # cred_expire bounds the delay of a requeued job, which is two minutes by default.
    cat <<CONFIG
ClusterName=virtual
SlurmctldHost=$(hostname -s)($network_gateway)
SlurmctldPort=$((16800 + network_number))
AuthType=auth/munge
AuthInfo=socket=$place/run/munge.sock,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
TmpFS=$place/tmp/%n
StateSaveLocation=$place/state
SlurmdSpoolDir=$place/spool/%n
SlurmctldPidFile=$place/run/slurmctld.pid
SlurmdPidFile=$place/run/slurmd.%n.pid
SlurmctldLogFile=$place/log/slurmctld.log
SlurmdLogFile=$place/log/slurmd.%n.log
TaskProlog=$place/taskprolog.sh
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
$(accounting_config "$3")
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PriorityType=priority/basic
KillWait=5
MinJobAge=3600
SlurmdTimeout=10
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
CONFIG
    for ((node = 1; node <= nodes; ++node)); do
      echo "NodeName=n$node NodeHostname=n$node NodeAddr=$(network_address "$node") Port=17818 CPUs=$cpus RealMemory=1024 Gres=gpu:2 State=UNKNOWN"
    done
    echo "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF"
    echo "PartitionName=low Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=3"
  } >"$place/slurm.conf"
}

idle_nodes() { sinfo -h -p main -o '%t %D' 2>/dev/null | awk '$1 == "idle" { sum += $2 } END { print sum + 0 }'; }

up() {
  local nodes=${1:-2} cpus=${2:-2} accounting=${3:-} node
  mkdir -p "$place"/{state,log,run,spool}
  chmod 755 "$place" "$place/run"
  for ((node = 1; node <= nodes; ++node)); do mkdir -p "$place/tmp/n$node"; done
  head -c 1024 /dev/urandom >"$place/munge.key"
  chmod 400 "$place/munge.key"
  trap 'down' EXIT
  network_up "$place" "$nodes"
  if [[ $accounting == accounting ]]; then start_database; fi
  write_config "$nodes" "$cpus" "$accounting"
  export SLURM_CONF=$place/slurm.conf
  # munged only warns about the directory's owner.
  munged --force --socket="$place/run/munge.sock" --key-file="$place/munge.key" --pid-file="$place/run/munged.pid" \
    --log-file="$place/log/munged.log" --seed-file="$place/run/munged.seed" 2>"$place/log/munged.err"
  if [[ $accounting == accounting ]]; then start_accounting; fi
  slurmctld -c
  for ((node = 1; node <= nodes; ++node)); do network_exec "$node" slurmd; done
  for _ in {1..400}; do
    if [[ $(idle_nodes) == "$nodes" ]]; then
      trap - EXIT
      return
    fi
    sleep 0.05
  done
  echo "vslurm.sh: the nodes are not idle after 20 s:" >&2
  tail -n 20 "$place"/log/*.log >&2
  exit 1
}

"$action" "${@:3}"
