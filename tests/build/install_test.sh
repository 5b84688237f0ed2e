#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_test.sh prefix|package BUILD PREFIX
#   prefix    `cmake --install` into PREFIX, moved there from where it was installed, and what run_installed.sh does
#   package   cpack's two .deb: names, versions and dependencies, and the same from an unpacked one
# tests/checks/check_package.sh is the long form: a new root of Debian that gets nothing but the package and what it depends on.
set -euo pipefail
readonly case=$1 build=$2 prefix=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-install.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
  echo "install_test.sh: $*" >&2
  exit 1
}

test_prefix() {
  cmake --install "$build" --prefix "$work/first" >"$work/log" || fail "cmake --install: $(tail -n 5 "$work/log")"
  rm -rf "$prefix"
  mv "$work/first" "$prefix"
  local found header
  # A header that is private to its module stays here; what an installed one includes is installed.
  found=$(find "$prefix/include" -name '*_cpu.h' -o -name '*_cuda.h' -o -name 'tcp_socket.h')
  [[ -z $found ]] || fail "installed: $found"
  while read -r header; do
    [[ -f $prefix/include/trireme/$header ]] || fail "an installed header includes $header, which is not"
  done < <(grep -rhoP '^#include "\K(runtime|data|models)/[^"]+' "$prefix/include" | sort -u)
  "$here/run_installed.sh" "$prefix" "$work/runs"
}

# The packages that own the libraries which a program names.
owners() {
  local library path
  readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | while read -r library; do
    path=$(ldd "$1" | awk -v name="$library" '$1 == name { print $3 }')
    [[ ! -e $path ]] || dpkg-query -S "$path" "$(realpath "$path")" 2>/dev/null | sed -n 's/:.*//p' | head -n 1
  done | sort -u
}

test_package() {
  local deb package field version owner depends
  command -v dpkg-shlibdeps >/dev/null || {
    echo "skipped: there is no dpkg-shlibdeps, which finds the package's dependencies (apt-get install dpkg-dev)"
    exit 77
  }
  (cd "$build" && cpack -G DEB -B "$work/packages") >"$work/log" 2>&1 || fail "cpack: $(tail -n 5 "$work/log")"
  version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
  for package in trireme trireme-dev; do
    deb=$(echo "$work/packages/${package}_${version}"_*.deb)
    [[ -f $deb ]] || fail "cpack wrote no ${package}_$version: $(ls "$work/packages")"
    for field in Package:"$package" Version:"$version"; do
      [[ $(dpkg-deb --field "$deb" "${field%%:*}") == "${field#*:}" ]] || fail "$deb: ${field%%:*} is not ${field#*:}"
    done
    dpkg-deb -x "$deb" "$work/root"
  done
  depends=", $(dpkg-deb --field "$work/packages/trireme_${version}"_*.deb Depends)"
  for owner in $(owners "$work/root/usr/bin/trireme") openmpi-bin procps; do
    [[ $depends == *", $owner"* ]] || fail "trireme does not depend on $owner: $depends"
  done
  depends=", $(dpkg-deb --field "$work/packages/trireme-dev_${version}"_*.deb Depends)"
  for owner in "trireme (= $version)" libopenmpi-dev libhdf5-dev libdnnl-dev libspdlog-dev; do
    [[ $depends == *", $owner"* ]] || fail "trireme-dev does not depend on $owner: $depends"
  done
  [[ -f $work/root/usr/share/doc/trireme/copyright ]] || fail "the package has no licence"
  "$here/run_installed.sh" "$work/root/usr" "$work/runs" short
}

case $case in
  prefix) test_prefix ;;
  package) test_package ;;
  *) fail "$case: prefix or package" ;;
esac
