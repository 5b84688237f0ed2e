# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts here: messages, quiet runs with progress, and tools for older systems.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# read_options "--NAME ..." "--FLAG ..." ARGUMENT...: options with a value and without one set a variable of their name, to the
# value or true; --no-NAME sets NAME to false. With WORDS among the flags, the array `words` takes all other arguments.
# --help prints the comment at the head of the script.
read_options() {
  local script=${BASH_SOURCE[1]} valued=" $1 " flags=" $2 "
  shift 2
  while [[ $# -gt 0 ]]; do
    if [[ $valued == *" $1 "* ]]; then
      [[ $# -ge 2 && -n $2 ]] || die "$1 needs a value"
      declare -g "${1#--}=$2"
      shift
    elif [[ $flags == *" $1 "* ]]; then
      if [[ $1 == --no-* ]]; then declare -g "${1#--no-}=false"; else declare -g "${1#--}=true"; fi
    elif [[ $1 == -h || $1 == --help ]]; then
      sed -n '3,/^set -/{/^#/s/^# \{0,1\}//p}' "$script"
      exit 0
    elif [[ $1 != -* && $flags == *" WORDS "* ]]; then
      words+=("$1")
    else
      die "unknown option $1; see $(realpath --relative-to="$repository" -- "$script") --help"
    fi
    shift
  done
}

# need_trireme: $trireme becomes absolute, and must be there.
need_trireme() {
  trireme=$(realpath -m -- "$trireme")
  [[ -x $trireme ]] || die "$trireme: there is no such program; build it or say where it is with --trireme"
}

# make_work NAME: $work is --keep's directory, or a temporary one that a success removes.
make_work() {
  work=${keep:-$(mktemp -d "${TMPDIR:-/tmp}/trireme-$1.XXXXXX")}
  mkdir -p -- "$work" || die "--keep $keep: cannot be created"
  work=$(realpath -- "$work")
  if [[ -z $keep ]]; then trap '(($? != 0)) || rm -rf -- "$work"' EXIT; fi
}

# run_quietly LABEL COMMAND...: writes the output to a log. Shows its last line on a terminal, else a line every ten
# seconds; if the command fails, prints the end of the log.
run_quietly() {
  local label=$1 log status=0 started=$SECONDS
  shift
  log=$(mktemp "${TMPDIR:-/tmp}/trireme-log.XXXXXX")
  "$@" >"$log" 2>&1 </dev/null &
  local child=$! next=10 last
  # A shell without job control starts background commands with SIGINT ignored.
  trap 'kill "$child" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$child" 2>/dev/null; do
    last=$(tail -c 400 "$log" | tr '\r' '\n' | grep -v '^[[:space:]]*$' | tail -n 1 | tr -cd '[:print:]') || true
    if [[ -t 1 ]]; then
      printf '\r\033[K   %s: %.*s' "$label" 70 "$last"
    elif ((SECONDS - started >= next)); then
      printf '   %s: %d s: %.*s\n' "$label" "$((SECONDS - started))" 90 "$last"
      next=$((SECONDS - started + 10))
    fi
    sleep 0.2
  done
  wait "$child" || status=$?
  trap - INT TERM
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
  if ((status == 0)); then
    printf '   %s: done in %d s\n' "$label" "$((SECONDS - started))"
    rm -f "$log"
  else
    tail -n 40 "$log" >&2
    printf 'error: %s failed with status %d; all of its output is in %s\n' "$label" "$status" "$log" >&2
  fi
  return "$status"
}

# at_least HAVE WANT: compares version numbers.
at_least() { [[ $(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1) == "$2" ]]; }

# shellcheck disable=SC2034  # read by install_deps.sh
minimum_cmake=3.25
minimum_gcc=12
tools_directory=$repository/build/tools

# Destination of install_deps.sh for parts without a package: CUDA from pip, or a whole bundle.
trireme_prefix=${TRIREME_PREFIX:-${HOME:-}/.local/trireme}
if [[ -f $trireme_prefix/env.sh ]]; then
  # shellcheck source=/dev/null
  source "$trireme_prefix/env.sh"
fi

cmake_version() { cmake --version 2>/dev/null | awk 'NR == 1 { print $3 }'; }

# Prints the g++ to build with: the default if it is new enough, else the newest numbered one.
find_compiler() {
  local name
  for name in "${CXX:-g++}" g++-15 g++-14 g++-13 g++-12; do
    command -v "$name" >/dev/null || continue
    # A compiler that the user names is taken, even clang.
    if [[ $name == "${CXX:-}" ]] || at_least "$("$name" -dumpversion)" "$minimum_gcc"; then
      printf '%s\n' "$name"
      return 0
    fi
  done
  return 1
}

# After install_deps.sh: sets the compiler and a privately installed CMake for the commands that follow.
use_tools() {
  if [[ -x $tools_directory/bin/cmake ]]; then PATH=$tools_directory/bin:$PATH; fi
  CXX=$(find_compiler) || die "no g++ of version $minimum_gcc or newer; run scripts/install_deps.sh"
  CC=${CC:-${CXX/g++/gcc}}
  export PATH CC CXX
}
