# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts that start ranks: numbers in the environment, which may be of another job or misspelled.

# environment_number NAME DEFAULT MIN MAX: prints the whole number in the variable NAME. Where it is not set, DEFAULT; where
# it is no number from MIN to MAX too, which is said.
environment_number() {
  local value=${!1:-}
  if [[ $value =~ ^[0-9]{1,12}$ ]] && ((10#$value >= $3 && 10#$value <= $4)); then
    echo $((10#$value))
    return
  fi
  [[ -z $value ]] || printf '%s: %s=%q: is no whole number from %s to %s; it is ignored\n' "${0##*/}" "$1" "${value:0:60}" "$3" "$4" >&2
  echo "$2"
}

# The seconds until the end of the allocation around; DEFAULT where there is none, or where the shell outlived it.
seconds_of_allocation() {
  local now end
  now=$(date '+%s')
  end=$(environment_number SLURM_JOB_END_TIME 0 0 253402300799)
  if ((end > now)); then echo $((end - now)); else echo "$1"; fi
}
