#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs cpack's package in a new, minimal root of this system's release, and trains the quickstart's configs there for some
# steps each. Needs root, debootstrap and a mirror; 77 if one is missing. About 3 minutes once built.
#
#   scripts/checks/check_package.sh [--build DIR] [--keep DIR] [--mirror URL]
#
#   --build DIR    a build without CUDA (default: build/package, made from preset package)
#   --keep DIR     keeps the packages and the root there
#   --mirror URL   source of packages (default: that of this machine's apt)
# The test build_package is the short form, without a root.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

build='' keep='' mirror=''
read_options "--build --keep --mirror" "" "$@"
skip() {
  say "skipped: $*"
  exit 77
}
[[ $(id -u) == 0 ]] || skip "a root directory of its own needs root"
command -v debootstrap >/dev/null || skip "there is no debootstrap (apt-get install debootstrap)"
command -v dpkg-shlibdeps >/dev/null || skip "there is no dpkg-shlibdeps (apt-get install dpkg-dev)"
unshare --mount true 2>/dev/null || skip "this system permits no mounts of one's own (unshare --mount)"

release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
if [[ -z $mirror ]]; then
  # shellcheck disable=SC2016  # apt's variables
  mirror=$(apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 2>/dev/null | awk -v release="$release" '$2 == release { print $1; exit }')
fi
place=${keep:-$(mktemp -d "${TMPDIR:-/tmp}/trireme-package.XXXXXX")}
mkdir -p "$place"
place=$(cd "$place" && pwd)
# Mounts are made in a namespace that ends before this, except debootstrap's own, which stay if it is killed. Removes
# nothing below a mount.
mounts_below() { findmnt --list --noheadings --output TARGET | grep "^$place/" | sort -r; }
clean_up() {
  if [[ -n $keep ]]; then return; fi
  local mount
  while read -r mount; do umount "$mount" || true; done < <(mounts_below)
  if mounts_below >/dev/null; then
    say "left, for something is mounted below it: $place"
  else
    rm -rf --one-file-system -- "$place"
  fi
}
trap clean_up EXIT

if [[ -z $build ]]; then
  build=$repository/build/package
  use_tools
  if [[ ! -f $build/build.ninja ]]; then (cd "$repository" && run_quietly "cmake --preset package" cmake --preset package); fi
  run_quietly "compiling" cmake --build "$build"
fi
build=$(cd "$build" && pwd) || die "--build: there is no such directory"
(cd "$build" && run_quietly "cpack" cpack -G DEB -B "$place/packages")
run_quietly "debootstrap of $release" debootstrap --variant=minbase "$release" "$place/root" "$mirror" ||
  skip "no root from the mirror $mirror; is it in reach?"
cp "$place"/packages/trireme_*.deb "$place/root/tmp/"
cp "$repository/tests/build/run_installed.sh" "$place/root/tmp/"
cp /etc/resolv.conf "$place/root/etc/resolv.conf"

# shellcheck disable=SC2016  # expanded inside
run_quietly "installing and training in the root" unshare --mount --propagation private bash -euc '
  mount -t proc proc "$1/proc"
  mount -t tmpfs tmpfs "$1/dev/shm" 2>/dev/null || { mkdir -p "$1/dev/shm" && mount -t tmpfs tmpfs "$1/dev/shm"; }
  chroot "$1" bash -euo pipefail -c "
    export DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin
    apt-get update
    apt-get install -y --no-install-recommends /tmp/trireme_*.deb
    bash /tmp/run_installed.sh /usr /tmp/runs | tail -n 40
    apt-get purge -y trireme
    ! ls -d /usr/bin/trireme /usr/share/trireme 2>/dev/null"
' - "$place/root"
say "$(basename "$place"/packages/trireme_*.deb) installs on $release and trains there"
