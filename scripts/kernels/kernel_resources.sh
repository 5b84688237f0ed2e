#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Lists the resources of every CUDA kernel of a build by ptxas: registers, static shared memory, stack and spilled
# bytes. Exits 1 if a kernel spills or has a stack frame (arrays outside of registers), or if there is no report.
#
#   scripts/kernels/kernel_resources.sh BUILD_FOLDER      e.g. build/cuda, after its targets are built (a second)
set -euo pipefail

if [[ $# -ne 1 || $1 == -* ]]; then
  sed -n '3,/^set -/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
  if [[ ${1:-} == -h || ${1:-} == --help ]]; then exit 0; else exit 2; fi
fi
build=$1

mapfile -d '' -t reports < <(find "$build" -name '*.ptxas' -print0 | sort -z)
if [[ ${#reports[@]} -eq 0 ]]; then
  echo "scripts/kernels/kernel_resources.sh: no *.ptxas in $build; build it with -DTRIREME_CUDA=ON first" >&2
  exit 1
fi

# shellcheck disable=SC2016  # awk's variables
cat "${reports[@]}" | c++filt | awk '
  function row() {
    if (name == "") return
    printf "%4s %7s %6s %6s  %-7s %s\n", registers, shared, stack, spilled, architecture, name
    kernels++
    if (stack + spilled > 0) {
      breaches++
      printf "%34s must not keep memory of its own: see above\n", ""
    }
  }
  BEGIN {
    printf "%4s %7s %6s %6s  %-7s %s\n", "regs", "shared", "stack", "spills", "for", "function"
  }
  /Compiling entry function/ { architecture = $NF; gsub("\047", "", architecture) }
  /Function properties for/ {
    row()
    name = $0
    sub(/.*Function properties for /, "", name)
    gsub(/\(anonymous namespace\)::|trireme::|ops::cuda::/, "", name)
    registers = "-"; shared = 0; stack = 0; spilled = 0
  }
  /bytes stack frame/ { stack = $1; spilled = $5 + $9 }
  /Used [0-9]+ registers/ {
    for (i = 1; i < NF; i++) {
      if ($i == "Used") registers = $(i + 1)
      if ($(i + 1) ~ /^bytes/ && $(i + 2) ~ /^smem/) shared = $i
    }
  }
  END {
    row()
    printf "%d functions, %d with a stack frame or spills\n", kernels, breaches
    exit breaches > 0 || kernels == 0
  }'
