#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# hosts_test.sh TRIREME [CASE]...: jobs over several hosts (see network.sh), and what ends them when a link or host is lost.
# shellcheck disable=SC2317  # functions that are called by name
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/hosts/support.sh
source "$here/support.sh"
trireme=$(realpath "$1")
shift
command -v mpirun >/dev/null || skip "there is no mpirun"
lacks=$(network_lacks)
[[ -z $lacks ]] || skip "$lacks"

place=$(mktemp -d /tmp/trireme-hosts.XXXXXX)
trap 'network_down "$place"; rm -rf "$place"' EXIT
trap 'exit 1' INT TERM
export TMPDIR=$place
prepare_run "$place" "$trireme"
cd "$place" || exit 1
network_up "$place" 4

# The hosts share two cores.
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_plm_rsh_agent=$place/rsh PRTE_MCA_plm_ssh_agent=$place/rsh TRIREME_INTERFACE=$network_subnet.0/24
# Timeouts of the launch scripts, which the tests wait for.
export TRIREME_END_SECONDS=3
# A lost host is noticed this long after the last step.
timeout_seconds=4
long=(--set train.steps=1000000 --set train.log_every=1000 --set lr_schedule.name=constant
  --set "parallel.timeout_seconds=$timeout_seconds")
flags=("${long[@]}")

