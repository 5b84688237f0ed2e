# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by install_deps.sh: the directory that holds what no package manager installed. $prefix/cuda is a CUDA toolkit;
# $prefix/system, tools and toolchain come from a bundle. $prefix/env.sh makes a shell use all of it.

# write_environment: the same text whatever is there; it looks when it is sourced, so a prefix may grow and be moved.
write_environment() {
  mkdir -p "$prefix"
  cat >"$prefix/env.sh" <<'END'
# Written by scripts/install_deps.sh of Trireme; source it from bash. The directory may be moved.
trireme_here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# trireme_prepend VARIABLE DIRECTORY: once, and only a directory that exists.
trireme_prepend() {
  local old=${!1:-}
  if [[ -d $2 && :$old: != *:$2:* ]]; then export "$1=$2${old:+:$old}"; fi
}

trireme_prepend PATH "$trireme_here/toolchain/bin"
trireme_prepend PATH "$trireme_here/tools/bin"

trireme_prepend CMAKE_PREFIX_PATH "$trireme_here/cuda"
if [[ -x $trireme_here/cuda/bin/nvcc ]]; then
  trireme_prepend PATH "$trireme_here/cuda/bin"
  export CUDACXX=$trireme_here/cuda/bin/nvcc CUDAToolkit_ROOT=$trireme_here/cuda
fi
# CMake gives programs no path to the libraries that lie beside nvcc. LD_LIBRARY_PATH would: to PyTorch too, which brings
# its own versions.
if [[ -d $trireme_here/cuda/lib && ${LDFLAGS:-} != *$trireme_here/cuda/lib* ]]; then
  export LDFLAGS="-Wl,-rpath,$trireme_here/cuda/lib${LDFLAGS:+ $LDFLAGS}"
fi

if [[ -d $trireme_here/system ]]; then
  trireme_triplet=$(uname -m)-linux-gnu
  trireme_usr=$trireme_here/system/usr
  trireme_prepend PATH "$trireme_here/system/bin"
  # Libraries that the machine lacks, and no others: its own programs keep their own.
  trireme_prepend LD_LIBRARY_PATH "$trireme_here/system/libraries"
  trireme_prepend CMAKE_PREFIX_PATH "$trireme_usr"
  trireme_prepend PKG_CONFIG_PATH "$trireme_usr/share/pkgconfig"
  trireme_prepend PKG_CONFIG_PATH "$trireme_usr/lib/$trireme_triplet/pkgconfig"
  # The compiler of a system that keeps its libraries elsewhere, and headers that no CMake package names.
  trireme_prepend CPATH "$trireme_usr/include/$trireme_triplet"
  trireme_prepend CPATH "$trireme_usr/include"
  trireme_prepend LIBRARY_PATH "$trireme_usr/lib/$trireme_triplet"
  # For what our libraries need of each other when a program is linked, also where a --sysroot hides the machine's own.
  if [[ ${LDFLAGS:-} != *$trireme_here/system* ]]; then
    LDFLAGS="${LDFLAGS:+$LDFLAGS }-Wl,-rpath-link,$trireme_usr/lib/$trireme_triplet:$trireme_here/system/lib/$trireme_triplet"
    export LDFLAGS
  fi
  # Where Open MPI and PMIx look for their own parts.
  export OPAL_PREFIX=$trireme_usr PMIX_PKGLIBDIR=$trireme_usr/lib/$trireme_triplet/pmix2/lib/pmix
  export PMIX_PKGDATADIR=$trireme_usr/lib/$trireme_triplet/pmix2/share/pmix
  # It starts no job on a machine without ssh, not even one that stays there.
  if ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
    export OMPI_MCA_plm_rsh_agent=${OMPI_MCA_plm_rsh_agent:-false}
  fi
  unset trireme_triplet trireme_usr
fi
unset -f trireme_prepend
unset trireme_here
END
}
