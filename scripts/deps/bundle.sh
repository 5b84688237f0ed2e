# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by install_deps.sh: transfers all dependencies to a machine without network and root.
#
# A bundle is a directory with tar files and checksums. The target needs the same kind of processor, a C library as new
# as here, bash, tar, gzip, coreutils, and python3 for some scripts; also g++ >= 12 unless the bundle has the toolchain.
# The bundle has everything else: libraries, headers, Open MPI, CMake, Ninja, pkg-config.

# Packages that every system has, and system administration. The compiler has a separate tree.
bundle_leaves_out='^(libc6|libc-|libcrypt|linux-libc-|libgcc-s1|libstdc\+\+6|gcc-.*-base|dpkg|tar|debconf|perl|adduser|passwd|libpam|libaudit|libsemanage|libselinux|openssh|debianutils|lib(nsl|tirpc)|rpcsvc|libjs-|install-info|sensible-utils)'
bundle_is_compiler='^(gcc|g\+\+|cpp|gfortran|binutils|libbinutils|libctf|libsframe|libgprofng|libisl|libmpc|libmpfr|libcc1|libitm|lib[alt]san|libubsan|libhwasan|libquadmath|libgcc-[0-9]|libstdc\+\+-|libgfortran-)'
# The C library and its headers belong to the compiler's tree, which is its --sysroot.
toolchain_leaves_out='^(dpkg|tar|debconf|perl|adduser|passwd|libpam|libaudit|libsemanage|debianutils|install-info)'

# closure PACKAGE...: the packages and all their dependencies, as if nothing were installed.
closure() {
  : >"$stage/empty"
  mkdir -p "$stage/archives/partial"
  apt-get -o Dir::State::status="$stage/empty" -o Dir::Cache::archives="$stage/archives" -o Debug::NoLocking=1 \
    install --print-uris -qq -y --no-install-recommends "$@" | sed -n "s/^'[^']*' \([^_]*\)_.*/\1/p"
}

