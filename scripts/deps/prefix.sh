# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by install_deps.sh: the directory of dependencies without a package manager. $prefix/cuda is a CUDA toolkit;
# $prefix/system, tools and toolchain come from a bundle. $prefix/env.sh makes a shell use all of it.

# write_environment: the text does not depend on the content; it checks when sourced, so a prefix may grow and be moved.
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
# CMake sets no path for programs to the libraries beside nvcc. LD_LIBRARY_PATH would also affect PyTorch, which brings
# its own versions.
if [[ -d $trireme_here/cuda/lib && ${LDFLAGS:-} != *$trireme_here/cuda/lib* ]]; then
  export LDFLAGS="-Wl,-rpath,$trireme_here/cuda/lib${LDFLAGS:+ $LDFLAGS}"
fi

if [[ -d $trireme_here/system ]]; then
  trireme_triplet=$(uname -m)-linux-gnu
  trireme_usr=$trireme_here/system/usr
  trireme_prepend PATH "$trireme_here/system/bin"
  # Only libraries that the machine lacks: its programs keep their own.
  trireme_prepend LD_LIBRARY_PATH "$trireme_here/system/libraries"
  trireme_prepend CMAKE_PREFIX_PATH "$trireme_usr"
  trireme_prepend PKG_CONFIG_PATH "$trireme_usr/share/pkgconfig"
  trireme_prepend PKG_CONFIG_PATH "$trireme_usr/lib/$trireme_triplet/pkgconfig"
  # For a compiler whose system has libraries elsewhere, and for headers without a CMake package.
  trireme_prepend CPATH "$trireme_usr/include/$trireme_triplet"
  trireme_prepend CPATH "$trireme_usr/include"
  trireme_prepend LIBRARY_PATH "$trireme_usr/lib/$trireme_triplet"
  # For dependencies between our libraries at link time, also if a --sysroot hides the machine's.
  if [[ ${LDFLAGS:-} != *$trireme_here/system* ]]; then
    LDFLAGS="${LDFLAGS:+$LDFLAGS }-Wl,-rpath-link,$trireme_usr/lib/$trireme_triplet:$trireme_here/system/lib/$trireme_triplet"
    export LDFLAGS
  fi
  # For Open MPI and PMIx to find their parts.
  export OPAL_PREFIX=$trireme_usr PMIX_PKGLIBDIR=$trireme_usr/lib/$trireme_triplet/pmix2/lib/pmix
  export PMIX_PKGDATADIR=$trireme_usr/lib/$trireme_triplet/pmix2/share/pmix
  # Without ssh Open MPI starts no job, not even a local one.
  if ! command -v ssh >/dev/null && ! command -v rsh >/dev/null; then
    export OMPI_MCA_plm_rsh_agent=${OMPI_MCA_plm_rsh_agent:-false}
  fi
  unset trireme_triplet trireme_usr
fi
unset -f trireme_prepend
unset trireme_here
END
}
