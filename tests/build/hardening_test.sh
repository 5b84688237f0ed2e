#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# hardening_test.sh PROGRAM ARCHIVE...
#
# PROGRAM was linked, and it and ARCHIVE... were compiled, as in scripts/cmake/TriremeHardening.cmake. First tries each
# check on a small program that lacks this one property.
set -euo pipefail
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-hardening.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
  echo "hardening_test.sh: $*" >&2
  exit 1
}

# Prints the missing properties of PROGRAM, one per line.
lacks() {
  local header segments dynamic symbols
  header=$(readelf -hW "$1") segments=$(readelf -lW "$1") dynamic=$(readelf -dW "$1") symbols=$(readelf --dyn-syms -W "$1")
  # A shared library is of the same type, but not marked as a program.
  [[ $header =~ Type:\ +DYN && $dynamic =~ FLAGS_1[^$'\n']*\ PIE ]] || echo "position-independent"
  [[ $segments == *GNU_RELRO* ]] || echo "read-only after relocation"
  [[ $dynamic =~ BIND_NOW|FLAGS_1[^$'\n']*\ NOW ]] || echo "bound at its start"
  [[ $segments =~ GNU_STACK[^$'\n']*\ RW\  ]] || echo "stack not executable"
  [[ $symbols =~ \ __stack_chk_fail ]] || echo "canaries"
  grep -P ' __\w+_chk\b' <<<"$symbols" >/dev/null || echo "fortified"
}

# The checks, each on a program with all properties but one.
cat >"$work/small.cpp" <<'CPP'
#include <cstring>
int main(int, char** words) {
  char text[64];
  std::strcpy(text, words[0]);
  return text[0] == 'x';
}
CPP
flags=(-O2 -fPIE -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -pie "-Wl,-z,relro,-z,now,-z,noexecstack")
small() {
  "${CXX:-c++}" "$work/small.cpp" -o "$work/small" "${flags[@]}" "$@" 2>"$work/log" || fail "does not compile: $(<"$work/log")"
  lacks "$work/small"
}
expect() {
  local found
  found=$(small "${@:2}")
  [[ $found == "$1" ]] || fail "of a program built with ${*:2} it says that it lacks: ${found:-nothing}"
}
expect ""
expect "position-independent" -no-pie -fno-pie
expect "read-only after relocation" -Wl,-z,norelro
expect "bound at its start" -Wl,-z,lazy
expect "stack not executable" -Wl,-z,execstack
expect "canaries" -fno-stack-protector
expect "fortified" -U_FORTIFY_SOURCE

program=$1
shift
missing=$(lacks "$program")
[[ -z $missing ]] || fail "$program lacks: ${missing//$'\n'/, }"
(($# > 0)) || fail "no libraries given"
for archive in "$@"; do
  nm "$archive" >"$work/symbols" 2>/dev/null || fail "$archive: nm cannot read it"
  grep -q 'U __stack_chk_fail' "$work/symbols" || fail "$archive was compiled without canaries"
done