# unpack_packages DIR PACKAGE...: downloads and unpacks without installing.
unpack_packages() {
  local tree=$1 file
  shift
  mkdir -p "$tree" "$stage/debs"
  (cd "$stage/debs" && run_quietly "apt-get download of $# packages" apt-get download -o APT::Sandbox::User=root "$@")
  for file in "$stage"/debs/*.deb; do dpkg-deb -x "$file" "$tree"; done
  rm -rf -- "$stage/debs"
  # Makes absolute links relative to the tree.
  find "$tree" -type l -lname '/*' -print0 | while IFS= read -r -d '' file; do
    ln -sfnr "$tree$(readlink "$file")" "$file"
  done
}

# fit_system TREE: does the packages' post-installation, and makes paths relative to the tree.
fit_system() {
  local tree=$1 file name
  find "$tree" -path '*/pkgconfig/*.pc' -type f | while read -r file; do
    # The directories between pkgconfig and usr.
    local up
    up=$(realpath --relative-to="$(dirname "$file")" "$tree/usr")
    # shellcheck disable=SC2016  # pkg-config's variable
    sed -i "s#=/usr#=\${pcfiledir}/$up#; s#\(-[IL]\)/usr#\1\${pcfiledir}/$up#g" "$file"
  done
  mkdir -p "$tree/bin"
  for file in "$tree"/usr/bin/*.openmpi; do
    name=$(basename "$file" .openmpi)
    printf '#!/bin/sh\nexec "$(dirname "$0")/../usr/bin/%s.openmpi" "$@"\n' "$name" >"$tree/bin/$name"
    chmod +x "$tree/bin/$name"
  done
  for name in pkgconf pkg-config; do
    if [[ -e $tree/usr/bin/pkgconf ]]; then ln -sfn ../usr/bin/pkgconf "$tree/bin/$name"; fi
  done
  rm -rf -- "$tree/usr/share/doc" "$tree/usr/share/man" "$tree/usr/share/locale"
}

# fit_toolchain TREE: makes compilers use the tree's headers, libraries and helpers at any place.
fit_toolchain() {
  local tree=$1 file name version
  version=$(basename "$(find "$tree/usr/bin" -name 'g++-[0-9]*' -print -quit)")
  version=${version##*-}
  mkdir -p "$tree/bin" "$tree/helpers"
  # Libraries of the compiler's programs, without the C library, which must be the machine's.
  find "$tree/usr/lib" "$tree/lib" -maxdepth 2 \( -name 'lib*.so.[0-9]*' -o -name 'lib*-[0-9]*.so' \) \
    ! -name 'lib*san.so*' | while read -r file; do
    case $(basename "$file") in
      libc.* | libm.* | libmvec.* | libpthread.* | libdl.* | librt.* | libresolv.* | libnss_* | libanl.* | libutil.* | libBroken* | libnsl.* | libthread_db.* | libmemusage* | libpcprofile* | libc_malloc*) ;;
      *) ln -sfnr "$file" "$tree/helpers/" ;;
    esac
  done
  # shellcheck disable=SC2016  # variables of the scripts that this writes
  for name in gcc g++ cpp gcc-ar ar as ld nm objcopy objdump ranlib readelf strip; do
    local program=$name options=''
    case $name in
      gcc | g++ | cpp) program=$name-$version options=' --sysroot="$tree"' ;;
      gcc-ar) program=$name-$version ;;
    esac
    printf '#!/bin/sh\ntree=$(cd "$(dirname "$0")/.." && pwd)\nexport LD_LIBRARY_PATH="$tree/helpers${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"\nexport PATH="$tree/bin:$PATH"\nexec "$tree/usr/bin/%s"%s "$@"\n' \
      "$program" "$options" >"$tree/bin/$name"
    chmod +x "$tree/bin/$name"
  done
  rm -rf -- "$tree/usr/share/doc" "$tree/usr/share/man" "$tree/usr/share/locale"
}

# make_tools TREE: CMake and Ninja from wheels, programs without dependencies.
make_tools() {
  local tree=$1 name file
  pip_install "$tree" "cmake>=$minimum_cmake,<4" ninja
  rm -rf -- "$tree/bin.wheels"
  if [[ -d $tree/bin ]]; then mv "$tree/bin" "$tree/bin.wheels"; fi
  mkdir "$tree/bin"
  for name in cmake ctest ninja; do
    file=$(find "$tree" -path "*/data/bin/$name" -o -path "*/bin.wheels/$name" | sort -r | head -n 1)
    [[ -n $file ]] || die "the wheels hold no $name"
    ln -sfnr "$file" "$tree/bin/$name"
  done
}

pack_tree() { run_quietly "packing $1" tar -C "$stage" -czf "$bundle/$1.tar.gz" "$1"; }

