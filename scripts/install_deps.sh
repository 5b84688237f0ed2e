#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs missing packages for building and testing Trireme on Debian 12 or newer and Ubuntu 22.04 or newer. As root or with
# sudo. Prints nothing if nothing is missing.
#
#   scripts/install_deps.sh            build and test
#   scripts/install_deps.sh --data     also the texts and images of scripts/quickstart.sh
#   scripts/install_deps.sh --slurm    also Slurm, for the tests that start one; no daemon stays running
#   scripts/install_deps.sh --check    installs nothing; lists what is missing and exits 1 if something is
#   scripts/install_deps.sh --list     prints the libraries of a build, one per line, alternatives with |; used by cpack's packages
#   scripts/install_deps.sh --cuda     also missing parts of CUDA 13, cuDNN, NCCL and cudnn-frontend from pip; no root
#
# For a machine without network or root; everything goes to a prefix (default: $TRIREME_PREFIX or ~/.local/trireme):
#   scripts/install_deps.sh --bundle DIR [--cuda] [--toolchain]    downloads everything into DIR, optionally g++
#   scripts/install_deps.sh --from DIR                             unpacks it on the target
# --prefix DIR chooses the prefix. Other scripts here look in $TRIREME_PREFIX and ~/.local/trireme.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
# shellcheck source=scripts/deps/prefix.sh
source "$repository/scripts/deps/prefix.sh"
# shellcheck source=scripts/deps/cuda.sh
source "$repository/scripts/deps/cuda.sh"
# shellcheck source=scripts/deps/bundle.sh
source "$repository/scripts/deps/bundle.sh"

# If distributions use different names, the first existing name is taken. Debian's CMake files of oneDNN require OpenCL,
# which libdnnl-dev does not install.
needs=(
  "libopenmpi-dev" "openmpi-bin"
  "libhdf5-dev"
  "libdnnl-dev libonednn-dev" "ocl-icd-opencl-dev"
  "libspdlog-dev" "libfmt-dev" "libyaml-cpp-dev" "libcli11-dev" "nlohmann-json3-dev" "libxxhash-dev" "libssl-dev"
  "prometheus-cpp-dev"
  "libjpeg-dev" "libpng-dev" "zlib1g-dev" "libpcre2-dev" "libutf8proc-dev" "libsentencepiece-dev"
  "libdeflate-dev" "liblz4-dev" "liblzf-dev" "libzstd-dev" "libblosc-dev" "libaec-dev"
  "libgtest-dev" "libgmock-dev" "pkgconf pkg-config"
)
# Not in a bundle: Ninja is there from pip, and the others are optional. Python runs tests alone.
program_needs=("ninja-build" "ccache" "git" "python3")
data_needs=("bible-kjv" "dataset-fashion-mnist")
slurm_needs=("slurmctld" "slurmd" "slurm-client" "munge" "slurmdbd" "mariadb-server-core" "mariadb-client-core" "iproute2" "procps")

check=false list=false cuda=false toolchain=false data=false slurm=false bundle='' from='' prefix=$trireme_prefix
read_options "--bundle --from --prefix" "--data --slurm --check --list --cuda --toolchain" "$@"
prefix=$(realpath -m -- "$prefix")
if $list; then
  printf '%s\n' "${needs[@]// / | }"
  exit 0
fi

