#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# slurm_test.sh TRIREME [CASE]...: launch/slurm/train.sbatch under a real Slurm of two virtual nodes (see vslurm.sh).
# shellcheck disable=SC2016,SC2317  # scripts that are written; functions that are called by name
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/hosts/support.sh
source "$here/../hosts/support.sh"
trireme=$(realpath "$1")
shift
for tool in slurmctld slurmd sbatch munged mpirun; do
  command -v "$tool" >/dev/null || skip "there is no $tool; scripts/install_deps.sh --slurm installs it"
done
lacks=$(network_lacks)
[[ -z $lacks ]] || skip "$lacks"

cases=${*:-launchers detection allocation codes start site kill restart sweep requeue signals scripts time_limit cancel preemption accounts study allocation_study ablation usage campaign}
accounting=""
if [[ " $cases " == *" accounts "* ]]; then
  accounting=accounting
  for tool in slurmdbd sacct sacctmgr mariadbd mariadb-install-db; do
    command -v "$tool" >/dev/null || skip "there is no $tool; scripts/install_deps.sh --slurm installs it"
  done
fi

place=$(mktemp -d /tmp/trireme-slurm.XXXXXX)
trap '"$here/vslurm.sh" down "$place/slurm"; rm -rf "$place"' EXIT
trap 'exit 1' INT TERM
"$here/vslurm.sh" up "$place/slurm" 2 2 $accounting || exit 1
export SLURM_CONF=$place/slurm/slurm.conf TRIREME_BINARY=$trireme
prepare_run "$place" "$trireme"
cd "$place" || exit 1

field() { scontrol show job -o "$1" | grep -oE "(^| )$2=[^ ]*" | head -n 1 | cut -d= -f2-; }
over() { [[ -z $(squeue -h -j "$1" -t PENDING,RUNNING,COMPLETING,SUSPENDED,REQUEUED 2>/dev/null) ]]; }
training() { grep -qs '"step":2,' "$1/metrics.jsonl"; }
# Cancels a job that does not end.
finish_job() {
  wait_until "$2" over "$1" || {
    complain "the end of job $1 within $2 s"
    scancel "$1"
    wait_until 20 over "$1"
  }
  code=$(field "$1" ExitCode)
  code=${code%:*}
}
# submit SBATCH-OPTIONS... -- ARGUMENTS...: sets job and log.
submit() {
  local options=()
  while [[ $1 != -- ]]; do
    options+=("$1")
    shift
  done
  shift
  job=$(sbatch --parsable --output=slurm-%j.out "${options[@]}" "$repository/launch/slurm/train.sbatch" "$@")
  log=$place/slurm-$job.out
}
four_ranks=(--nodes=2 --ntasks-per-node=2)
# Endless. The schedule does not depend on the number of steps, which the second start changes (see go_on_briefly).
long=(--set train.steps=1000000 --set train.log_every=1000 --set lr_schedule.name=constant)
expect_same_bits() {
  finish_job "$job" 60
  expect_code 0
  expect_text "going on after step"
  local whole=$place/whole-$job.log
  "$trireme" train config.yaml --set "run.directory=runs/whole-$job" "${long[@]}" --set "train.steps=$(last_step_of "$log")" >"$whole" 2>&1
  expect_equal "$(bits_of "$log")" "$(bits_of "$whole")" "the bits of an uninterrupted run"
}
# The ranks of a run. Clusters of other tests use the same job numbers.
ranks_of() {
  local process
  for process in $(pgrep -f "^$trireme train config.yaml --set run.directory=$1 "); do
    [[ ! /proc/$process/cwd -ef $place ]] || echo "$process"
  done
}
kill_a_rank() { kill -s KILL "$(ranks_of "$1" | tail -n 1)"; }

