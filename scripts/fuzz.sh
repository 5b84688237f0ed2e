#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzz targets of tests/fuzz with clang, libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer, and runs
# each. Needs clang with its runtime (apt-get install clang-22 libclang-rt-22-dev); clang 16 cannot capture structured
# bindings under -fopenmp-simd.
#
#   scripts/fuzz.sh [SECONDS_PER_TARGET [TARGET...]]      (default: 60 seconds; config fields images manifest megatron safetensors shard tcp tokenizer weights_index)
#
# The corpus is kept in build/fuzz/corpus. An input that crashes, leaks or takes over 10 seconds is kept in
# build/fuzz/findings, and the exit code is 1; add it to tests/fuzz/seeds/TARGET once the bug is fixed. An input that
# takes over a second is kept as TARGET-slow-unit-*: on a busy machine that may be chance.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

words=()
read_options "" WORDS "$@"
seconds=${words[0]:-60} targets=("${words[@]:1}")
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "$seconds is not a number of seconds; see scripts/fuzz.sh --help"
cd "$repository"
((${#targets[@]} > 0)) || targets=(config fields images manifest megatron safetensors shard tcp tokenizer weights_index)
for target in "${targets[@]}"; do
  [[ -f tests/fuzz/${target}_fuzz.cpp ]] || die "$target: there is no tests/fuzz/${target}_fuzz.cpp"
done

# Older clangs lack std::source_location or cannot capture structured bindings under OpenMP; without its runtime clang
# cannot link.
find_clang() {
  local name
  for name in ${CXX:+"$CXX"} clang++ clang++-{22,21,20,19}; do
    command -v "$name" >/dev/null || continue
    if printf '#include <source_location>\n%s\n%s\n' 'auto here = std::source_location::current();' \
      'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' |
      "$name" -std=c++20 -fsanitize=fuzzer,address,undefined -x c++ - -o /dev/null 2>/dev/null; then
      echo "$name"
      return
    fi
  done
  die "no clang++ of version 19 or newer with libFuzzer; apt-get install clang-22 libclang-rt-22-dev, or name it with CXX"
}
clang=$(find_clang)
run_quietly "cmake --preset fuzz ($clang)" cmake --preset fuzz -DCMAKE_CXX_COMPILER="$clang" -DCMAKE_C_COMPILER="${clang/++/}"
cmake --build build/fuzz -j "$(nproc)" --target "${targets[@]/#/fuzz_}"

# Keeps files of inputs in memory if possible.
if [[ -z ${TMPDIR:-} && -w /dev/shm ]]; then export TMPDIR=/dev/shm; fi
findings=$PWD/build/fuzz/findings failed=0
mkdir -p "$findings"
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target log=build/fuzz/$target.log
  mkdir -p "$corpus"
  seeds=("tests/fuzz/seeds/$target")
  [[ ! -d build/fuzz/fuzz_seeds/$target ]] || seeds+=("build/fuzz/fuzz_seeds/$target")
  dictionary=()
  case $target in
    config) dictionary=(-dict=tests/fuzz/config.dict) ;;
    images | shard | tcp) ;;
    *) dictionary=(-dict=tests/fuzz/json.dict) ;;
  esac
  status=0
  "build/fuzz/tests/fuzz_$target" -max_total_time="$seconds" -max_len=16384 -timeout=10 -report_slow_units=1 \
    -rss_limit_mb=1024 -print_final_stats=1 "${dictionary[@]}" -artifact_prefix="$findings/$target-" "$corpus" "${seeds[@]}" >"$log" 2>&1 || status=$?
  say "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs," \
    "$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | grep -o '[0-9]*$') edges covered, exit code $status"
  if ((status != 0)); then
    failed=1
    grep -aE 'ERROR|SUMMARY|runtime error|broken promise|Test unit written' "$log" | head -n 8
  fi
done
exit $failed
