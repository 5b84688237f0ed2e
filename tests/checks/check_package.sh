#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs cpack's package in a new, minimal root of this system's release, and trains the quickstart's configs there for some
# steps each. Needs root, debootstrap and a mirror; 77 if one is missing. About 3 minutes once built.
#
#   tests/checks/check_package.sh [--build DIR] [--keep DIR] [--mirror URL]
#
#   --build DIR    a build without CUDA (default: build/package, made from preset package)
#   --keep DIR     keeps the packages and the root there
#   --mirror URL   source of packages (default: that of this machine's apt)
# The test build_package is the short form, without a root.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

build='' keep='' mirror=''
read_options "--build --keep --mirror" "" "$@"
command -v dpkg-shlibdeps >/dev/null || {
  say "skipped: there is no dpkg-shlibdeps (apt-get install dpkg-dev)"
  exit 77
}
make_work package
if [[ -z $build ]]; then
  build=$repository/build/package
  use_tools
  if [[ ! -f $build/build.ninja ]]; then (cd "$repository" && run_quietly "cmake --preset package" cmake --preset package); fi
  run_quietly "compiling" cmake --build "$build"
fi
build=$(cd "$build" && pwd) || die "--build: there is no such directory"
(cd "$build" && run_quietly "cpack" cpack -G DEB -B "$work/packages")
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
"$repository/scripts/fresh_system.sh" "$release" ${mirror:+--mirror "$mirror"} ${keep:+--keep "$work/root"} --put "$work/packages" --run '
  set -euo pipefail
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends /put/trireme_*.deb
  bash tests/build/run_installed.sh /usr /tmp/runs | tail -n 40
  apt-get purge -y -qq trireme
  ! ls -d /usr/bin/trireme /usr/share/trireme 2>/dev/null'
say "$(basename "$work"/packages/trireme_*.deb) installs on $release and trains there"