check_launchers() {
  local one launcher
  "$trireme" train config.yaml --set run.directory=runs/one >one.log 2>&1
  one=$(bits_of one.log)
  for launcher in srun mpirun tcp; do
    begin "four ranks over two nodes by $launcher"
    TRIREME_LAUNCHER=$launcher submit "${four_ranks[@]}" -- config.yaml
    finish_job "$job" 60
    expect_code 0
    expect_text "4 ranks, 2,2 on n\[1-2\], 0 GPUs, 1 cores each, by $launcher \(TRIREME_LAUNCHER\)"
    expect_equal "$(bits_of "$log")" "$one" "the bits of one rank"
    [[ -f runs/$job/weights.safetensors ]] || complain "weights in runs/$job"
  done
}

check_detection() {
  local launcher
  begin "the launcher is found"
  submit --ntasks=3 -- config.yaml --set run.directory=runs/named --set train.global_batch=6
  finish_job "$job" 60
  expect_code 0
  expect_text "3 ranks, .* by srun$"
  [[ -f runs/named/weights.safetensors ]] || complain "weights in runs/named"
  for launcher in srun mpirun; do
    begin "a rank per GPU by $launcher"
    TRIREME_LAUNCHER=$launcher submit --nodes=2 --gpus-per-node=2 --cpus-per-gpu=1 -- config.yaml
    finish_job "$job" 60
    expect_code 0
    expect_text "4 ranks, 2,2 on n\[1-2\], 4 GPUs, 1 cores each"
  done
}

# Replaces the program: a rank prints its identity and its visible devices.
ranks_speak() {
  cat >"$place/rank" <<'RANK'
#!/usr/bin/env bash
rank=${RANK:-${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID}}
echo "rank $rank of ${WORLD_SIZE:-${OMPI_COMM_WORLD_SIZE:-$SLURM_NTASKS}} on $(hostname) sees GPUs ${CUDA_VISIBLE_DEVICES:-}, site ${SITE:-}"
RANK
  chmod +x "$place/rank"
  export TRIREME_BINARY=$place/rank
}
expect_ranks() { expect_equal "$(sed -nE 's/^(rank .* on n[0-9]+).*/\1/p' "$log" | sort | paste -sd ';')" "$1" "the ranks"; }
check_allocation() {
  local launcher three="rank 0 of 3 on n1;rank 1 of 3 on n1;rank 2 of 3 on n2"
  ranks_speak
  for launcher in srun mpirun tcp; do
    begin "three GPUs on two nodes by $launcher"
    TRIREME_LAUNCHER=$launcher submit --ntasks=3 --gpus=3 -- config.yaml
    finish_job "$job" 120
    expect_code 0
    expect_ranks "$three"
    expect_text "^rank 0 .* sees GPUs 0,1"
    expect_text "^rank 2 .* sees GPUs 0"
  done
  begin "GPUs without tasks"
  submit --gpus=3 --cpus-per-gpu=1 -- config.yaml
  finish_job "$job" 120
  expect_ranks "$three"
  begin "a GPU per task: all of a node stay visible to its ranks"
  submit --ntasks=3 --gpus-per-task=1 -- config.yaml
  finish_job "$job" 120
  expect_ranks "$three"
  expect_text "^rank 1 .* sees GPUs 0,1"

  begin "more tasks than GPUs are refused"
  sed 's/type: cpu/type: auto/' config.yaml >gpu.yaml
  submit --ntasks=2 --gpus-per-node=1 -- gpu.yaml
  finish_job "$job" 120
  expect_code 2
  expect_text "Slurm granted \(n1: 2 tasks, 1 GPUs, 2 cores\); ask for as many tasks as GPUs"
  begin "unless that is meant"
  TRIREME_RANK_PER=task submit --ntasks=2 --gpus-per-node=1 -- gpu.yaml
  finish_job "$job" 120
  expect_ranks "rank 0 of 2 on n1;rank 1 of 2 on n1"
  begin "or the ranks compute on the CPU"
  submit --ntasks=2 --gpus-per-node=1 -- config.yaml
  finish_job "$job" 120
  expect_ranks "rank 0 of 2 on n1;rank 1 of 2 on n1"
  begin "and in steps of an allocation"
  log=$place/step.log
  salloc --quiet --ntasks=2 --gpus-per-node=1 "$repository/launch/slurm/step_run.sh" 2 -- "$place/rank" train config.yaml >"$log" 2>&1
  expect_ranks "rank 0 of 2 on n1;rank 1 of 2 on n1"
  begin "fewer cores than ranks are refused"
  submit --nodes=1 --gpus-per-node=2 -- config.yaml
  finish_job "$job" 120
  expect_code 2
  expect_text "n1 has 1 cores for 2 ranks; add --cpus-per-gpu=N"
  begin "a scaling point with fewer GPUs than ranks is refused"
  "$trireme" scale gpu.yaml --launcher sbatch --ranks 2 --repeats 1 --warmup 1 --steps 2 --launcher-options "--gpus-per-node=1" --out few >study.log 2>&1
  code=$? log=$place/study.log
  expect_code 1
  expect_text "code 2.*ask for as many tasks as GPUs"
}

