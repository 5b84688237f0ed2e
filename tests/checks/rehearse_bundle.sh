#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a bundle of scripts/gpu_check.sh in a root with only bash, coreutils, tar, gzip and the C library, an empty
# environment, and only the loopback network. Unpacks it there, runs a call, and checks that rows that need a GPU end as
# "no driver". Needs root, unshare, chroot and ip. Mounts are in a namespace that ends with the call.
#
#   tests/checks/rehearse_bundle.sh BUNDLE [CALL]      a minute; the default is basics
set -euo pipefail
bundle=${1:-} call=${2:-basics}
[[ -f $bundle/unpack.sh && $(id -u) -eq 0 ]] || {
  sed -n '3,/^set -/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}
root=$(mktemp -d "${TMPDIR:-/tmp}/trireme-empty.XXXXXX")
# Never removes through a mount left inside.
trap 'findmnt -R "$root" >/dev/null || rm -rf --one-file-system -- "$root"' EXIT

# add FILE...: a program with its libraries, at the same paths.
add() {
  local file library
  for file in "$@"; do
    cp --parents -L "$file" "$root"
    while read -r library; do cp -n --parents -L "$library" "$root"; done < <(ldd "$file" 2>/dev/null | grep -oE '/[^ ]+\.so[^ ]*' || true)
  done
}
mkdir -p "$root"/{proc,dev/shm,tmp,bin,usr/bin,lib64,place}
mapfile -t programs < <(dpkg -L bash coreutils tar gzip | grep -E '^(/usr)?/bin/' | while read -r file; do if [[ -f $file ]]; then echo "$file"; fi; done)
mapfile -t c_library < <(dpkg -L libc6 | grep -E '/lib[a-z_]+\.so\.[0-9]+$')
add "${programs[@]}" "$(command -v getconf)" "${c_library[@]}" /lib64/ld-linux-x86-64.so.2
ln -sfn bash "$root/bin/sh"
ln -s /proc/self/fd "$root/dev/fd"
for device in null zero urandom; do cp -a "/dev/$device" "$root/dev/"; done
ln "$bundle"/* "$root/place/" 2>/dev/null || cp "$bundle"/* "$root/place/"
echo "== an empty root of $(du -sh --exclude=place "$root" | cut -f 1)"

started=$SECONDS code=0
# shellcheck disable=SC2016  # expanded inside
env -i unshare --mount --net --pid --fork --propagation private /bin/bash -euc '
  PATH=/usr/sbin:/usr/bin:/sbin:/bin
  ip link set lo up
  mount -t proc proc "$1/proc"
  mount -t tmpfs tmpfs "$1/dev/shm"
  exec env -i /usr/sbin/chroot "$1" /bin/bash -euc "
    cd /
    bash /place/unpack.sh /trireme
    bash /trireme/scripts/gpu_check.sh $2 --out /results"' - "$root" "$call" || code=$?
echo "== unpacked and ran in $((SECONDS - started)) s, $(du -sh "$root/trireme" | cut -f 1) unpacked, exit code $code"
report=$root/results/report.md
grep -q 'no driver' "$report" || { echo "error: the report does not say that there is no driver" >&2; exit 1; }
[[ $code -eq 2 ]] || { echo "error: exit code $code instead of 2 (no GPU)" >&2; exit 1; }
for claim in 'the program starts on this machine' "it trains on this machine's CPU" 'two ranks find each other'; do
  if [[ $call == basics ]] && ! grep -F "$claim" "$report" | grep -q '| proved |'; then
    grep -F "$claim" "$report" >&2
    exit 1
  fi
done
grep -m 1 'proved,' "$report"
