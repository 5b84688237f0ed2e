#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs README's two commands in a clean clone of HEAD in an empty root of a Debian or Ubuntu release, to see what a
# newcomer sees. Needs root, debootstrap, git and a mirror; 77 if one is missing. A quarter of an hour, and the tests' time.
#
#   scripts/fresh_system.sh SUITE [--user] [--keep DIR] [--mirror URL] [--put DIR] [--run COMMAND]
#
#   SUITE           bookworm, trixie, jammy, noble: a release that debootstrap knows
#   --user          as a user with sudo instead of root
#   --keep DIR      keeps the root there and uses it again, with its packages and compiled files
#   --mirror URL    source of packages (default: that of this machine's apt if it has SUITE, else debootstrap's)
#   --put DIR       copies a directory to /put in the root
#   --run COMMAND   runs this instead, in the clone (default: scripts/quickstart.sh && scripts/test.sh)
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

words=() user=false keep='' mirror='' put='' run='scripts/quickstart.sh && scripts/test.sh'
read_options "--keep --mirror --put --run" "--user WORDS" "$@"
[[ ${#words[@]} -eq 1 ]] || die "one SUITE is needed, for example trixie; see scripts/fresh_system.sh --help"
suite=${words[0]}
skip() {
  say "skipped: $*"
  exit 77
}
[[ $(id -u) == 0 ]] || skip "a root directory of its own needs root"
command -v debootstrap >/dev/null || skip "there is no debootstrap (apt-get install debootstrap)"
[[ -e /usr/share/debootstrap/scripts/$suite ]] || skip "this debootstrap does not know $suite"
unshare --mount --pid --fork true 2>/dev/null || skip "this system permits no namespaces of one's own (unshare --mount --pid)"
family=debian components=main
if [[ $suite == jammy || $suite == noble ]]; then family=ubuntu components=main,universe; fi
if [[ -z $mirror ]] && grep -qx "ID=$family" /etc/os-release; then
  # shellcheck disable=SC2016  # apt's variable
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | head -n 1) || true
fi
root=${keep:-$(mktemp -d "${TMPDIR:-/tmp}/trireme-$suite.XXXXXX")}
mkdir -p -- "$root" || die "--keep $keep: cannot be created"
root=$(realpath -- "$root")
# All mounts are in namespaces that have ended by then; nothing is removed through a mount all the same.
if [[ -z $keep ]]; then trap 'findmnt -R "$root" >/dev/null || rm -rf --one-file-system -- "$root"' EXIT; fi

if [[ ! -x $root/usr/bin/git ]]; then
  run_quietly "debootstrap $suite" unshare --mount --propagation private \
    debootstrap --variant=minbase --components="$components" --include=ca-certificates,git,sudo "$suite" "$root" ${mirror:+"$mirror"} ||
    skip "no root of $suite; is its mirror in reach?"
fi
name=root home=/root
if $user; then
  name=newcomer home=/home/newcomer
  chroot "$root" id "$name" >/dev/null 2>&1 || chroot "$root" useradd --create-home --shell /bin/bash "$name"
  echo "$name ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/$name"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
printf '127.0.0.1 localhost\n127.0.1.1 %s\n' "$(hostname)" >"$root/etc/hosts"  # as an installer writes it
rm -rf -- "${root:?}$home/trireme" "$root/put"
git clone --quiet --no-hardlinks "$repository" "$root$home/trireme"
if [[ -n $put ]]; then cp -r -- "$put" "$root/put"; fi
chroot "$root" chown -R "$name" "$home/trireme"

say "$suite, as $name: $run"
# Processes and mounts end with the namespace.
# shellcheck disable=SC2016  # expanded inside
unshare --mount --pid --fork --kill-child --propagation private bash -euc '
  root=$1 name=$2 run=$3
  mount --bind "$root" "$root"  # network namespaces of tests want / to be a mount
  mount -t proc proc "$root/proc"
  mount --rbind /sys "$root/sys"
  mkdir -p "$root/dev/shm" "$root/dev/pts"
  mount -t tmpfs tmpfs "$root/dev/shm"
  mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
  exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}" LANG=C.UTF-8 ${CI:+CI="$CI"} \
    chroot "$root" su "$name" -c "cd ~/trireme && $run"' - "$root" "$name" "$run" </dev/null