# The launcher ends the others after the first rank with code 75.
check_codes() {
  local launcher
  printf '#!/bin/bash\n[[ ${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID} != 0 ]] || exit 75\nexec sleep 60\n' >"$place/rank"
  chmod +x "$place/rank"
  for launcher in srun mpirun tcp; do
    begin "one rank says 75 before the others, under $launcher"
    TRIREME_BINARY=$place/rank TRIREME_MAX_REQUEUES=0 TRIREME_LAUNCHER=$launcher submit "${four_ranks[@]}" -- config.yaml
    finish_job "$job" 120
    expect_code 75
    expect_text "the run ended with exit code 75"
    expect_text "TRIREME_MAX_REQUEUES is used up"
  done
}

check_start() {
  begin "ranks are lost before the first step, once"
  printf '#!/bin/bash\nif mkdir "%s/once"; then sleep 0.5; kill -KILL $$; fi 2>/dev/null\n[[ -e %s/again || $1 != train ]] || sleep 0.5\nexec %s "$@"\n' \
    "$place" "$place" "$trireme" >"$place/rank"
  chmod +x "$place/rank"
  TRIREME_BINARY=$place/rank submit "${four_ranks[@]}" -- config.yaml
  finish_job "$job" 60
  expect_code 0
  expect_text "ranks on n\[1-2\] were lost before the first step: start 1 of 2 more"
  expect_text "\[rank [0-3] n[12]\] error: ended by a signal \(Killed\)"
  begin "Slurm starts no rank, once"
  mkdir "$place/srun"
  cat >"$place/srun/srun" <<SRUN
#!/bin/bash
if [[ " \$* " == *" train "* ]] && mkdir "$place/expired" 2>/dev/null; then
  echo "srun: error: Task launch for StepId=\$SLURM_JOB_ID.0 failed on node n2: Job credential expired" >&2
  echo "srun: error: Application launch failed: Job credential expired" >&2
  exit 167
fi
exec $(command -v srun) "\$@"
SRUN
  chmod +x "$place/srun/srun"
  PATH=$place/srun:$PATH TRIREME_LAUNCHER=srun submit "${four_ranks[@]}" -- config.yaml
  finish_job "$job" 60
  expect_code 0
  expect_text "error: ranks on n2 could not be started: srun: Job credential expired"
  expect_text "ranks on n\[1-2\] were lost before the first step: start 1 of 2 more"
  begin "and again"
  printf '#!/bin/bash\nexit 5\n' >"$place/rank"
  TRIREME_BINARY=$place/rank submit "${four_ranks[@]}" -- config.yaml
  finish_job "$job" 60
  expect_code 5
  expect_text "no start in 3 came to a step on n\[1-2\]"
}

