#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts_test.sh: decisions of the scripts in launch/, without the program: exit codes, Slurm's allocations, settings,
# cores beside GPUs, the ends of ranks without MPI and their secret.
set -u
launch=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)/launch
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
unset "${!SLURM_@}" "${!OMPI_@}" "${!NCCL_@}" "${!UCX_@}" "${!TRIREME_@}" "${!CUDA_@}"
failed=0
expect() {
  [[ $2 == "$3" ]] || {
    printf '%s: expected\n  %s\ngot\n  %s\n' "$1" "$3" "$2"
    failed=1
  }
}

# --- Exit codes: launcher, ranks, job.
# shellcheck source=launch/job.sh
source "$launch/job.sh"
while read -r launcher ends code; do
  # shellcheck disable=SC2086  # a list of words
  expect "launcher $launcher, ranks $ends" "$(job_code "$launcher" ${ends//,/ })" "$code"
done <<'CASES'
0 - 0
75 75 75
143 75,signal 75
143 signal,75 75
137 3,signal 3
137 signal,5 5
5 5,75 75
137 0,signal 5
2 2,2,signal 2
137 signal,signal 5
CASES
expect "a launcher that was killed" "$(job_code 137)" 137

# --- What Slurm granted. The controller's answers are those of Slurm 22.05.
# shellcheck source=launch/slurm/allocation.sh
source "$launch/slurm/allocation.sh"
scontrol() {
  case "$2 $3" in
    "hostnames n[1-2]") printf 'n1\nn2\n' ;;
    "hostnames n"*) echo "$3" ;;
    *) echo "$granted" ;;
  esac
}
# placed NODES CPUS TASKS_PER_NODE: the ranks of each node and their cores, or the problem.
placed() {
  SLURM_JOB_NODELIST=$1 SLURM_JOB_CPUS_PER_NODE=$2 SLURM_TASKS_PER_NODE=$3 SLURM_JOB_NUM_NODES=2 SLURM_JOB_ID=1
  read_allocation
  if place_ranks; then echo "${node_ranks[*]} of $cores cores, even $even"; else echo "$problem"; fi
}
granted='     Nodes=n[1-2] CPU_IDs=0-7 Mem=0 GRES=gpu:a100:4(IDX:0-3),nic:2(IDX:0-1)'
expect "GPUs of a kind" "$(placed 'n[1-2]' '8(x2)' '1(x2)')" "4 4 of 2 cores, even true"
granted='     Nodes=n1 CPU_IDs=0-1 Mem=0 GRES=gpu:2(IDX:0-1)
     Nodes=n2 CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:0)'
expect "uneven nodes" "$(SLURM_NTASKS=3 placed 'n[1-2]' 2,1 2,1)" "2 1 of 1 cores, even false"
[[ $(SLURM_NTASKS=4 placed 'n[1-2]' '2(x2)' '2(x2)') == *"(n1: 2 tasks, 2 GPUs, 2 cores; n2: 2 tasks, 1 GPUs, 2 cores)"* ]] ||
  expect "tasks beside GPUs" accepted refused
expect "tasks that count" "$(SLURM_NTASKS=4 TRIREME_RANK_PER=task placed 'n[1-2]' '2(x2)' '2(x2)')" "2 2 of 1 cores, even true"
granted='     Nodes=n1 CPU_IDs=0-1 Mem=0 GRES=gpu:a:1(IDX:0),gpu:b:1(IDX:1)
     Nodes=n2 CPU_IDs=0 Mem=0 GRES='
[[ $(placed 'n[1-2]' '2(x2)' '1(x2)') == "n2 would have no rank: "* ]] || expect "a node without GPUs" accepted refused
granted='     Nodes=n[1-2] CPU_IDs=0-1 Mem=0 GRES='
expect "no GPUs, tasks" "$(SLURM_NTASKS=3 placed 'n[1-2]' '8,4' 2,1)" "2 1 of 4 cores, even false"
expect "no GPUs, no tasks" "$(placed 'n[1-2]' '8(x2)' '1(x2)')" "8 8 of 1 cores, even true"
# A busy controller answers the third time.
busy=$place/busy
expect "a busy controller" "$(
  sleep() { echo . >>"$busy"; }
  scontrol() {
    case "$2 $3" in
      hostnames*) printf 'n1\nn2\n' ;;
      *) [[ $(wc -l <"$busy") -ge 2 ]] && echo "$granted" ;;
    esac
  }
  : >"$busy"
  granted='     Nodes=n[1-2] CPU_IDs=0-1 Mem=0 GRES=gpu:2(IDX:0-1)' placed 'n[1-2]' '8(x2)' '1(x2)'
)" "2 2 of 4 cores, even true"
expect "counts" "$(expand_counts '2(x3),1' | paste -sd ' ')" "2 2 2 1"

