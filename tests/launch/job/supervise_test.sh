#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# supervise_test.sh TRIREME: launch/supervise.sh with jobs that fail in every way, and with a real run.
set -u
trireme=$1
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
# shellcheck source=tests/support/interrupted_run.sh
source "$repository/tests/support/interrupted_run.sh"
supervise=$repository/launch/supervise.sh
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
failed=0

complain() {
  printf '%s: expected %s\n%s\n' "$case" "$1" "$output"
  failed=1
}
expect_code() {
  [[ $code -eq $1 ]] || complain "exit code $1, got $code"
}
expect_starts() {
  local starts
  starts=$(find "$run/supervise" -name 'incarnation_*.log' | wc -l)
  [[ $starts -eq $1 ]] || complain "$1 starts, got $starts"
}
expect_text() {
  [[ $output == *"$1"* ]] || complain "the output to contain: $1"
}

# A job that writes a run's files: a step, a checkpoint, a message; then ends with a code. It takes one line "step
# checkpoint code message" from the plan at each start.
cat >"$place/job" <<'JOB'
#!/usr/bin/env bash
run=$1 plan=$2
turn=$(($(cat "$run/turn" 2>/dev/null || echo 0) + 1))
echo "$turn" >"$run/turn"
read -r step checkpoint code message < <(sed -n "${turn}p" "$plan")
echo "{\"step\":$step,\"loss\":1}" >>"$run/metrics.jsonl"
[[ $checkpoint == - ]] || mkdir -p "$run/checkpoints/$(printf 'step_%08d' "$checkpoint")"
[[ -z $message ]] || echo "[rank 0/1 host] error: $message" >&2
case $code in
  wait)
    trap 'echo usr1 >>"$run/signals"' USR1
    trap 'echo term >>"$run/signals"; until [[ ! -e $run/busy ]]; do sleep 0.05; done; exit 75' TERM
    touch "$run/waiting"
    while :; do sleep 0.05; done ;;
  kill) kill -KILL $$ ;;
  *) exit "$code" ;;
esac
JOB
chmod +x "$place/job"

# play NAME PLAN OPTIONS...: runs the job under the supervisor.
prepare() {
  case=$1 run=$place/$1
  mkdir -p "$run"
  printf '%s' "$2" >"$run/plan"
}
play() {
  prepare "$1" "$2"
  shift 2
  output=$(timeout 60 "$supervise" --backoff 0 --run "$run" "$@" -- "$place/job" "$run" "$run/plan" 2>&1)
  code=$?
}

play success $'9 5 0\n'
expect_code 0
expect_starts 1

play recovers $'3 2 5 rank 1 is late, for 1.5 s\n7 6 kill\n8 7 1 disk full\n9 9 0\n'
expect_code 0
expect_starts 4
expect_text "restart 3 of 10"

play config_error $'0 - 2 model.hiden: no such key\n'
expect_code 2
expect_starts 1

play data_error $'0 - 3 no such file\n'
expect_code 3
expect_starts 1

play non_finite $'5 - 6 the loss is nan\n'
expect_code 6
expect_starts 1

play non_finite_but_wanted $'5 4 6 the loss is nan\n9 8 0\n' --restart-on 6
expect_code 0
expect_starts 2

# Failures differ only in times.
play deterministic $'5 4 5 rank 1 is late, for 1.5 s\n5 4 5 rank 1 is late, for 1.7 s\n9 8 0\n'
expect_code 93
expect_starts 2
expect_text "the same failure twice"

