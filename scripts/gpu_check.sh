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
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# cannot_run REASON: the exit code says it too.
cannot_run() {
  printf 'cannot run here: %s\n' "$1" >&2
  exit 2
}

if [[ $# -eq 0 || $1 == -h || $1 == --help ]]; then
  (read_options "" "" --help) >&"$(($# == 0 ? 2 : 1))"
  exit $(($# == 0 ? 2 : 0))
elif [[ $1 == bundle ]]; then
  exec bash "${repository:?}/scripts/gpu_check/bundle.sh" "${@:2}"
elif [[ $1 == build ]]; then
  device=cuda
  read_options --device "" "${@:2}"
  [[ $device == cpu || $device == cuda ]] || die "--device $device: use cuda or cpu"
  cd "$repository"
  if ! command -v cmake >/dev/null || ! find_compiler >/dev/null; then
    cannot_run "there is no build, and no cmake or g++ to make one"
  elif [[ $device == cuda ]] && ! command -v "${CUDACXX:-nvcc}" >/dev/null; then
    cannot_run "there is no build, and no nvcc to make one"
  fi
  use_tools
  say "building preset $device"
  { run_quietly "cmake --preset $device" cmake --preset "$device" &&
    run_quietly "cmake --build --preset $device" cmake --build --preset "$device" -j "$(nproc)"; } || cannot_run "the build failed"
  exit 0
fi
# A bundle may contain Python.
if ! command -v python3 >/dev/null && [[ -x $repository/python/bin/python3 ]]; then export PATH=$repository/python/bin:$PATH; fi
command -v python3 >/dev/null || cannot_run "there is no python3"
exec python3 "$repository/scripts/gpu_check" "$@"