# A copy of launch/ simulates an installation with a site hook.
check_site() {
  ranks_speak
  mkdir -p "$place/installed" "$place/modules"
  cp -r "$repository/launch" "$place/installed/"
  local hook=$place/installed/launch/slurm/site.sh
  printf 'export SITE=ours TRIREME_BINARY=%s/rank\n' "$place" >"$hook"
  begin "a site's hook, and a job without its submitter's environment"
  job=$(sbatch --parsable --output=slurm-%j.out --export=NONE --nodes=2 --ntasks-per-node=1 "$place/installed/launch/slurm/train.sbatch" config.yaml)
  log=$place/slurm-$job.out
  finish_job "$job" 60
  expect_code 0
  expect_ranks "rank 0 of 2 on n1;rank 1 of 2 on n2"
  expect_text "^rank 1 .* site ours"

  begin "an image sees the GPUs"
  printf '#!/bin/bash\necho "apptainer $*"\n' >"$place/modules/apptainer"
  chmod +x "$place/modules/apptainer"
  touch "$place/image.sif"
  printf 'PATH=%s/modules:$PATH TRIREME_BINARY=%s/image.sif\n' "$place" "$place" >"$hook"
  TRIREME_SITE=$hook submit --ntasks=1 --gpus=1 -- config.yaml
  finish_job "$job" 120
  expect_code 0
  expect_text "^apptainer run --nv $place/image.sif train config.yaml "
  begin "an image without GPUs, and without Apptainer"
  TRIREME_SITE=$hook submit --ntasks=1 -- config.yaml
  finish_job "$job" 120
  expect_text "^apptainer run $place/image.sif train config.yaml "
  TRIREME_BINARY=$place/image.sif submit --ntasks=1 -- config.yaml
  finish_job "$job" 120
  expect_code 2
  expect_text "needs apptainer in PATH; load it in site.sh"
}

check_kill() {
  local launcher started
  for launcher in srun mpirun; do
    begin "a rank is killed under $launcher"
    TRIREME_LAUNCHER=$launcher submit "${four_ranks[@]}" -- config.yaml "${long[@]}"
    wait_until 40 training "runs/$job" || complain "training to begin"
    started=$SECONDS
    kill_a_rank "runs/$job"
    finish_job "$job" 120
    ((SECONDS - started <= 20)) || complain "the end within 20 s, took $((SECONDS - started))"
    [[ $(field "$job" JobState) == FAILED ]] || complain "FAILED, got $(field "$job" JobState)"
    expect_code 5
    # Slurm may end all tasks before srun_run.sh speaks, and says so itself.
    expect_text_of_ranks "\[rank [0-3] n[12]\] error: ended by (a )?signal|srun: error: n[12]: tasks? [-0-9,]+: Killed"
    [[ $(field "$job" Restarts) == 0 ]] || complain "no requeue"
    [[ -z $(ranks_of "runs/$job") ]] || complain "no rank that is left"
  done
}

has_checkpoint() { compgen -G "$1/checkpoints/step_*[0-9]" >/dev/null; }
check_restart() {
  begin "a rank is killed, and the run resumes in the allocation"
  go_on_briefly "$place/rank" "$trireme"
  TRIREME_BINARY=$place/rank TRIREME_RESTARTS=1 submit "${four_ranks[@]}" -- config.yaml "${long[@]}" --set checkpoint.every_steps=20
  wait_until 40 has_checkpoint "runs/$job" || complain "a checkpoint"
  kill_a_rank "runs/$job"
  expect_same_bits
  expect_text "restart 1 of 1"
}