# Hosts answer unless named in the file `away`; the job stores its arguments, and the first start loses b.
cat >"$place/agent" <<AGENT
#!/usr/bin/env bash
! grep -qx "\$1" "$place/away"
AGENT
cat >"$place/host_job" <<JOB
#!/usr/bin/env bash
echo "\$3 \$4" >>"\$1/started"
[[ \$(wc -l <"\$1/started") -gt 1 ]] || echo b >"$place/away"
exec "$place/job" "\$1" "\$2"
JOB
chmod +x "$place/agent" "$place/host_job"
export OMPI_MCA_plm_rsh_agent=$place/agent PRTE_MCA_plm_ssh_agent=$place/agent
hosts_play() {
  : >"$place/away"
  prepare "$1" $'5 4 5 a host is lost\n5 4 5 a host is lost\n9 8 0\n'
  shift
  output=$(timeout 60 "$supervise" --run "$run" --backoff 30 --hosts a:2,b:2,c "$@" -- "$place/host_job" "$run" "$run/plan" '{hosts}' '{ranks}' 2>&1)
  code=$?
}
hosts_play fewer_hosts
expect_code 93  # the same failure on the same hosts
expect_starts 2
[[ $(cat "$run/started") == $'a:2,b:2,c:1 5\na:2,c:1 3' ]] || complain "starts on all hosts, then on those that answer, got $(cat "$run/started")"
expect_text "b: no answer, left out"
expect_text "restart 1 of 10, at once, on a:2,c:1"
hosts_play fewer_ranks --ranks 2,4
[[ $(cat "$run/started") == $'a:2,b:2,c:1 4\na:2,c:1 2' ]] || complain "4 ranks, then 2, got $(cat "$run/started")"
unset OMPI_MCA_plm_rsh_agent PRTE_MCA_plm_ssh_agent

for wrong in "--hosts a:0" "--hosts a,,b" "--hosts a:2 --ranks two" "--hosts a:2"; do
  # shellcheck disable=SC2086  # a list of words
  play wrong_hosts $'9 5 0\n' $wrong
  expect_code 2
  [[ ! -e $run/supervise ]] || complain "no start with $wrong"
done

# Temporary failures: neither the code, nor the same message twice, nor three starts without progress end it.
full="run.directory: r/owner.json: the disk is full (ENOSPC); free space or choose another output directory"
play full_disk "0 - 2 $full"$'\n'"0 - 2 $full"$'\n'"0 - 1 $full"$'\n'"0 - 1 $full"$'\n9 8 0\n'
expect_code 0
expect_starts 5
play full_for_good "0 - 2 $full"$'\n'"0 - 2 $full"$'\n' --max-restarts 1
expect_code 2
expect_starts 2
expect_text "all 1 restarts are used"
play held_directory $'0 - 2 run.directory: r: is in use by process 5 on a\n9 8 0\n'
expect_code 0
expect_starts 2

play moving_on $'5 4 5 rank 1 is late\n6 5 5 rank 1 is late\n7 6 0\n'
expect_code 0
expect_starts 3

play no_progress $'5 4 5 one\n6 4 5 two\n7 4 5 three\n8 4 5 four\n9 8 0\n' --no-progress 3
expect_code 93
expect_starts 4
expect_text "3 starts without a newer checkpoint"

play budget $'1 1 5 a\n2 2 5 b\n3 3 kill c\n9 8 0\n' --max-restarts 2
expect_code 137
expect_starts 3
expect_text "all 2 restarts are used"

play requeue_is_free $'1 1 75\n2 2 75\n3 3 75\n9 9 0\n' --max-restarts 0
expect_code 0
expect_starts 4

SLURM_JOB_END_TIME=$(($(date +%s) - 60)) play allocation_is_over $'1 1 75\n2 2 0\n'
expect_code 0
expect_starts 2
SLURM_JOB_END_TIME=$(($(date +%s) + 60)) play allocation_ends $'1 1 75\n9 9 0\n'
expect_code 75
expect_starts 1

# Arguments are passed unchanged.
prepare words $'9 5 0\n'
output=$("$supervise" --run "$run" -- printf '<%s>' '[a,b]' '{c}' -- "" 2>&1)
code=$?
expect_code 0
expect_text "<[a,b]><{c}><--><>"

play usage '' --no-such-option 1
expect_code 2
expect_text "no such option"