installed() { [[ $(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }
available() { [[ $(apt-cache policy "$1" 2>/dev/null) =~ Candidate:\ [^\(] ]]; }

# First name of each alternative that the package lists have; fails on the first missing one.
choose() {
  local need name found
  chosen=()
  for need in "$@"; do
    found=""
    for name in $need; do
      if available "$name"; then
        found=$name
        break
      fi
    done
    if [[ -z $found ]]; then
      unknown=$need
      return 1
    fi
    chosen+=("$found")
  done
}

if [[ -n $bundle ]]; then
  make_bundle "$bundle"
  exit 0
elif [[ -n $from ]]; then
  unpack_bundle "$from"
  exit 0
elif $toolchain; then
  die "--toolchain goes with --bundle"
fi
if $cuda && ! $check; then install_cuda; fi
# An unpacked bundle replaces the packages.
if [[ -d $prefix/system ]]; then needs=(); else needs+=("${program_needs[@]}"); fi
if $data; then needs+=("${data_needs[@]}"); fi
if $slurm; then needs+=("${slurm_needs[@]}"); fi

command -v dpkg-query >/dev/null || die "this system has no dpkg. Install with its own package manager: Open MPI, HDF5 (C),
  oneDNN, spdlog, fmt, yaml-cpp, CLI11, nlohmann-json, xxHash, OpenSSL, libjpeg-turbo, libpng, zlib, libdeflate, LZ4, LZF, Zstandard,
  Blosc, libaec, PCRE2, utf8proc, SentencePiece (optional), GoogleTest, CMake >= $minimum_cmake,
  Ninja, ccache, pkg-config, g++ >= $minimum_gcc; then use cmake --preset cpu"

missing=()
for need in "${needs[@]+"${needs[@]}"}"; do
  for name in $need; do
    if installed "$name"; then continue 2; fi
  done
  missing+=("$need")
done
need_compiler=false need_cmake=false
find_compiler >/dev/null || need_compiler=true
PATH=$tools_directory/bin:$PATH at_least "$(PATH=$tools_directory/bin:$PATH cmake_version)" "$minimum_cmake" || need_cmake=true

if [[ ${#missing[@]} -eq 0 && $need_compiler == false && $need_cmake == false ]]; then exit 0; fi
if $check; then
  printf 'missing: %s\n' "${missing[@]+"${missing[@]}"}"
  if $need_compiler; then echo "missing: g++ >= $minimum_gcc"; fi
  if $need_cmake; then echo "missing: cmake >= $minimum_cmake"; fi
  exit 1
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  command -v sudo >/dev/null || die "packages are missing and need root to install; as root run:
  apt-get install $(printf '%s ' "${missing[@]%% *}")g++ cmake"
  as_root=(sudo)
  sudo -v
fi
apt() { "${as_root[@]+"${as_root[@]}"}" env DEBIAN_FRONTEND=noninteractive apt-get "$@"; }

# offers NAME VERSION: whether the distribution has at least that version.
offers() { at_least "$(apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ { sub(/^[0-9]+:/, "", $2); print $2 }')" "$2"; }

# The distribution's g++ and cmake if they are new enough; else g++-12 and a private CMake.
tool_needs() {
  wanted=()
  if $need_compiler; then wanted+=("$(offers g++ "$minimum_gcc" && echo g++ || echo "g++-$minimum_gcc")"); fi
  if $need_cmake; then wanted+=("$(offers cmake "$minimum_cmake" && echo cmake || echo python3-venv)"); fi
}

# Packages start their daemons unless this file forbids it; the tests start their own.
keep_daemons_down() {
  local policy=/usr/sbin/policy-rc.d
  [[ ! -e $policy ]] || return 0
  printf '#!/bin/sh\nexit 101\n' | "${as_root[@]+"${as_root[@]}"}" tee "$policy" >/dev/null
  "${as_root[@]+"${as_root[@]}"}" chmod +x "$policy"
  # shellcheck disable=SC2064  # the values of now
  trap "${as_root[*]+"${as_root[*]}"} rm -f $policy" EXIT
}

# Updates package lists only if there are none, or they lack a package or name a deleted version.
tool_needs
if ! choose "${missing[@]+"${missing[@]}"}" "${wanted[@]+"${wanted[@]}"}"; then
  run_quietly "apt-get update" apt update
  tool_needs
  choose "${missing[@]+"${missing[@]}"}" "${wanted[@]+"${wanted[@]}"}" ||
    die "no package of this system is named '$unknown'. Debian 12 or newer and Ubuntu 22.04 or newer have it (on Ubuntu
  enable the universe component: add-apt-repository universe)"
fi
if [[ ${#chosen[@]} -gt 0 ]]; then
  say "installing ${#chosen[@]} packages with apt: ${chosen[*]}"
  install=(apt install -y --no-install-recommends "${chosen[@]}")
  if $slurm; then keep_daemons_down; fi
  run_quietly "apt-get install" "${install[@]}" || {
    say "trying again with fresh package lists"
    run_quietly "apt-get update" apt update
    run_quietly "apt-get install" "${install[@]}"
  }
fi

if $need_cmake && ! at_least "$(cmake_version)" "$minimum_cmake"; then
  say "this system's CMake is older than $minimum_cmake: putting a newer one into build/tools with pip"
  run_quietly "python3 -m venv" python3 -m venv "$tools_directory"
  run_quietly "pip install cmake" "$tools_directory/bin/pip" install --quiet "cmake>=$minimum_cmake,<4"
fi