# --- Settings.
setting() { env "$1" "$launch/mpi_env.sh" 2 bash -c "echo \"$2\""; }
# shellcheck disable=SC2016  # expanded by the inner shell
{
  expect "cards" "$(setting TRIREME_HCA=mlx5_0,mlx5_3:2 '$NCCL_IB_HCA $UCX_NET_DEVICES')" "=mlx5_0:1,mlx5_3:2 mlx5_0:1,mlx5_3:2"
  expect "ports" "$(setting TRIREME_PORTS=40000-40099 '$OMPI_MCA_btl_tcp_port_min_v4 $OMPI_MCA_btl_tcp_port_range_v4 $OMPI_MCA_oob_tcp_dynamic_ipv4_ports')" \
    "40000 100 40000-40099"
  expect "the bus's order" "$(setting A= '$CUDA_DEVICE_ORDER')" PCI_BUS_ID
}
for ports in 40000 500-400 40000-70000 a-b; do
  said=$(TRIREME_PORTS=$ports "$launch/mpi_env.sh" 2 true 2>&1)
  [[ $? -eq 2 && $said == *"'$ports' is not a range of ports"* ]] || expect "TRIREME_PORTS=$ports" "$said" refused
done

# --- Cores beside GPUs, on two cores of this machine.
mapfile -t cores < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | while IFS=- read -r first last; do seq "$first" "${last:-$first}"; done)
if ((${#cores[@]} < 2)); then
  echo "left out: cores beside GPUs, which need two cores"
  exit $failed
fi
mkdir -p "$place/bin" "$place/sys/bus/pci/devices/0000:"{3b,af}":00.0"
printf '#!/bin/sh\necho "0, 00000000:3B:00.0, GPU-aa"\necho "1, 00000000:AF:00.0, GPU-bb"\n' >"$place/bin/nvidia-smi"
chmod +x "$place/bin/nvidia-smi"
gpus_beside() {
  echo "$1" >"$place/sys/bus/pci/devices/0000:3b:00.0/local_cpulist"
  echo "$2" >"$place/sys/bus/pci/devices/0000:af:00.0/local_cpulist"
}
# Processors of the two ranks.
bound() {
  local rank
  for rank in 0 1; do
    env "$@" PATH="$place/bin:$PATH" TRIREME_SYSFS="$place/sys" LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 \
      "$launch/rank_affinity.sh" bash -c 'taskset -cp $$ | sed "s/.*: //"' 2>"$place/said"
  done | paste -sd ' '
}
a=${cores[0]} b=${cores[1]} all=$(taskset -cp $$ | sed 's/.*: //')
gpus_beside "$b" "$a"
expect "the other socket's GPU first" "$(bound A=)" "$b $a"
expect "GPUs in another order" "$(bound CUDA_VISIBLE_DEVICES=1,0)" "$a $b"
expect "GPUs by name" "$(bound CUDA_VISIBLE_DEVICES=GPU-bb,GPU-aa)" "$a $b"
expect "a GPU of its own for each rank" "$(bound CUDA_VISIBLE_DEVICES=1)" "$a $a"
expect "parts of a GPU" "$(bound CUDA_VISIBLE_DEVICES=MIG-1)" "$all $all"
gpus_beside "$a,$b" "$a,$b"
expect "a socket that ranks share" "$(bound A=)" "$a $b"
for core in "$a" "$b"; do
  mkdir -p "$place/sys/devices/system/cpu/cpu$core/topology"
  echo "$a,$b" >"$place/sys/devices/system/cpu/cpu$core/topology/thread_siblings_list"
done
expect "threads of one core" "$(bound A= | tr , -)" "$a-$b $a-$b"
gpus_beside 9999 9999
expect "no core beside the GPU" "$(bound A=)" "$all $all"
grep -q "may use none of the cores beside its GPU (9999)" "$place/said" || expect "the reason" "$(cat "$place/said")" "said"

# --- Memory that killed ranks leave. `$1` of this user on this host is mapped by a process where that is alive.
segment() { echo "/dev/shm/vader_segment.$1.$(id -u).$(printf '%x' $$)$2.0"; }
here=$(hostname)
dead5=/dev/shm/sm_segment.$here.$(id -u).$(printf '%x' $$)5.0 && : >"$dead5"  # of Open MPI 5
dead=$(segment "$here" 1) early=$(segment "$here" 2) live=$(segment "$here" 3) elsewhere=$(segment "not-$here" 4)
now=$(date +%s)
: >"$dead" && : >"$elsewhere" && : >"$early" && touch -d @$((now - 100)) "$early"
cp "$(command -v sleep)" "$live"
"$live" 1000 2>/dev/null &
mapped_by=$!
until grep -qsF "$live" "/proc/$mapped_by/maps"; do
  # Containers may forbid programs there.
  kill -0 "$mapped_by" 2>/dev/null || { live=$place/none && : >"$live" && break; }
  sleep 0.02
done
"$launch/job.sh" "$now"
expect "segments of the dead, of others and of the living" \
  "$([[ -e $dead || -e $dead5 ]] && echo dead) $([[ -e $early ]] && echo early) $([[ -e $live ]] && echo live) $([[ -e $elsewhere ]] && echo elsewhere)" \
  " early live elsewhere"
kill "$mapped_by"
wait "$mapped_by" 2>/dev/null
"$launch/job.sh" "$now"
[[ ! -e $live || $live == "$place"/* ]] || expect "a segment whose process has ended" there gone
rm -f "$early" "$elsewhere"

# --- A step of Slurm's, with an srun and a scancel that write down what they are asked for.
mkdir -p "$place/slurm"
cat >"$place/slurm/srun" <<SRUN
#!/bin/bash
echo "srun \$*" >>"$place/asked"
[[ "\$*" != *job.sh* ]] || exit 0
trap 'exit 75' TERM
echo \$\$ >"$place/step"
while :; do sleep 0.05; done
SRUN
printf '#!/bin/bash\necho "scancel $*" >>"%s/asked"\n' "$place" >"$place/slurm/scancel"
chmod +x "$place/slurm/"*
# interrupted_step MEANWHILE: returns its exit code.
interrupted_step() {
  rm -f "$place/step" "$place/asked"
  set -m  # else it would begin deaf to Ctrl-C
  PATH=$place/slurm:$PATH SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 "$launch/slurm/srun_run.sh" -n 2 ranks >"$place/said" 2>&1 &
  local script=$!
  set +m
  until [[ -s $place/step ]]; do sleep 0.02; done
  asked() { until grep -q "$1" "$place/asked"; do sleep 0.02; done; }
  eval "$1"
  wait "$script"
}
interrupted_step 'kill -INT $script; asked "scancel --signal=TERM 7"; kill -TERM "$(cat "$place/step")"'
expect "a step that is interrupted" $? 75
grep -q -- '--overlap .*--ntasks=2 .*/job.sh [0-9]*$' "$place/asked" || expect "what it leaves on its nodes" "$(cat "$place/asked")" cleared
# One that comes within a tenth of a second of the first counts as the first.
press() { while kill -INT "$1" 2>/dev/null; do sleep 0.3; done; }
interrupted_step 'kill -INT $script; kill -INT $script; asked "scancel --signal=TERM 7"; kill -TERM "$(cat "$place/step")"'
expect "a Ctrl-C that comes twice at once" $? 75
interrupted_step 'kill -INT $script; asked "scancel --signal=TERM 7"; press $script'
expect "a step that is interrupted twice" $? 130
grep -q 'scancel --signal=KILL 7' "$place/asked" || expect "the ranks" "$(cat "$place/asked")" killed
grep -q 'interrupted a second time' "$place/said" || expect "a second Ctrl-C" "$(cat "$place/said")" "interrupted a second time"

# A step in which Slurm starts no rank, or not all: srun's code is a byte of Slurm's error, or a signal's if it ends the
# others. failed_step CODE LINE...: the script's output and code.
failed_step() {
  printf '#!/bin/bash\n[[ "$*" != *job.sh* ]] || exit 0\nprintf "%%s\\n" %s >&2\nexit %s\n' "${*@Q}" "$1" >"$place/slurm/srun"
  PATH=$place/slurm:$PATH SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST='n[1-2]' "$launch/slurm/srun_run.sh" -n 2 ranks 2>&1 | grep '^error: '
  echo "${PIPESTATUS[0]}"
}
expired="Job credential expired"
expect "ranks that Slurm did not start" \
  "$(failed_step 167 "srun: error: Task launch for StepId=7.0 failed on node n2: $expired" "srun: error: Application launch failed: $expired")" \
  $'error: ranks on n2 could not be started: srun: Job credential expired\n5'
expect "ranks of which Slurm started one" \
  "$(failed_step 137 "srun: error: Task launch for StepId=7.0 failed on node n2: $expired" "srun: error: n1: task 0: Killed")" \
  $'error: ranks on n2 could not be started: srun: Job credential expired\n5'
expect "a step that Slurm did not make" "$(failed_step 1 "srun: error: Unable to create step for job 7: Requested nodes are busy")" \
  $'error: ranks on n[1-2] could not be started: srun: Requested nodes are busy\n5'
expect "a rank's own code" "$(failed_step 3 "srun: error: n1: task 0: Exited with exit code 3")" 3

# --- Starts of train.sbatch and step_run.sh, with commands in place of Slurm's. The controller knows this job; the
# environment is another job's.
printf '%s\n' '#!/bin/bash' 'case "$2 $3" in' '  hostnames*) printf "n1\nn2\n" ;;' \
  '  "job --details") echo "     Nodes=n[1-2] CPU_IDs=0-1 Mem=0 GRES=" ;;' \
  '  *) echo "JobId=7 JobState=RUNNING StartTime=2040-01-01T00:00:00 EndTime=2040-01-01T01:00:00 Restarts=0 PreemptTime=None" ;;' \
  esac >"$place/slurm/scontrol"
chmod +x "$place/slurm/scontrol"
install -m 755 /bin/true "$place/program"
touch "$place/config.yaml"
# started RANKS SCRIPT ARGUMENT...: its code, and the number of srun calls with ranks. RANKS: the behaviour of the n-th
# srun.
started() {
  local lost='lost() { echo "srun: error: Task launch for StepId=7.0 failed on node n2: Job credential expired" >&2; exit 167; }'
  printf '%s\n' '#!/bin/bash' '[[ "$*" != *job.sh* ]] || exit 0' "echo \"\$SLURM_JOB_END_TIME\" >>starts" \
    'n=$(wc -l <starts)' "$lost" "$1" >"$place/slurm/srun"
  shift
  (
    cd "$place" && rm -rf starts run
    export PATH=$place/slurm:$PATH SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NODELIST='n[1-2]' SLURM_JOB_CPUS_PER_NODE='2(x2)'
    export SLURM_JOB_END_TIME=4102444800 TRIREME_HOME=$launch/.. TRIREME_BINARY=$place/program TRIREME_LAUNCHER=srun
    "$launch/slurm/$1" "${@:2}" config.yaml --set run.directory=run >said 2>&1
    echo "$? after $(wc -l <starts)"
  )
}
for script in train.sbatch "step_run.sh 2 -- $place/program train"; do
  read -r -a words <<<"$script"
  expect "$script: Slurm starts no rank, once" "$(started '((n > 1)) || lost' "${words[@]}")" "0 after 2"
  grep -q 'ranks on n2 could not be started: srun: Job credential expired' "$place/said" || expect "the host" "$(cat "$place/said")" named
  expect "$script: and again" "$(started lost "${words[@]}")" "5 after 3"
  expect "$script: as often as TRIREME_START_RETRIES says" "$(TRIREME_START_RETRIES=0 started lost "${words[@]}")" "5 after 1"
  expect "$script: ranks are lost behind a step" "$(started 'mkdir run; echo 1 >run/metrics.jsonl; lost' "${words[@]}")" "5 after 1"
  expect "$script: the ranks' own code" "$(started 'echo "srun: error: n1: task 0: Exited with exit code 3" >&2; exit 3' "${words[@]}")" "3 after 1"
done
expect "the end of train.sbatch's job" "$(started true train.sbatch >/dev/null && cat "$place/starts")" "$(date -d 2040-01-01T01:00:00 +%s)"

# --- The supervisor is part of the program.
mkdir "$place/alone"
cp "$launch"/{supervise,program}.sh "$place/alone"
said=$(PATH=/usr/bin:/bin "$place/alone/supervise.sh" --run "$place/run" -- true 2>&1)
expect "a supervisor without a program" "$? $said" \
  "2 supervise.sh: no trireme, which supervises, beside this script or in PATH; build it, add it to PATH or set TRIREME_BINARY"
printf '#!/bin/sh\necho "$@"\n' >"$place/alone/trireme"
chmod +x "$place/alone/trireme"
expect "one of the user's" "$(PATH=/usr/bin:/bin TRIREME_BINARY=$place/alone/trireme "$place/alone/supervise.sh" --run a -- b)" "supervise --run a -- b"

# --- Numbers in the environment.
for value in 1 007 1000 "" 0 1001 -1 5x "a[\$(touch $place/ran)]" " 5" 99999999999999999999; do
  NUMBER=$value environment_number NUMBER 20 1 1000 2>"$place/said"
  [[ $value =~ ^(1|007|1000|)$ || $(cat "$place/said") == *": NUMBER="*": is not a whole number from 1 to 1000; it is ignored" ]] ||
    expect "a warning of '$value'" "$(cat "$place/said")" named
done >"$place/numbers"
expect "numbers" "$(paste -sd ' ' "$place/numbers")" "1 7 1000 20 20 20 20 20 20 20 20"
[[ ! -e $place/ran ]] || expect "a command in a number" run ignored

# --- Ranks without MPI's launcher. tcp_code RANK: the code of two ranks that run this; their output is in $place/said.
tcp_code() {
  TRIREME_END_SECONDS=1 TRIREME_GRACE_SECONDS=1 timeout -k 1 30 "$launch/tcp_run.sh" 2 bash -c "$1" >"$place/said" 2>&1
  echo $?
}
expect_said() { grep -q "$2" "$place/said" || expect "$1" "$(cat "$place/said")" "$2"; }
expect "ranks that end well" "$(tcp_code 'exit 0')" 0
expect "75 of one rank" "$(tcp_code '((RANK == 0)) && exit 75; exit 5')" 75
expect "a rank that was stopped outlives an error" "$(tcp_code '((RANK == 0)) && exit 3; kill -STOP $$')" 3
expect_said "who had to be killed" '^tcp_run.sh: rank 1 still runs: killing it$'
expect "a rank that is killed" "$(tcp_code '((RANK == 0)) && exit 0; kill -KILL $$')" 5
expect_said "who was killed" '^\[rank 1 .*\] error: ended by signal 9 (KILL), and the job with it$'
"$launch/tcp_run.sh" 2 bash -c ': >"$0.$RANK"; exec sleep 100' "$place/up" &
until [[ -e $place/up.0 && -e $place/up.1 ]]; do sleep 0.05; done
kill -s TERM $!
wait $!
expect "ranks that are told to stop" $? 5

set -m
"$launch/tcp_run.sh" 2 bash -c 'trap ": >\"$0.$RANK\"" TERM; : >"$0.up$RANK"; while :; do sleep 0.05; done' "$place/int" >"$place/said" 2>&1 &
set +m
until [[ -e $place/int.up0 && -e $place/int.up1 ]]; do sleep 0.05; done
kill -s INT $!
until [[ -e $place/int.0 && -e $place/int.1 ]]; do sleep 0.05; done
press $!
wait $!
expect "a second Ctrl-C" $? 130
expect_said "who was interrupted" 'interrupted a second time'

expect "a secret" "$(tcp_code 'echo "$TRIREME_SECRET"')" 0
one=$(sort -u "$place/said")
expect "one secret for all" "$([[ $one =~ ^[0-9a-f]{64}$ ]] && echo 64 digits)" "64 digits"
expect "another secret" "$(tcp_code 'echo "$TRIREME_SECRET"')" 0
[[ $(sort -u "$place/said") != "$one" ]] || expect "a secret of each job's own" "$one" "another one"
expect "a secret of the user's" "$(TRIREME_SECRET=of-the-user tcp_code '[[ $TRIREME_SECRET == of-the-user ]]')" 0
expect "a file of the user's" "$(TRIREME_SECRET_FILE=/x tcp_code '[[ -z ${TRIREME_SECRET:-} ]]')" 0
expect "a number of hosts that is none" "$(HOSTS=two tcp_code true)" 2
mkdir "$place/names"
printf '#!/bin/sh\n: >"%s/looked_up"\nexit 1\n' "$place" >"$place/names/getent"
chmod +x "$place/names/getent"
PATH=$place/names:$PATH HOSTS=2 MASTER_ADDR=a MASTER_PORT=9 TRIREME_SECRET=of-the-user "$launch/tcp_run.sh" 2 true &
until [[ -e $place/looked_up ]]; do sleep 0.05; done
kill -s TERM $!
wait $!
expect "a TERM before the ranks start" $? 75
expect "no place for mpirun's output" "$(TMPDIR=$place/none "$launch/mpi_run.sh" -np 1 true >"$place/said" 2>&1; echo $?)" 1
expect_said "the variable" "$place/none.*TMPDIR"
expect "hosts without a secret" "$(HOSTS=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=9 tcp_code true)" 2
exit $failed