# make_bundle DIR: writes the bundle; $cuda and $toolchain add parts.
make_bundle() {
  bundle=$1
  [[ ! -e $bundle || -z $(ls -A -- "$bundle") ]] || die "--bundle $bundle: is not empty"
  command -v apt-get >/dev/null || die "--bundle needs apt-get, to find and download packages"
  mkdir -p -- "$bundle"
  bundle=$(cd -- "$bundle" && pwd)
  stage=$(mktemp -d "$bundle/stage.XXXXXX")
  trap 'rm -rf -- "$stage"' EXIT

  local need name
  choose "${needs[@]}" || die "the package lists know no '$unknown'; run apt-get update as root first"
  mapfile -t packages < <(closure "${chosen[@]}" | grep -vE "$bundle_leaves_out" | grep -vE "$bundle_is_compiler")
  # apt's failure inside a pipe is invisible: a closure has at least the requested packages.
  [[ ${#packages[@]} -ge ${#chosen[@]} ]] || die "apt-get cannot resolve ${chosen[*]}"
  say "${#packages[@]} packages of libraries, headers and tools"
  unpack_packages "$stage/system" "${packages[@]}"
  fit_system "$stage/system"
  pack_tree system
  make_tools "$stage/tools"
  pack_tree tools
  local compiler=()
  if $toolchain; then
    mapfile -t compiler < <(closure g++ libc6-dev | grep -vE "$toolchain_leaves_out")
    [[ ${#compiler[@]} -ge 2 ]] || die "apt-get cannot resolve g++"
    unpack_packages "$stage/toolchain" "${compiler[@]}"
    fit_toolchain "$stage/toolchain"
    pack_tree toolchain
  fi
  local wheels=() line
  if $cuda; then
    wheels=("${cuda_toolkit_wheels[@]}")
    for line in "${cuda_library_wheels[@]}"; do wheels+=("${line#* }"); done
    make_cuda_tree "$stage/cuda" "${wheels[@]}"
    pack_tree cuda
  fi
  {
    printf 'trireme-bundle 1\nmachine %s\nglibc %s\nfrom %s\n' "$(uname -m)" "$(glibc_version)" \
      "$(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release)"
    for name in "${packages[@]}" "${compiler[@]+"${compiler[@]}"}" "${wheels[@]+"${wheels[@]}"}"; do echo "holds $name"; done
  } >"$bundle/manifest.txt"
  (cd "$bundle" && sha256sum manifest.txt ./*.tar.gz >SHA256SUMS)
  say "bundle of $(du -sh --exclude='stage.*' "$bundle" | cut -f1) in $bundle; on the other machine: scripts/install_deps.sh --from DIR"
}

glibc_version() { getconf GNU_LIBC_VERSION | awk '{ print $2 }'; }

# unpack_bundle DIR: checks a bundle and unpacks it into $prefix.
unpack_bundle() {
  local from=$1 machine glibc part
  [[ -f $from/manifest.txt && -f $from/SHA256SUMS ]] || die "--from $from: is no bundle; --bundle DIR makes one"
  (cd "$from" && run_quietly "checking the bundle" sha256sum --check --quiet SHA256SUMS) || die "--from $from: the bundle is damaged; copy it again"
  machine=$(awk '$1 == "machine" { print $2 }' "$from/manifest.txt")
  glibc=$(awk '$1 == "glibc" { print $2 }' "$from/manifest.txt")
  [[ $machine == "$(uname -m)" ]] || die "--from $from: made for $machine, and this machine is $(uname -m)"
  at_least "$(glibc_version)" "$glibc" || die "--from $from: made with C library $glibc, and this machine has $(glibc_version); make
  the bundle on a machine with the same or an older distribution"
  mkdir -p "$prefix" || die "$prefix: cannot be made; choose another with --prefix"
  for part in system tools toolchain cuda; do
    [[ -f $from/$part.tar.gz ]] || continue
    rm -rf -- "${prefix:?}/$part"
    run_quietly "unpacking $part" tar -C "$prefix" -xzf "$from/$part.tar.gz"
  done
  link_missing_libraries
  write_environment
  say "all is in $prefix. The scripts here find it; in a shell of yours first: source $prefix/env.sh"
}

# Links only to libraries of the bundle that this machine lacks, including the compiler's two. Otherwise the machine's
# programs would load ours.
link_missing_libraries() {
  local file name directory=$prefix/system/libraries versions
  local -A present=()
  while read -r name; do present[$name]=1; done < <(PATH=$PATH:/sbin:/usr/sbin ldconfig -p |
    awk '/\(libc6,[a-zA-Z]/ { print $1 }')
  rm -rf -- "$directory"
  mkdir "$directory"
  while read -r file; do
    # Some packages create libx.so.1 for libx.so.1.16 only at installation.
    name=${file##*/} versions=${file##*.so.}
    for name in "${name%%.so.*}.so.${versions%%.*}" "$name"; do
      if [[ -z ${present[$name]:-} && ! -e $directory/$name ]]; then ln -snr "$file" "$directory/$name"; fi
    done
  done < <(
    find "$prefix"/system/usr/lib "$prefix"/system/lib -name 'lib*.so.[0-9]*' 2>/dev/null
    find "$prefix"/toolchain/helpers -name 'libstdc++.so.6' -o -name 'libgcc_s.so.1' 2>/dev/null
  )
}
