# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that start ranks: finds the program that belongs to them.

# Prints the program's path: built in the repository of these scripts, CUDA first, else installed with them (bin/ beside
# launch/, or beside share/trireme/launch/). Fails if there is none.
program_of_scripts() {
  local above candidate
  above=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  for candidate in "$above"/build/{cuda,cpu}/trireme "$above/bin/trireme" "${above%/*/*}/bin/trireme"; do
    if [[ -f $candidate && -x $candidate ]]; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  return 1
}

# Puts the program of these scripts first in PATH as `trireme`. Sets trireme_changed_path if PATH had to change.
put_program_on_path() {
  local program
  trireme_changed_path=""
  program=$(program_of_scripts) || return 0
  if [[ ! $(command -v trireme) -ef $program ]]; then
    trireme_changed_path=true
    export PATH=${program%/*}:$PATH
  fi
}
