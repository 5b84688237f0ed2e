#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Proves on a GPU what cannot be proved without one, measures beside PyTorch, and writes gpu_report.md. Under 9 minutes
# on one H200 with a build at hand; needs no network, no root and no apt.
#
#   scripts/gpu_check.sh                      builds preset cuda where it can, else takes the build that is there
#   scripts/gpu_check.sh --build DIR          takes this build
#   scripts/gpu_check.sh --build-only         builds and stops
#   scripts/gpu_check.sh --sections a,b       some of: tests parity ranks abort graphs repeat sanitizer benchmark
#   scripts/gpu_check.sh --quick              the same in fewer cases, under 3 minutes
#   scripts/gpu_check.sh --models a,b         benchmark these: gpt2_124m gpt2_350m gpt2_774m gpt2_1558m resnet50
#   scripts/gpu_check.sh --set KEY=VALUE      override a config key in the benchmarks, e.g. device.graphs=step
#   scripts/gpu_check.sh --torch-python FILE  a Python that has PyTorch (default: python3)
#   scripts/gpu_check.sh --seconds N          time for all sections together (default: 530)
#   scripts/gpu_check.sh --report FILE        default: gpu_report.md
#   scripts/gpu_check.sh --device cpu         a rehearsal of the script on a machine without a GPU
#
# Exit code: 0 everything that ran is right, 1 something failed, 2 nothing could run here. Speed never fails.
set -euo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

# in_callers_place PATH: a path as the caller meant it.
in_callers_place() { (cd "$called_from" && realpath -m -- "$1"); }

build='' device=cuda build_only=false pass=() seconds=530
while [[ $# -gt 0 ]]; do
  case $1 in
    --build | --device | --sections | --models | --set | --torch-python | --seconds | --report)
      [[ $# -ge 2 ]] || die "$1 needs a value"
      case $1 in
        --build) build=$(in_callers_place "$2") ;;
        --report) pass+=("$1" "$(in_callers_place "$2")") ;;
        # A word without a slash is looked for in PATH.
        --torch-python) if [[ $2 == */* ]]; then pass+=("$1" "$(in_callers_place "$(dirname "$2")")/${2##*/}"); else pass+=("$1" "$2"); fi ;;
        --device) device=$2 ;;
        --seconds) seconds=$2 ;;
        *) pass+=("$1" "$2") ;;
      esac
      shift
      ;;
    --quick) pass+=(--quick) ;;
    --build-only) build_only=true ;;
    -h | --help)
      sed -n '3,19s/^# \{0,1\}//p' scripts/gpu_check.sh
      exit 0
      ;;
    *) die "unknown option $1; see scripts/gpu_check.sh --help" ;;
  esac
  shift
done
[[ $device == cpu || $device == cuda ]] || die "--device $device: use cuda or cpu"
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "--seconds $seconds: is not a positive number"

# cannot_run REASON...: what is missing here, and the exit code that says so.
cannot_run() {
  printf 'cannot run here: %s\n' "$@" >&2
  exit 2
}

if [[ $device == cuda ]] && ! $build_only; then
  command -v nvidia-smi >/dev/null || cannot_run "there is no nvidia-smi, so no NVIDIA driver" \
    "scripts/gpu_check.sh --device cpu rehearses the script without a GPU"
  [[ $(nvidia-smi -L 2>/dev/null) == GPU* ]] || cannot_run "nvidia-smi lists no GPU"
fi
command -v python3 >/dev/null || cannot_run "there is no python3"

preset=$([[ $device == cuda ]] && echo cuda || echo cpu)
if [[ -z $build ]]; then
  build=build/$preset
  if command -v cmake >/dev/null && find_compiler >/dev/null && { [[ $device == cpu ]] || command -v "${CUDACXX:-nvcc}" >/dev/null; }; then
    use_tools
    say "building preset $preset"
    before=$SECONDS
    { run_quietly "cmake --preset $preset" cmake --preset "$preset" &&
      run_quietly "cmake --build --preset $preset" cmake --build --preset "$preset" -j "$(nproc)"; } ||
      [[ -x $build/trireme ]] || cannot_run "the build failed and $build has no older one"
    # Building is part of the time that the caller gave, down to what the checks of correctness need.
    seconds=$((seconds - (SECONDS - before)))
    ((seconds >= 240)) || seconds=240
  else
    say "no cmake, g++ or nvcc here: taking the build in $build"
  fi
fi
[[ -x $build/trireme ]] || cannot_run "$build/trireme does not exist; build with: cmake --preset $preset && cmake --build --preset $preset"
if $build_only; then exit 0; fi

exec python3 scripts/gpu_check --build "$build" --device "$device" --seconds "$seconds" "${pass[@]+"${pass[@]}"}"
