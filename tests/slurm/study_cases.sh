# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Sourced by slurm_test.sh: studies of many runs, scaling and ablations, as jobs and as steps of an allocation.
# shellcheck disable=SC2034,SC2317  # what the test reads; functions that are called by name

check_study() {
  local study=("$trireme" scale config.yaml --launcher sbatch --warmup 1)
  begin "a scaling study as batch jobs"
  log=$place/study.log
  "${study[@]}" --steps 4 --ranks 1,2,4 --repeats 2 --jobs 2 --launcher-options "--nodes=1-2" --out study >"$log" 2>&1
  code=$?
  expect_code 0
  expect_text '\[6/6\] weak scaling'
  [[ $(wc -l <study/scaling.csv) -eq 4 ]] || complain "three points in scaling.csv"
  local jobs
  jobs=$(cat study/runs/*/log.txt | sort -u | wc -l)
  [[ $jobs -eq 6 ]] || complain "six jobs, got $jobs"
  grep -q "4 ranks, 2,2 on n\[1-2\]" study/runs/weak-4-data=4-1/slurm.txt || complain "four ranks on two nodes"

  begin "a study is cut off and continued"
  study+=(--ranks 1 --repeats 1 --steps 300 --set train.global_batch=64 --out cut)
  "${study[@]}" >"$log" 2>&1 &
  local process=$!
  wait_until 60 training cut/runs/weak-1-data=1-1/run || complain "training to begin"
  kill -s TERM "$process"
  wait "$process"
  code=$?
  expect_code 75
  [[ -z $(squeue -h -t PENDING,RUNNING) ]] || complain "no job that is left"
  expect_text "resume continues the study"
  "${study[@]}" --resume >"$log" 2>&1
  code=$?
  expect_code 0
  expect_text "weak scaling, 1 ranks as data=1, run 1: [0-9]"
}

# The jobs and steps of a study's runs, one "job step" each.
steps_of() { sed -nE 's/.*"SLURM_(JOB_ID|STEP_ID)": "([0-9]+)".*/\2/p' "$1"/runs/*/run/environment.json | paste -d ' ' - - | sort -u; }
hosts_of() { tr -d ' \n' <"$1/run/environment.json" | grep -oE '"hosts":\[[^]]*\]'; }

check_allocation_study() {
  local study=("$trireme" scale config.yaml --launcher srun --warmup 1)
  begin "a scaling study as steps of one allocation"
  log=$place/allocation.log
  salloc -Q --nodes=2 --ntasks=4 "${study[@]}" --steps 4 --ranks 1,2,4 --repeats 2 --out allocation >"$log" 2>&1
  code=$?
  expect_code 0
  expect_text '\[6/6\] weak scaling'
  [[ $(wc -l <allocation/scaling.csv) -eq 4 ]] || complain "three points in scaling.csv"
  [[ $(steps_of allocation | wc -l) -eq 6 ]] || complain "six steps, got $(steps_of allocation)"
  [[ $(steps_of allocation | cut -d ' ' -f 1 | sort -u | wc -l) -eq 1 ]] || complain "one job, got $(steps_of allocation)"
  expect_equal "$(hosts_of "allocation/runs/weak-2-data=2-1")" '"hosts":["n1","n1"]' "the nodes of two ranks, which fill the first"
  expect_equal "$(hosts_of "allocation/runs/weak-4-data=4-1")" '"hosts":["n1","n1","n2","n2"]' "the nodes of four ranks"
  grep -q '"OMPI_MCA_oob_tcp_keepalive_time"' "allocation/runs/weak-4-data=4-1/run/environment.json" || complain "the settings of mpi_env.sh"

  begin "a study in an allocation is cut off and continued in another"
  study+=(--ranks "1,2" --repeats 1 --steps 300 --set train.global_batch=64 --out cut_allocation)
  salloc -Q --ntasks=2 "${study[@]}" >"$log" 2>&1 &
  local process=$!
  # One after the other, in random order.
  second_begins() { training "cut_allocation/runs/weak-1-data=1-1/run" && training "cut_allocation/runs/weak-2-data=2-1/run"; }
  wait_until 60 second_begins || complain "training of the second run to begin"
  pkill -TERM -P "$process" -f " scale config.yaml --launcher srun "
  wait "$process"
  code=$?
  expect_code 75
  expect_text "resume continues the study"
  [[ -z $(squeue -h) ]] || complain "no job that is left"
  ! pgrep -f "^$trireme train .*cut_allocation" || complain "no rank that is left"
  salloc -Q --ntasks=2 "${study[@]}" --resume >"$log" 2>&1
  code=$?
  expect_code 0
  expect_text "2 runs, 1 of them are there already"
  [[ $(wc -l <cut_allocation/scaling.csv) -eq 3 ]] || complain "two points in scaling.csv"

  begin "a study without an allocation"
  "$trireme" scale config.yaml --launcher srun --out none >"$log" 2>&1
  code=$?
  expect_code 2
  expect_text "use salloc or sbatch"
}

check_ablation() {
  local study=("$trireme" ablate study.yaml --launcher array --jobs 1) cells=ablation/runs process
  printf '%s\n' "base: $place/config.yaml" "ranks: 2" "seeds: [1]" "metric: training_loss" "last_losses: 5" \
    "set: {train.steps: 400, train.log_every: 1000, checkpoint.every_steps: 10}" \
    "variants: {list: {plain: {train.clip_norm: 0}}}" >study.yaml
  begin "an ablation as an array is killed while tasks run and wait, and goes on"
  log=$place/ablation.log
  "${study[@]}" --out ablation >"$log" 2>&1 &
  process=$!
  wait_until 60 has_checkpoint "$cells/000-base/seed-1/run" || complain "a checkpoint"
  kill -s KILL "$process"
  { wait "$process"; } 2>/dev/null
  [[ -n $(squeue -h -t PENDING) ]] || complain "tasks that wait"
  "${study[@]}" --out ablation --resume >>"$log" 2>&1
  code=$?
  expect_code 0
  # The killed start's second task must not run. It waits for the first, which has steps enough to outlast the pause.
  expect_equal "$(cat ablation/waves/*.log | grep -c 'run directory ablation/runs/001-plain')" 1 "jobs of the second cell, one"
  [[ $(grep -c ',done,' ablation/ablation.csv) -eq 2 ]] || complain "two cells that are done: $(cat ablation/ablation.csv)"
  "$trireme" train config.yaml --set run.directory=runs/ablated --set run.seed=1 --set train.clip_norm=0 --set train.steps=400 >"$place/ablated.log" 2>&1
  expect_equal "$(sha256sum <"$cells/001-plain/seed-1/run/weights.safetensors")" "$(sha256sum <runs/ablated/weights.safetensors)" \
    "the weights of a run that nobody stopped"

  begin "an ablation as steps of one allocation"
  sed -i 's/train.steps: 400/train.steps: 10/' study.yaml
  salloc -Q --nodes=2 --ntasks=2 "$trireme" ablate study.yaml --launcher srun --out steps >"$log" 2>&1
  code=$?
  expect_code 0
  [[ $(grep -c ',done,' steps/ablation.csv) -eq 2 ]] || complain "two cells that are done"
  expect_equal "$(sed -nE 's/.*"SLURM_JOB_ID": "([0-9]+)".*/\1/p' steps/runs/*/*/run/environment.json | sort -u | wc -l)" 1 "jobs, one"
}