# Signals reach the job; TERM ends the supervisor with the job's code.
prepare signals $'1 1 wait\n9 9 0\n'
"$supervise" --run "$run" -- "$place/job" "$run" "$run/plan" >"$run/output" 2>&1 &
supervisor=$!
for ((i = 0; i < 200; i++)); do [[ -f $run/waiting ]] && break || sleep 0.05; done
kill -USR1 "$supervisor"
for ((i = 0; i < 200; i++)); do [[ -f $run/signals ]] && break || sleep 0.05; done
kill -TERM "$supervisor"
wait "$supervisor"
code=$? output=$(cat "$run/output")
expect_code 75
expect_starts 1
[[ $(tr '\n' ' ' <"$run/signals") == "usr1 term " ]] || complain "both signals, got $(cat "$run/signals")"

# The supervisor is killed while its job takes long to end: the job is told to stop, a live supervisor's run is refused,
# and the next one starts only after the orphan has ended.
prepare killed_supervisor $'1 1 wait\n9 9 0\n'
touch "$run/busy"
supervised=("$supervise" --run "$run" -- "$place/job" "$run" "$run/plan")
soon() { for ((i = 0; i < 400; i++)); do "$@" && return || sleep 0.05; done; }
"${supervised[@]}" >"$run/output" 2>&1 &
supervisor=$!
soon test -f "$run/waiting"
output=$("${supervised[@]}" 2>&1)
code=$?
expect_code 2
expect_text "process $supervisor already supervises this run"
kill -KILL "$supervisor"
wait "$supervisor" 2>/dev/null
soon test -s "$run/signals"
[[ $(cat "$run/signals") == term ]] || complain "TERM to the job of the killed supervisor"
"${supervised[@]}" >"$run/output" 2>&1 &
supervisor=$!
soon grep -q "still runs: waiting for its end" "$run/output"
expect_starts 1
rm "$run/busy"
wait "$supervisor"
code=$? output=$(cat "$run/output")
expect_code 0
expect_starts 2

# Directories and numbers in users' spelling.
spaced() {
  prepare "$1" $'9 5 0\n'
  mkdir -p "$place/$1 of mine"
  ln -s "$run/plan" "$place/$1 of mine/plan"
  printf '%s\n' "$2" >"$run/config.yaml"
  output=$(cd "$place" && timeout 60 "$supervise" --backoff 08 -- "$place/job" "$place/$1 of mine" "$run/plan" "$run/config.yaml" 2>&1)
  code=$? run="$place/$1 of mine"
  expect_code 0
  expect_starts 1
}
spaced plain "run: {directory: $place/plain of mine, seed: 7}  # a comment"
spaced block $'run:\n  directory: '"$place/block of mine  # a comment"
spaced double "run: {directory: \"$place/double of mine\"}"
spaced single "run: {directory: '$place/single of mine'}"
prepare dashed $'9 5 0\n'
output=$(cd "$place" && timeout 60 "$supervise" --run -x -- "$place/job" "$run" "$run/plan" 2>&1)
code=$? run=$place/-x
expect_code 0
expect_starts 1

# A real run: its directory is found in the command line, its output in the log. An error in the config is final.
case=real run=$place/run
head -c 20000 /dev/urandom | base64 >"$place/text.txt"
"$trireme" data pack-text "$place/text.txt" --out "$place/data" --quiet >"$place/pack.log" 2>&1 || {
  output=$(cat "$place/pack.log")
  complain "a packed data set"
}
real() {
  output=$(timeout 120 "$supervise" --backoff 0 -- "$trireme" train "$place/config.yaml" --set "run.directory=$run" "$@" 2>&1)
  code=$?
}
cat >"$place/config.yaml" <<CONFIG
run: {directory: unused, seed: 7}
precision: fp32
model: {family: gpt2, layers: 1, hidden: 16, heads: 2, context: 16, vocabulary: 256}
data: {path: $place/data}
train: {steps: 4, global_batch: 4, micro_batch: 2}
CONFIG
real
expect_code 0
expect_starts 1
expect_text "ended with exit code 0 at step 4"
grep -q "final loss" "$run/supervise/incarnation_000.log" || complain "the run's output in its log"
run=$place/refused
real --set train.global_batch=3
expect_code 2
expect_starts 1