check_sweep() {
  begin "an array sweep of two"
  printf '%s\n' "--set optimizer.learning_rate=1e-3" "--set optimizer.learning_rate=2e-3 --set train.steps=10" >sweep.txt
  submit --array=1-2 --ntasks=2 -- --sweep sweep.txt config.yaml
  finish_job "$job" 90
  log=$(find "$place" -name "slurm-*.out" -newer sweep.txt | sort | tail -n 1)
  expect_code 0
  grep -q "learning_rate: 0.001" "runs/${job}_1/config.yaml" || complain "the first rate in runs/${job}_1"
  grep -q "learning_rate: 0.002" "runs/${job}_2/config.yaml" || complain "the second rate in runs/${job}_2"
  [[ $(wc -l <"runs/${job}_2/metrics.jsonl") -lt $(wc -l <"runs/${job}_1/metrics.jsonl") ]] || complain "fewer steps of the second"

  begin "a sweep without its line"
  submit --array=3 --ntasks=1 -- --sweep sweep.txt config.yaml
  finish_job "$job" 120
  expect_code 2
}

# Slurm's signal before the time limit, without waiting for it.
check_requeue() {
  local launcher
  go_on_briefly "$place/rank" "$trireme"
  for launcher in srun mpirun; do
    begin "the time limit is near, under $launcher"
    TRIREME_BINARY=$place/rank TRIREME_LAUNCHER=$launcher submit "${four_ranks[@]}" -- config.yaml "${long[@]}"
    wait_until 40 training "runs/$job" || complain "training to begin"
    scancel -b -s USR1 "$job"
    wait_until 20 grep -q "requeueing" "$log" || complain "a requeue"
    wait_until 20 grep -q "start 1," "$log" || complain "a second start"
    expect_same_bits
    expect_text "the time limit is near: stopping the run"
    expect_text "the run ended with exit code 75"
    expect_text "start 0, 4 ranks"
    [[ $(field "$job" Restarts) == 1 ]] || complain "one restart, got $(field "$job" Restarts)"
  done
}

# Slurm's signals while the script prepares, and after a limit that the engine does not know.
check_signals() {
  begin "the time limit is near before the run begins"
  printf '[[ -e %s/prepared ]] || { touch %s/prepared; sleep 2; }\n' "$place" "$place" >site.sh
  TRIREME_SITE=$place/site.sh submit "${four_ranks[@]}" -- config.yaml
  wait_until 20 test -e prepared || complain "the site's hook"
  scancel -b -s USR1 "$job"
  finish_job "$job" 60
  expect_code 0
  expect_text "start 1,"
  begin "the time limit is shortened"
  go_on_briefly "$place/rank" "$trireme"
  TRIREME_BINARY=$place/rank submit --time=50 "${four_ranks[@]}" -- config.yaml "${long[@]}"
  wait_until 40 training "runs/$job" || complain "training to begin"
  scontrol update "jobid=$job" timelimit=30
  scancel -b -s USR1 "$job"
  expect_same_bits
  [[ $(field "$job" Restarts) == 1 ]] || complain "one restart, got $(field "$job" Restarts)"
}

# The script in an allocation, and from a batch script of the user (see launch/slurm/README.md).
check_scripts() {
  local scripts=$repository/launch/slurm
  begin "from salloc"
  log=$place/salloc.log
  salloc --quiet "${four_ranks[@]}" "$scripts/train.sbatch" config.yaml --set run.directory=runs/salloc >"$log" 2>&1
  code=$?
  expect_code 0
  expect_text "4 ranks, 2,2 on n"
  begin "from a script of one's own"
  printf '%s\n' "#!/bin/bash" "#SBATCH --requeue --open-mode=append --signal=B:USR1@300" "exec $scripts/train.sbatch config.yaml --set run.directory=runs/own \"\$@\"" >own.sh
  go_on_briefly "$place/rank" "$trireme"
  export TRIREME_BINARY=$place/rank
  job=$(sbatch --parsable --output=slurm-%j.out "${four_ranks[@]}" own.sh "${long[@]}")
  log=$place/slurm-$job.out
  wait_until 40 training runs/own || complain "training to begin"
  scancel -b -s USR1 "$job"
  expect_same_bits
  begin "plain srun: rank 0 alone complains"
  srun --quiet --mpi=none -n 2 "$trireme" train config.yaml >"$place/plain.log" 2>&1
  expect_equal "$(grep -c 'error: 2 processes' "$place/plain.log")" 1 "messages"
}

