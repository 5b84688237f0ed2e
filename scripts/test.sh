#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages, builds, runs every test and ends with CTest's summary. The first time takes minutes on two cores.
#
#   scripts/test.sh                      preset cuda if its toolkit is installed, else cpu
#   scripts/test.sh --cpu | --cuda       this preset
#   scripts/test.sh --asan | --tsan      under AddressSanitizer and UBSan, or ThreadSanitizer
#   scripts/test.sh --debug              without optimisation
#   scripts/test.sh --no-cluster         without the tests of Slurm and of several hosts, which need root and network namespaces
#   scripts/test.sh --filter REGEX       only tests whose name matches; may be given with a preset
#   scripts/test.sh --jobs N             parallel build steps, and cores for the tests (default: the number of cores)
#   scripts/test.sh --no-install         install no packages
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/deps/cuda.sh
source "$repository/scripts/deps/cuda.sh"

# shellcheck disable=SC2034  # the presets are read by their names
filter='' cluster=true jobs=$(nproc) install=true cpu=false cuda=false asan=false tsan=false debug=false
read_options "--filter --jobs" "--cpu --cuda --asan --tsan --debug --no-cluster --no-install" "$@"
cd "$repository"
[[ $jobs =~ ^[1-9][0-9]*$ ]] || die "--jobs $jobs: is not a positive number"
tests=() preset=''
if [[ -n $filter ]]; then tests=(-R "$filter"); fi
for name in cpu cuda asan tsan debug; do
  if ${!name}; then preset=$name; fi
done

if $install; then
  scripts/install_deps.sh
  if $cluster && [[ $(id -u) == 0 ]]; then
    scripts/install_deps.sh --slurm || say "Slurm could not be installed: its tests skip"
  fi
fi
use_tools
if [[ -z $preset ]]; then
  preset=cpu
  if toolkit=$(find_toolkit); then
    preset=cuda
    export CUDACXX=${toolkit% *}
    say "CUDA ${toolkit#* } is installed: its code is compiled and linked too"
  fi
fi

say "building preset $preset"
# Warnings of a compiler that nobody here has met do not keep a user from building.
run_quietly "cmake --preset $preset" cmake --preset "$preset" ${CI:+-DTRIREME_WERROR=ON}
cmake --build --preset "$preset" -j "$jobs"

say "testing"
# Tests kill mpirun, and Open MPI 5 refuses to start where a killed one left the directory of the same process id.
for left in "${TMPDIR:-/tmp}"/prterun."$HOSTNAME".*."$UID"; do
  process=${left%.*} process=${process##*.}
  if [[ -O $left && ! -e /proc/$process ]]; then rm -rf -- "$left"; fi
done
if ! $cluster; then tests+=(-LE '^(hosts|slurm)$'); fi
# Many tests mostly wait, for deadlines and daemons, and others a third of their time: so PROCESSORS counts thirds of a
# core (scripts/cmake/TriremeTests.cmake).
exec ctest --preset "$preset" -j $((3 * jobs)) --no-tests=error "${tests[@]+"${tests[@]}"}" </dev/null
