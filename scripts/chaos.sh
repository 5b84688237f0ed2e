#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tries to break the program in every way that the repository knows, and prints the cases and survivors: the tests with
# CTest label "chaos", jobs that are killed and resumed (scripts/kill_and_resume.sh) and readers of untrusted files
# (scripts/fuzz.sh with clang's libFuzzer, else the fuzz tests).
#
#   scripts/chaos.sh [--minutes N] [--build DIR] [--seed N] [--keep DIR] [--no-fuzzer]
#
#   --minutes N   duration (default: 5); each part gets a third, the tests run at least once
#   --build DIR   the build folder with tests and program (default: build/cpu)
#   --seed N      seed of the first killed job; the others count up from it (default: from the clock, and printed)
#   --keep DIR    put the logs there and keep them; otherwise they are kept only after a failure
#   --no-fuzzer   the fuzz tests instead of libFuzzer, which needs a build with clang
#
# A test may print "chaos: CASES cases, SURVIVED survived"; others count as one case per run. Exits with 1 if anything
# broke.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

minutes=5 build=$repository/build/cpu seed=$(date +%s) keep='' fuzzer=true
read_options "--minutes --build --seed --keep" --no-fuzzer "$@"
[[ $minutes =~ ^[1-9][0-9]*$ ]] || die "--minutes $minutes: give a whole number from 1 on"
[[ $seed =~ ^[0-9]+$ ]] || die "--seed $seed: give a whole number"
[[ -x $build/trireme && -f $build/CTestTestfile.cmake ]] ||
  die "$build: there is no build with tests; make it with cmake --preset cpu && cmake --build --preset cpu"
build=$(realpath -- "$build")

make_work chaos
share=$((minutes * 20)) failed=0
say "$minutes minutes, seed $seed, logs in $work"

# Names in order; cases and survivors by name.
names=()
declare -A cases=() survived=()
count() {
  local name=$1
  [[ -n ${cases[$name]:-} ]] || names+=("$name")
  cases[$name]=$((${cases[$name]:-0} + $2)) survived[$name]=$((${survived[$name]:-0} + $3))
  (($2 == $3)) || failed=1
}

# Runs the tests of a label one by one, to separate their output.
run_label() {
  local label=$1 test code line found
  mapfile -t tests < <(ctest --test-dir "$build" -N -L "^$label\$" | sed -n 's/^ *Test *#[0-9]*: //p')
  for test in "${tests[@]}"; do
    code=0
    ctest --test-dir "$build" -R "^$test\$" -V >"$work/$test.log" 2>&1 || code=$?
    if grep -q '\*\*\*Skipped' "$work/$test.log"; then
      skipped[$test]=1
      continue
    fi
    found=false
    while read -r line; do
      count "$test" "${line% *}" "${line#* }"
      found=true
    done < <(sed -n 's/^[0-9]*: chaos: \([0-9]*\) cases, \([0-9]*\) survived$/\1 \2/p' "$work/$test.log")
    if ! $found || ((code != 0)); then count "$test" 1 $((code == 0 ? 1 : 0)); fi
    ((code == 0)) || say "$test broke: $work/$test.log"
  done
}
declare -A skipped=()

started=$SECONDS
while :; do
  run_label chaos
  if ((SECONDS - started >= share || ${#names[@]} == 0)); then break; fi
done

started=$SECONDS
for ((n = 0; n == 0 || SECONDS - started < share; ++n)); do
  log=$work/kills$n.log code=0
  "$repository/scripts/kill_and_resume.sh" --jobs 1 --kills 3 --steps 30 --seed $((seed + n)) --trireme "$build/trireme" \
    --keep "$work/kills$n" >"$log" 2>&1 || code=$?
  kills=$(sed -n 's/.*the same bits after \([0-9]*\) kills.*/\1/p' "$log" | tail -n 1)
  if ((code == 0)); then
    count "killed jobs, resumed to the same bits" "${kills:-0}" "${kills:-0}"
    rm -rf -- "$work/kills$n"
  else
    count "killed jobs, resumed to the same bits" 1 0
    say "a killed job differs or did not resume: $log (seed $((seed + n)))"
  fi
done

targets=("$repository"/tests/fuzz/*_fuzz.cpp) fuzz_log=$work/fuzz.log code=0
targets=("${targets[@]##*/}")
targets=("${targets[@]%_fuzz.cpp}")
if $fuzzer; then
  seconds=$((share / ${#targets[@]}))
  "$repository/scripts/fuzz.sh" $((seconds > 0 ? seconds : 1)) "${targets[@]}" >"$fuzz_log" 2>&1 || code=$?
  if grep -q 'no clang++ of version' "$fuzz_log"; then fuzzer=false; fi
fi
if $fuzzer; then
  while read -r target inputs status; do
    count "fuzzed: $target" "$inputs" $((inputs - (status == 0 ? 0 : 1)))
  done < <(sed -n 's/.* \([a-z_]*\): \([0-9]*\) inputs, .* exit code \([0-9]*\)$/\1 \2 \3/p' "$fuzz_log")
  if ((code != 0)); then
    failed=1
    say "fuzzing found something, or could not be built: $fuzz_log"
  fi
else
  say "without libFuzzer: seeds and their mutations, by the fuzz tests"
  run_label fuzz
fi

printf '\n| what was tried | cases | survived |\n|---|---|---|\n'
for name in "${names[@]}"; do
  printf '| %s | %s | %s |\n' "$name" "${cases[$name]}" "${survived[$name]}"
done
for name in "${!skipped[@]}"; do printf '| %s | skipped here | |\n' "$name"; done
printf '\n%s, %s, %s s\n' "$(date -u +%Y-%m-%d)" "$("$build/trireme" --version 2>/dev/null | head -n 1 || true)" "$SECONDS"
exit $failed