# The engine knows the end of the allocation. The limit is shorter than the assumed time of an untimed save: the first
# start makes a step or two; the next one knows the time and has half a minute.
check_time_limit() {
  begin "a time limit of one minute strikes"
  submit --time=1 --signal=B:USR1@15 "${four_ranks[@]}" -- config.yaml "${long[@]}"
  wait_until 90 grep -qs "start 1," "$log" || complain "a second start"
  expect_text "the run ended with exit code 75"
  local reached
  reached=$(find "runs/$job/checkpoints" -maxdepth 1 -name 'step_*[0-9]' -printf '%f\n' | sort | tail -n 1)
  wait_until 40 grep -qs "\"step\":$((10#${reached#step_} + 20))," "runs/$job/metrics.jsonl" || complain "steps after $reached"
  scancel "$job"
}

check_cancel() {
  begin "a cancelled job does not come back"
  submit "${four_ranks[@]}" -- config.yaml "${long[@]}"
  wait_until 40 training "runs/$job" || complain "training to begin"
  scancel "$job"
  wait_until 20 over "$job" || complain "the end"
  sleep 1
  [[ $(field "$job" JobState) == CANCELLED ]] || complain "CANCELLED, got $(field "$job" JobState)"
}

check_preemption() {
  begin "a preempted job is requeued"
  go_on_briefly "$place/rank" "$trireme"
  TRIREME_BINARY=$place/rank submit --partition=low "${four_ranks[@]}" -- config.yaml "${long[@]}"
  local preempted=$job
  wait_until 40 training "runs/$job" || complain "training to begin"
  submit "${four_ranks[@]}" -- config.yaml
  finish_job "$job" 60
  expect_code 0
  job=$preempted log=$place/slurm-$preempted.out
  wait_until 20 grep -qs "start 1," "$log" || complain "a second start"
  expect_same_bits
}

