#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks on a GPU everything that needs one, and measures next to PyTorch: eight calls of under ten minutes each, for a
# rented machine. Needs a build, or a bundle that was made elsewhere; no network, no root.
#
#   scripts/gpu_check.sh list                 the calls, in their order, with their time limits
#   scripts/gpu_check.sh CALL...              first basics gpt2 benchmark sanitizer messages ranks nodes, or all
#   scripts/gpu_check.sh build                builds preset cuda and stops; a call builds only if there is no build
#   scripts/gpu_check.sh bundle DIR           packs a build for a machine with only a driver; see its --help
#   scripts/gpu_check.sh report FILE|DIR...   one report of results from several machines
#
#   --build DIR          uses this build
#   --out DIR            results_CALL.jsonl, evidence_CALL.tar.gz, report.md, written after each row (default: gpu_check)
#   --strict             unproved rows (skipped, refused, no time left) also fail
#   --only REGEX         rows whose "section: name" matches
#   --hosts A:8,B:8      hosts and their GPUs for the call nodes; --out is then on a disk that they share
#   --launcher mpi|tcp   launcher of several ranks: mpirun, or launch/tcp_run.sh (default: mpirun if available)
#   --torch-python FILE  a Python that has PyTorch (default: python3)
#   --models a,b         benchmark these: gpt2_124m gpt2_350m gpt2_774m gpt2_1558m resnet50
#   --set KEY=VALUE      override a config key in the benchmarks, e.g. device.graphs=step
#   --device cpu         a rehearsal of the script on a machine without a GPU
#
# report.md has a row per claim (command, result, observation) and ends with the unproved ones. A row that hangs leaves
# thread stacks, the ranks' last collectives, metrics and nvidia-smi in the evidence. Exit code: 0 nothing failed, 1
# something failed (with --strict: or was not proved), 2 there is no GPU or nothing to run. Speed never fails.
set -euo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/common.sh
source scripts/common.sh

# in_callers_place PATH: resolves a path from the caller's directory.
in_callers_place() { (cd "$called_from" && realpath -m -- "$1"); }

help() { sed -n '3,/^set -/{/^#/s/^# \{0,1\}//p}' scripts/gpu_check.sh; }

if [[ ${1:-} == bundle ]]; then
  shift
  cd "$called_from"
  exec bash "${repository:?}/scripts/gpu_check/bundle.sh" "$@"
fi
build='' device=cuda calls=() pass=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --build | --device | --out | --only | --hosts | --launcher | --models | --set | --torch-python)
      [[ $# -ge 2 ]] || die "$1 needs a value"
      case $1 in
        --build) build=$(in_callers_place "$2") ;;
        --out) pass+=("$1" "$(in_callers_place "$2")") ;;
        # A word without a slash is searched in PATH. Links are not resolved: a virtual environment needs its link.
        --torch-python) if [[ $2 == */* ]]; then pass+=("$1" "$(in_callers_place "$(dirname "$2")")/${2##*/}"); else pass+=("$1" "$2"); fi ;;
        --device) device=$2 ;;
        *) pass+=("$1" "$2") ;;
      esac
      shift
      ;;
    --strict) pass+=("$1") ;;
    -h | --help)
      help
      exit 0
      ;;
    -*) die "unknown option $1; see scripts/gpu_check.sh --help" ;;
    *) if [[ ${calls[0]:-} == report ]]; then calls+=("$(in_callers_place "$1")"); else calls+=("$1"); fi ;;
  esac
  shift
done
[[ $device == cpu || $device == cuda ]] || die "--device $device: use cuda or cpu"
if [[ ${#calls[@]} -eq 0 ]]; then
  help >&2
  exit 2
fi

# cannot_run REASON...: prints what is missing; the exit code says so too.
cannot_run() {
  printf 'cannot run here: %s\n' "$@" >&2
  exit 2
}
# A bundle may contain Python.
if ! command -v python3 >/dev/null && [[ -x python/bin/python3 ]]; then export PATH=$PWD/python/bin:$PATH; fi
command -v python3 >/dev/null || cannot_run "there is no python3"
if [[ ${calls[0]} == list || ${calls[0]} == report ]]; then exec python3 scripts/gpu_check "${calls[@]}" "${pass[@]+"${pass[@]}"}"; fi

preset=$([[ $device == cuda ]] && echo cuda || echo cpu)
if [[ -z $build ]]; then
  build=build/$preset
  if [[ ${calls[0]} == build || ! -x $build/trireme ]]; then
    if ! command -v cmake >/dev/null || ! find_compiler >/dev/null; then
      cannot_run "$build/trireme does not exist, and there is no cmake or g++ to build it"
    elif [[ $device == cuda ]] && ! command -v "${CUDACXX:-nvcc}" >/dev/null; then
      cannot_run "$build/trireme does not exist, and there is no nvcc to build it"
    fi
    use_tools
    say "building preset $preset"
    { run_quietly "cmake --preset $preset" cmake --preset "$preset" &&
      run_quietly "cmake --build --preset $preset" cmake --build --preset "$preset" -j "$(nproc)"; } || cannot_run "the build failed"
  fi
fi
if [[ ${calls[0]} == build ]]; then exit 0; fi
[[ -x $build/trireme ]] || cannot_run "$build/trireme does not exist; build with: cmake --preset $preset && cmake --build --preset $preset"

exec python3 scripts/gpu_check "${calls[@]}" --build "$build" --device "$device" "${pass[@]+"${pass[@]}"}"