# mpi_run HOST HOSTS RANKS ARGUMENTS...: mpirun on a host ("": outside of all), in the background: sets job, log and
# number.
number=0 program=$trireme jobs=()
mpi_run() {
  local on=() hosts=$2 ranks=$3
  [[ -z $1 ]] || on=(network_exec "$1")
  shift 3
  log=$place/job$((++number)).log
  : >"$log"
  "${on[@]}" "$repository/launch/mpi_run.sh" --host "$hosts" -np "$ranks" "$program" "$@" >"$log" 2>&1 &
  job=$!
  jobs[number]=$job
}
# finish_job SECONDS [NUMBER]: waits for the end of the newest job, or of an earlier one.
finish_job() {
  job=${jobs[${2:-$number}]} log=$place/job${2:-$number}.log
  wait_until "$1" ended || {
    complain "the end within $1 s"
    local host
    for host in 1 2 3 4; do kill_host "$host"; done
  }
  wait "$job"
  code=$?
}
ended() { ! kill -0 "$job" 2>/dev/null; }
kill_host() {
  local processes
  mapfile -t processes < <(network_processes "$1")
  [[ ${#processes[@]} -eq 0 ]] || kill -s KILL "${processes[@]}" 2>/dev/null
}
has_checkpoint() {
  compgen -G "$1/checkpoints/step_*[0-9]" >/dev/null || compgen -G "$place/memory/*/n1/*/step_*[0-9]" >/dev/null
}
training() { grep -qs '"step":2,' "$1/metrics.jsonl"; }
# No rank or daemon is left on any host that can still be reached.
nothing_left() {
  local host
  for host in 1 2 3 4; do
    [[ -z $(network_processes "$host") ]] || return 1
  done
}
expect_nothing_left() {
  wait_until "$1" nothing_left || {
    complain "no process of the job left on any host after $1 s"
    local host
    for host in 1 2 3 4; do network_processes "$host" | xargs -r ps -o pid,stat,args -p; kill_host "$host"; done
  }
}

check_equal() {
  local one
  begin "one host"
  log=$place/one.log
  "$trireme" train config.yaml --set run.directory=runs/one >"$log" 2>&1
  one=$(bits_of "$log")
  expect_equal "$one" "$one" "final loss and weights"
  for hosts in n1:2,n2:2 n1:1,n2:1,n3:1,n4:1; do
    begin "four ranks over $hosts"
    mpi_run 1 "$hosts" 4 train config.yaml --set "run.directory=runs/$hosts"
    finish_job 60
    expect_code 0
    expect_equal "$(bits_of "$log")" "$one" "the bits of one host"
  done
  begin "ZeRO inside the hosts, copies between them"
  mpi_run 1 n1:2,n2:2 4 train config.yaml --set run.directory=runs/groups --set parallel.zero=3 --set parallel.zero_group=node
  finish_job 60
  expect_code 0
  expect_text 'ZeRO 3 in groups of 2'
  expect_equal "$(bits_of "$log")" "$one" "the bits of one host"
  begin "ZeRO groups of hosts that do not have equally many ranks"
  mpi_run 1 n1:2,n2:1 3 train config.yaml --set run.directory=runs/uneven --set parallel.zero=1 --set parallel.zero_group=node
  finish_job 60
  expect_code 2
  expect_text 'parallel.zero_group=node: node, but the hosts do not have equally many consecutive data ranks'
  begin "four ranks over three hosts, tensor and pipeline across them"
  mpi_run "" n2:2,n3:1,n4:1 4 train config.yaml --set run.directory=runs/split --set parallel.tensor=2 \
    --set parallel.tensor_blocks=2 --set parallel.pipeline=2
  finish_job 60
  expect_code 0
  log=$place/blocks.log
  "$trireme" train config.yaml --set run.directory=runs/blocks --set parallel.tensor_blocks=2 >"$log" 2>&1
  one=$(bits_of "$log")
  log=$place/job$number.log
  expect_equal "$(bits_of "$log")" "$one" "the bits of one host"

  local pids=() index own
  for own in 127.0.1.1 "$(network_address 1)"; do  # the first as in Debian
    begin "four ranks over two hosts without MPI; the first takes its name for $own"
    sed -i "s/^.* n1$/$own n1/" "/etc/netns/${network_tag}n1/hosts"
    code=0
    for index in 0 1; do
      HOSTS=2 HOST_INDEX=$index MASTER_ADDR=n1 MASTER_PORT=29500 TRIREME_SECRET=secret-of-two-virtual-hosts network_exec $((index + 1)) "$repository/launch/tcp_run.sh" 2 \
        "$trireme" train config.yaml --set "run.directory=runs/$own" >"$place/tcp$index.log" 2>&1 &
      pids[index]=$!
    done
    for index in 0 1; do wait "${pids[index]}" || code=$?; done
    log=$place/tcp0.log
    expect_code 0
    expect_equal "$(bits_of "$log")" "$(bits_of "$place/one.log")" "the bits of one host"
  done
}

check_slow_link() {
  local namespace
  namespace=$(network_namespace 2)
  begin "a link of 100 Mbit/s"
  ip netns exec "$namespace" tc qdisc add dev eth0 root tbf rate 100mbit burst 64kb latency 400ms
  mpi_run 1 n1:1,n2:1,n3:1 3 doctor
  finish_job 60
  ip netns exec "$namespace" tc qdisc del dev eth0 root
  expect_text 'n1 - n2: .*the best pair reaches'
  expect_text 'n2 - n3: .*the best pair reaches'
  grep -q 'other processes used' "$log" || ! grep -qE 'n1 - n3: .*the best pair reaches' "$log" || complain "nothing wrong between n1 and n3"
  expect_text 'check cables, switch and the choice of interface'
}

# Each rank of the second host has a time namespace with a clock one hour ahead.
check_trace() {
  local file=runs/traced/trace/steps_3-4.json.gz
  begin "a trace of ranks on two hosts whose clocks are an hour apart"
  unshare --time --fork --monotonic 3600 true 2>/dev/null || skip "no time namespaces are allowed here"
  cat >"$place/rank" <<RANK
#!/usr/bin/env bash
[[ \$(hostname) != n2 ]] || exec unshare --time --monotonic 3600 --fork --kill-child "$trireme" "\$@"
exec "$trireme" "\$@"
RANK
  chmod +x "$place/rank"
  program=$place/rank
  mpi_run 1 n1:2,n2:2 4 train config.yaml --set run.directory=runs/traced --set parallel.pipeline=2 --set telemetry.trace=3-4
  program=$trireme
  finish_job 60
  expect_code 0
  expect_text 'steps 3 to 4 of 4 rank\(s\) are in .*; clocks agree to [0-9.]+ us'
  log=$place/trace.log
  gzip -dc "$file" | grep -a '"name":"clock"' >"$log"
  [[ $(wc -l <"$log") -eq 4 ]] || complain "one file of all ranks"
  # "pid" "offset_us" "error_us": the hour is found to within the stated error.
  sed -nE 's/.*"pid":([0-9]+),"args":\{"offset_us":([-0-9.e]+),"error_us":([-0-9.e]+),.*/\1 \2 \3/p' "$log" |
    awk '{ d = $2 - ($1 < 2 ? 0 : 3600e6); if (d < 0) d = -d; if (d > $3) exit 1; ++n } END { exit n == 4 ? 0 : 1 }' ||
    complain "offsets of 0 and of an hour"
  log=$place/summary.log
  "$trireme" trace summary runs/traced >"$log" 2>&1 || complain "a summary"
  expect_text 'steps 3 to 4 on 4 cpu rank\(s\) \(data 2 x tensor 1 x pipeline 2\); clocks agree to'
  expect_text 'rank 1 on n1 '
  expect_text 'rank 3 on n2 '
}

# Each host has its own /dev/shm.
check_sharing() {
  cat >"$place/rank" <<RANK
#!/usr/bin/env bash
[[ \$(hostname) != n1 || -e /dev/shm/data ]] || cp -r "$place/data" /dev/shm/data 2>/dev/null
exec "$trireme" "\$@"
RANK
  chmod +x "$place/rank"
  # All at once: each waits for files of the other hosts.
  local before=$number
  local data=(--set data.path=/dev/shm/data)
  program=$place/rank
  mpi_run 1 n1:1,n2:1,n3:1 3 doctor config.yaml --set train.global_batch=6 "${data[@]}"
  mpi_run 1 n1:1,n2:1 2 train config.yaml --set run.directory=runs/half "${data[@]}"
  program=$trireme
  mpi_run 1 n1:1,n2:1 2 doctor config.yaml --set run.directory=/dev/shm/run
  mpi_run 1 n1:1,n2:1 2 train config.yaml --set run.directory=/dev/shm/run --set checkpoint.every_steps=5

  begin "data on one host only"
  finish_job 60 $((before + 1))
  expect_code 2
  expect_text 'PROBLEM +data +data.path: /dev/shm/data is not on n2, n3'
  finish_job 60 $((before + 2))
  expect_code 3
  expect_text 'error: data.path: /dev/shm/data is not on n2, though it is on other hosts'
  begin "a run directory that the hosts do not share"
  finish_job 60 $((before + 3))
  expect_code 2
  expect_text 'PROBLEM +run directory .* is not visible on n2'
  finish_job 60 $((before + 4))
  expect_code 2
  expect_text 'error: run.directory: /dev/shm/run of rank 0 is not visible on n2'
}

# lose NAME CODE TEXT COMMAND...: a job over two hosts; the command breaks something; the job must end.
lose() {
  local name=$1 expected=$2 text=$3 from=$4 started
  shift 4
  begin "$name"
  mpi_run "$from" n1:1,n2:1 2 train config.yaml --set "run.directory=runs/lost$number" "${flags[@]}"
  wait_until 40 training "runs/lost$((number - 1))" || complain "training to begin"
  [[ ${flags[*]} != *checkpoint* ]] || wait_until 40 has_checkpoint "runs/lost$((number - 1))" || complain "a checkpoint"
  started=$SECONDS
  "$@" || complain "$* to work"
  finish_job 40
  if [[ $expected == bad ]]; then [[ $code -ne 0 ]] || complain "a failure"; else expect_code "$expected"; fi
  [[ -z $text ]] || expect_text "$text"
  echo "    ended after $((SECONDS - started)) s with code $code"
  expect_nothing_left 30
  echo "    nothing left after $((SECONDS - started)) s"
}
lost="error: n2 is lost: the daemon there does not answer"
waited="error: group .* has waited .* s for other ranks \(deadline parallel.timeout_seconds: $timeout_seconds\)"
cut_host() { ip link set "$(network_interface 2)" down; }
mend_host() {
  ip link set "$(network_interface 2)" up
  # Failed address lookups are cached for a while.
  local host
  for host in 1 2; do ip -n "$(network_namespace "$host")" neigh flush dev eth0; done
  wait_until 10 network_reachable 1 2 || complain "n2 to be back"
}
# Packets between the ranks are dropped, those between mpirun and its daemons are not.
cut_data() {
  ip -n "$(network_namespace 1)" route add blackhole "$(network_address 2)"
  ip -n "$(network_namespace 2)" route add blackhole "$(network_address 1)"
}
mend_data() {
  ip -n "$(network_namespace 1)" route del blackhole "$(network_address 2)"
  ip -n "$(network_namespace 2)" route del blackhole "$(network_address 1)"
}
rank_on() { pgrep --ns "$(network_processes "$1" | head -n 1)" --nslist net -f "^$trireme train" | head -n 1; }
# Connections between the ranks; needs a kernel with CONFIG_INET_DIAG_DESTROY.
reset_sockets() { [[ $(ip netns exec "$(network_namespace 1)" ss -HKtn dst "$(network_address 2)" 2>/dev/null) == *ESTAB* ]]; }
kill_rank() { kill -s KILL "$(rank_on 2)"; }
stop_rank() { kill -s STOP "$(rank_on 2)"; }

# After a restart, the run resumes from its newest checkpoint.
go_on() {
  local as=$program
  begin "the same job again"
  go_on_briefly "$place/rank" "$program" "$place/memory"
  program=$place/rank
  mpi_run 1 n1:1,n2:1 2 train config.yaml --set "run.directory=runs/lost$((number - 1))" "${flags[@]}"
  program=$as
  finish_job 60
  expect_code 0
  expect_text "going on after step .*checkpoints/step_"
  "$trireme" train config.yaml --set run.directory=runs/whole "${flags[@]}" --set "train.steps=$(last_step_of "$log")" >"$place/whole.log" 2>&1
  expect_equal "$(bits_of "$log")" "$(bits_of "$place/whole.log")" "the bits of an undisturbed run"
}
check_lost_link() {
  flags=("${long[@]}" --set checkpoint.every_steps=20)
  lose "the link to a host is cut" 5 "$lost" 1 cut_host
  mend_host
  go_on
  flags=("${long[@]}")
  # If mpirun has unsent data for that host, keepalive does not help. Without the timeouts above, the kernel drops the
  # connections.
  OMPI_MCA_oob_tcp_keepalive_time=60 TRIREME_END_SECONDS=1000 TRIREME_TCP_RETRIES=5 lose "the same with net.ipv4.tcp_retries2" bad "$waited" 1 cut_host
  mend_host
}
check_lost_data() { lose "the data network is cut, control goes on" 5 "$waited" "" cut_data; mend_data; }
check_lost_host() { lose "a host loses power" bad "" 1 kill_host 2; }
# Each host's memory is a directory with its name, which is lost with it.
check_lost_memory() {
  flags=("${long[@]}" --set checkpoint.in_memory_every_steps=10 --set "checkpoint.memory_directory=$place/memory")
  mkdir "$place/memory"
  lose "a host loses power, and what its memory held" bad "" 1 kill_host 2
  rm -rf "$place"/memory/*/n2
  go_on
  log=$place/job$number.log
  expect_text "written to disk from the memory of the hosts"
  [[ -z $(ls "$place/memory") ]] || complain "no copies in memory after the end"
  flags=("${long[@]}")
}
# The supervisor on n1 continues without a lost host, from the memory of the others.
check_fewer_hosts() {
  local run=runs/fewer started lines before
  lost_lines() { wc -l <"$run/metrics.jsonl"; }
  # Or it has ended, at most where the lost job was: the memory's copy was older.
  going_on() { (($(lost_lines) > lines)) || grep -q '^done: ' "$log"; }
  flags=("${long[@]}" --set checkpoint.in_memory_every_steps=10 --set "checkpoint.memory_directory=$place/memory"
    --set parallel.timeout_seconds=600)
  mkdir -p "$place/memory"
  begin "a host of four is lost under the supervisor, which has all of its defaults"
  go_on_briefly "$place/rank" "$program" "$place/memory"
  log=$place/fewer.log
  # As ssh, over the network: a live host refuses the connection, a lost one does not answer.
  cat >"$place/network_rsh" <<AGENT
#!/usr/bin/env bash
[[ \$(bash -c ": >/dev/tcp/\$1/9" 2>&1) == *refused* ]] && exec "$place/rsh" "\$@"
AGENT
  chmod +x "$place/network_rsh"
  OMPI_MCA_plm_rsh_agent=$place/network_rsh PRTE_MCA_plm_ssh_agent=$place/network_rsh network_exec 1 env -u TRIREME_END_SECONDS "$repository/launch/supervise.sh" --hosts n1:1,n2:1,n3:1,n4:1 --ranks 1,2,4 -- \
    "$repository/launch/mpi_run.sh" --host '{hosts}' -np '{ranks}' \
    "$place/rank" train config.yaml --set "run.directory=$run" "${flags[@]}" >"$log" 2>&1 &
  job=$! jobs[++number]=$job
  wait_until 40 compgen -G "$place/memory/*/n1/*/step_*[0-9]" >/dev/null || complain "copies in memory"
  cut_host
  rm -rf "$place"/memory/*/n2
  lines=$(lost_lines) started=$(date +%s%N)
  before=$started
  # Prints the time of each part.
  passed() {
    local now
    now=$(date +%s%N)
    printf '    %5d ms  %s\n' $(((now - before) / 1000000)) "$1"
    before=$now
  }
  await() { if wait_until 40 grep -q "$1" "$log"; then passed "$2"; else complain "$2"; fi; }
  await "lost communication with a remote daemon" "until mpirun misses the host's daemon"
  await "start 0 ended" "until the job has ended"
  await "restart 1 of 10" "to ask the hosts who is there"
  await "written to disk from the memory of the hosts" "to start ranks and bring the copies to the disk"
  if wait_until 20 going_on; then passed "to the next step"; else complain "steps on the hosts that are left"; fi
  echo "    next step after $(((before - started) / 1000000)) ms, load $(cut -d ' ' -f 1 /proc/loadavg)"
  wait_until 40 ended || complain "the end"
  wait "$job"
  code=$?
  mend_host
  expect_code 0
  expect_text "n2: no answer, left out"
  expect_text "restart 1 of 10, at once, on n1:1,n3:1,n4:1"
  expect_text "fp32 on 2 rank"
  "$trireme" train config.yaml --set run.directory=runs/all "${flags[@]}" --set "train.steps=$(last_step_of "$log")" >"$place/all.log" 2>&1
  expect_equal "$(bits_of "$log")" "$(bits_of "$place/all.log")" "the bits of an undisturbed run"
  expect_nothing_left 10
  flags=("${long[@]}")
}
check_gpu_check() {
  command -v python3 >/dev/null || skip "there is no python3"
  begin "gpu_check over two hosts, rehearsed on the CPU"
  log=$place/gpu_check.log
  network_exec 1 "$repository/scripts/gpu_check.sh" nodes --device cpu --build "$(dirname "$program")" --hosts n1:2,n2:2 \
    --out "$place/gpu_check" --only '^several hosts: (files|NCCL|same)' >"$log" 2>&1
  code=$?
  expect_code 0
  for row in files "NCCL starts" "same bits twice"; do expect_text "proved     $row: "; done
}
check_lost_rank() { lose "a rank on another host is killed" bad "" 1 kill_rank; }
check_stopped_rank() { lose "a rank on another host is stopped" 5 "rank 1 does not answer" 1 stop_rank; }

# A local disk per host at one path, kept from job to job. disk_of HOST COMMAND: the command that mounts it, in the
# namespace of the host's processes.
disk_of() { echo "$2" >"$place/disk.n$1"; }
own_disks() {
  local host
  mkdir -p "$place/scratch"
  for host in 1 2; do
    mkdir -p "$place/disk$host"
    disk_of "$host" "mount --bind $place/disk$host $place/scratch"
  done
  cat >"$place/staged" <<RANK
#!/usr/bin/env bash
exec 9>"$place/mounting.\$(hostname)"
flock 9
mountpoint -q "$place/scratch" || bash "$place/disk.\$(hostname)" || exit 1
exec 9>&-
exec "$trireme" "\$@"
RANK
  chmod +x "$place/staged"
  program=$place/staged
}
expect_copies() {
  local host copies
  for host in 1 2; do
    copies=("$place/disk$host"/trireme-*/*.copy)
    if [[ ${#copies[@]} -ne 1 ]] || ! cmp -s "${copies[0]}" "$place/data/shard_00000.h5"; then
      complain "a copy of the data on n$host, found ${copies[*]}"
    fi
  done
}
stage() {
  begin "$1"
  mpi_run 1 n1:2,n2:2 4 train config.yaml --set "run.directory=runs/stage$number" --set "data.stage=$place/scratch"
  finish_job 60
}
check_staging() {
  local one
  "$trireme" train config.yaml --set run.directory=runs/unstaged >"$place/unstaged.log" 2>&1
  one=$(bits_of "$place/unstaged.log")
  own_disks
  stage "each host has a copy of its own"
  expect_code 0
  expect_equal "$(bits_of "$log")" "$one" "the bits of data that lie elsewhere"
  expect_copies
  rm -rf "$place"/disk[12]/trireme-*

  flags=("${long[@]}" --set checkpoint.every_steps=20 --set "data.stage=$place/scratch")
  lose "a host loses power while copies are read" bad "" 1 kill_host 2
  go_on
  expect_copies
  flags=("${long[@]}")

  disk_of 2 "mount -t tmpfs -o size=16k tmpfs $place/scratch"
  stage "the disk of one host is full"
  expect_code 0
  expect_text 'data.stage: n2: files without a copy are read in place: .*shard_00000.h5 \([0-9]+ bytes\): .*the disk is full'
  ! grep -q 'data.stage: n1: files without a copy' "$log" || complain "room on n1"
  expect_equal "$(bits_of "$log")" "$one" "the bits of data that lie elsewhere"
  disk_of 2 "mkdir -p $place/read_only && mount --bind $place/read_only $place/scratch && mount -o remount,bind,ro $place/scratch"
  stage "the disk of one host cannot be written to"
  # mpirun may outlive its ranks; then mpi_run.sh ends it with another code.
  if grep -q 'it still runs' "$log"; then stage "the disk of one host cannot be written to, again"; fi
  expect_code 2
  expect_text "error: n2: data.stage: $place/scratch/trireme-0: cannot be made: Read-only file system"
  program=$trireme
}

# A disturbance that Open MPI may survive: the run then ends with the bits of an undisturbed one, or else with code 5.
disturb() {
  local name=$1 watch=$2 steps=(--set train.steps=2000 --set train.global_batch=64 --set train.log_every=1000) expected
  shift 2
  begin "$name"
  log=$place/undisturbed.log
  "$trireme" train config.yaml --set "run.directory=runs/undisturbed$number" "${steps[@]}" >"$log" 2>&1
  expected=$(bits_of "$log")
  mpi_run "" n1:1,n2:1 2 train config.yaml --set "run.directory=runs/disturbed$number" "${steps[@]}" \
    --set "parallel.timeout_seconds=$watch"
  wait_until 40 training "runs/disturbed$((number - 1))" || complain "training to begin"
  "$@" || complain "$* to work"
  finish_job 400  # 2000 steps take 4 s on a fast machine, 150 s at a load of 18
  if ((code == 0)); then
    expect_equal "$(bits_of "$log")" "$expected" "the bits of an undisturbed run"
  else
    expect_code 5
    expect_text_of_ranks "error: group .* has waited"
  fi
  echo "    ended with code $code"
  expect_nothing_left 10
}
blip() {
  cut_host
  ! ended || complain "a run that has not ended when the link is cut"
  sleep 3 && mend_host
}
check_reset() { disturb "the connections between ranks are reset" "$timeout_seconds" reset_sockets; }
check_blip() {
  # mpirun drops a host that has not answered for 3 to 5 s, unless set to wait longer.
  OMPI_MCA_oob_tcp_keepalive_probes=20 disturb "a link is down for 3 s" 60 blip
  expect_code 0
}

# What a run does on a stop: it makes a checkpoint, which takes longer than the second that mpirun gives. Ranks
# elsewhere are told, and none ends before the others have saved, because mpirun then ends them all.
check_stop() {
  begin "a job is told to stop"
  cat >"$place/rank" <<RANK
#!/usr/bin/env bash
end() {
  touch "$place/end\$OMPI_COMM_WORLD_RANK"
  until [[ -e "$place/end0" && -e "$place/end1" ]]; do sleep 0.1; done
  exit 75
}
trap 'echo "rank \$OMPI_COMM_WORLD_RANK: USR1"' USR1
trap 'sleep 3; touch "$place/stop"; echo "rank \$OMPI_COMM_WORLD_RANK: saved"; end' TERM
echo "rank \$OMPI_COMM_WORLD_RANK: ready"
until [[ -e "$place/stop" ]]; do sleep 0.1; done
end
RANK
  chmod +x "$place/rank"
  program=$place/rank mpi_run 1 n1:1,n2:1 2
  ready() { [[ $(grep -c ready "$log") -eq 2 ]]; }
  wait_until 20 ready || complain "two ranks"
  local script  # network_exec became the shell that runs mpi_run.sh
  script=$(pgrep -f "bash $repository/launch/mpi_run.sh --host n1:1,n2:1 -np 2 $place/rank" | head -n 1)
  kill -s USR1 "$script"
  wait_until 10 grep -q "rank 1: USR1" "$log" || complain "USR1 to reach the other host"
  kill -s TERM "$script"
  finish_job 30
  expect_code 75
  expect_text "rank 0: USR1"
  expect_text "rank [01]: saved"
  expect_nothing_left 10
}

for part in "${@:-equal slow_link trace sharing staging lost_link lost_data lost_host lost_memory fewer_hosts lost_rank stopped_rank reset blip stop gpu_check}"; do
  # shellcheck disable=SC2086  # a list of words
  for name in $part; do "check_$name"; done
done
exit $failed