# Accounting, and what sacct shows of a requeued job.
check_accounts() {
  begin "an account is charged for both starts of a job"
  printf '#!/bin/bash\n((${SLURM_RESTART_COUNT:-0} > 0)) || exit 75\n' >"$place/rank"
  chmod +x "$place/rank"
  TRIREME_BINARY=$place/rank submit --account=physics "${four_ranks[@]}" -- config.yaml
  finish_job "$job" 60
  expect_code 0
  finished() { [[ $(sacct -X -n -P -j "$job" -o State) == COMPLETED ]]; }
  wait_until 20 finished || complain "the end of the job in sacct"
  expect_equal "$(sacct -D -X -n -P -j "$job" -o Account,State,ExitCode | paste -sd ' ')" \
    "physics|REQUEUED|0:0 physics|COMPLETED|0:0" "what sacct says"
  expect_equal "$(sacct -D -n -P -j "$job" -o JobName,State,ExitCode | grep -cE '^rank\|FAILED\|75:0$')" 1 \
    "one step that ended with 75"

  begin "a campaign charges its account, and a wrong one ends it with the key"
  log=$place/charged.log
  write_campaign charged "slurm: {account: physics}"
  "$trireme" campaign charged.yaml >"$log" 2>&1
  code=$?
  expect_code 0
  charged() { [[ $(sacct -X -n -P --name="$(sed -nE 's/.*"name": "(trireme-[^"]*)".*/\1/p' charged/campaign.json)" -o Account,State) == "physics|COMPLETED" ]]; }
  wait_until 20 charged || complain "one job of physics in sacct"
  write_campaign refused "slurm: {account: chemistry}"
  "$trireme" campaign refused.yaml >"$log" 2>&1
  code=$?
  expect_code 2
  expect_text "refused.yaml(:[0-9]+)?: slurm: refused: .*Invalid account.*set slurm.account"

  begin "a scaling study without the right account says so"
  log=$place/study.log
  "$trireme" scale config.yaml --launcher sbatch --ranks 1 --repeats 1 --warmup 1 --steps 2 --launcher-options "--account=chemistry" \
    --out account >"$log" 2>&1
  code=$?
  expect_code 1
  expect_text "Invalid account"
}

check_usage() {
  begin "no config"
  submit --ntasks=1 -- missing.yaml
  finish_job "$job" 120
  expect_code 2
  expect_text "'missing.yaml' is not a config file"
  begin "an unknown launcher"
  TRIREME_LAUNCHER=rsh submit --ntasks=1 -- config.yaml
  finish_job "$job" 120
  expect_code 2
  expect_text "'rsh' is not one of srun, mpirun, tcp"
}

# write_campaign NAME LINE...: NAME.yaml, of two nodes, in the directory NAME.
write_campaign() {
  printf '%s\n' "config: $place/config.yaml" "set: [${campaign_sets:-train.steps=160, checkpoint.every_steps=20}, train.log_every=1000]" "directory: $place/$1" \
    "nodes: {min: 1, max: 2}" "ranks_per_node: 2" "failures: {backoff_seconds: 0.1}" "poll_seconds: 0.3" "${@:2}" >"$1.yaml"
}

# A job that is preempted while no campaign follows it, and then a lost node.
check_campaign() {
  # Steps take a millisecond or two on a fast machine, and the job has to last until it is preempted.
  local steps=(--set train.steps=3000 --set train.global_batch=64 --set checkpoint.every_steps=100 --set train.log_every=1000) process tag
  local campaign_sets="train.steps=3000, train.global_batch=64, checkpoint.every_steps=100"
  begin "a campaign is killed and its job preempted; it goes on under another layout"
  log=$place/campaign.log
  write_campaign camp "slurm: {partitions: [low]}"
  "$trireme" campaign camp.yaml >"$log" 2>&1 &
  process=$!
  wait_until 40 has_checkpoint camp/run || complain "a checkpoint"
  wait_until 10 grep -q "job 1 runs on n1, n2" "$log" || complain "the campaign to know of it"
  kill -s KILL "$process"
  submit "${four_ranks[@]}" -- config.yaml
  tag=$(squeue -h -t all -o %j | grep -c '^trireme-')
  expect_equal "$tag" 1 "jobs of the campaign, one"
  wait_until 40 over "$(squeue -h -t all -o '%A %j' | sed -n 's/ trireme-.*//p' | head -n 1)" || complain "the job to be preempted"
  scontrol update nodename=n2 state=drain reason=test
  "$trireme" campaign camp.yaml >>"$log" 2>&1
  code=$?
  scontrol update nodename=n2 state=resume
  expect_code 0
  expect_text "job 1 ended with code 75 at step [0-9]*: "
  expect_text "job 2 .*1 nodes as data=2 from step"
  expect_text "^goodput "
  expect_equal "$(squeue -h -t all -o %j | grep -c '^trireme-')" 2 "jobs of the campaign, two"
  "$trireme" train config.yaml --set run.directory=runs/whole-campaign "${steps[@]}" >whole.log 2>&1
  expect_equal "$(sha256sum <camp/run/weights.safetensors)" "$(sha256sum <runs/whole-campaign/weights.safetensors)" "the weights of an uninterrupted run"
  begin "a campaign of a partition that is not there"
  sed -i 's/partitions: .low./partitions: [none]/; s/^directory: .*/directory: none/' camp.yaml
  "$trireme" campaign camp.yaml >"$log" 2>&1
  code=$?
  expect_code 2
  expect_text "nvalid partition name.*; set slurm.partitions"
}

# shellcheck source=tests/slurm/study_cases.sh
source "$here/study_cases.sh"
for name in $cases; do "check_$name"; done
exit $failed