# Logs also fail on a disk that is full when the run starts. Needs the right to mount.
case=real_full_disk disk=$place/disk
mkdir "$disk"
if mount -t tmpfs -o size=512k tmpfs "$disk" 2>/dev/null; then
  trap 'umount -l "$disk"; rm -rf "$place"' EXIT
  run=$disk/run
  cat /dev/zero >"$disk/filler" 2>/dev/null
  make_room() {
    soon test -e "$run/supervise/incarnation_001.log"
    rm "$disk/filler"
  }
  make_room &
  real --set model.hidden=8 --set telemetry.tensorboard=false
  wait
  expect_code 0
  expect_text "start 0 ended with exit code 1 at step none, newest checkpoint none: the disk of $run is full"
  expect_text "restart 1 of 10"
  [[ -s $run/weights.safetensors ]] || complain "weights"
else
  echo "$case: skipped, no right to mount a tmpfs here"
fi

# A rank is killed after a checkpoint: the run resumes by itself, with the bits of an undisturbed one. Without a restart
# left, the job's code is that of a lost rank.
figures() {
  sed -n 's/^{"step":\([0-9]*\),"loss":\([^,]*\),.*"grad_norm":\([^,]*\),.*/\1 \2 \3/p' "$1/metrics.jsonl"
  sha256sum <"$1/weights.safetensors"
}
go_on_briefly "$place/rank" "$trireme"
job=("$repository/launch/mpi_run.sh" -np 2 "$place/rank" train "$place/config.yaml" --set train.log_every=1000
  --set checkpoint.every_steps=20 --set train.steps=1000000 --set lr_schedule.name=constant)
kill_a_rank() {
  local process deadline=$((SECONDS + 60))
  until compgen -G "$run/checkpoints/step_*0" >/dev/null || ((SECONDS > deadline)); do sleep 0.05; done
  for process in $(pgrep -f "run.directory=$run\$"); do
    if grep -qsz '^OMPI_COMM_WORLD_RANK=1$' "/proc/$process/environ"; then kill -KILL "$process"; fi
  done
}
killed() {
  run=$place/$1
  shift
  kill_a_rank &
  output=$(timeout 120 "$supervise" --backoff 0 "$@" -- "${job[@]}" --set "run.directory=$run" 2>&1)
  code=$?
  wait
}
case=killed_rank
killed killed
expect_code 0
expect_starts 2
expect_text "restart 1 of 10"
expect_text "ended with exit code 5 at step"
[[ $(cat "$run/supervise/incarnation_000.log") =~ \[rank\ 1\ .*ended\ by\ signal\ 9 ]] || complain "the killed rank in the first log"
grep -q "going on after step" "$run/supervise/incarnation_001.log" || complain "the second start to go on from a checkpoint"
"${job[@]}" --set "run.directory=$place/whole" --set "train.steps=$(last_step_of "$run/supervise/incarnation_001.log")" >"$place/whole.log" 2>&1
cmp -s <(figures "$place/whole") <(figures "$run") || complain "the losses, norms and weights of the run that nobody killed"

case=killed_mpirun
run=$place/killed_mpirun
"${job[@]}" --set "run.directory=$run" >"$place/killed_mpirun.log" 2>&1 &
started=$!
soon compgen -G "$run/checkpoints/step_*0" >/dev/null
mpirun=$(pgrep -P "$started" -x 'mpirun|prterun')
mapfile -t segments < <(for rank in $(pgrep -P "$mpirun"); do grep -ho '/dev/shm/[a-z]*_segment[^ ]*' "/proc/$rank/maps"; done | sort -u)
((${#segments[@]} > 0)) || complain "segments of the running job"
kill -KILL "$mpirun"
wait "$started"
code=$? output=$(cat "$place/killed_mpirun.log")
expect_code 137
! ls "${segments[@]}" 2>/dev/null || complain "no shared memory that is left"

case=killed_without_a_restart
killed final --max-restarts 0
expect_code 5
expect_starts 1
expect_text "all 0 restarts are used"
exit $failed
