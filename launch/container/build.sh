#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds Trireme inside an image, into /opt/trireme: bin/, launch/, configs/, and the list of packages that the program
# needs at run time. Called by the Dockerfile and trireme.def:
#
#   build.sh cpu|cuda SOURCE
#
# For processors with AVX2 and, for cuda, GPUs from Ampere on (preset release).
set -euo pipefail

variant=$1 source=$2 target=/opt/trireme
cd "$source"
preset=package
if [[ $variant == cuda ]]; then
  apt-get install -y --no-install-recommends python3-venv
  # The program finds CUDA's libraries by its rpath.
  scripts/install_deps.sh --cuda --prefix "$target/prefix"
  export CUDACXX=$target/prefix/cuda/bin/nvcc
  preset=release
else
  scripts/install_deps.sh
fi
cmake --preset "$preset" -B /tmp/build -DTRIREME_BUILD_TESTS=OFF -DTRIREME_INSTALL_DATADIR=.
cmake --build /tmp/build -j "$(nproc)" --target trireme
cmake --install /tmp/build --prefix "$target" --component runtime

# Needed only for compiling.
rm -rf "$target"/prefix/cuda/{bin,include,nvvm}
find "$target" -name '*.a' -delete

# Packages that own the shared libraries.
ldd /tmp/build/trireme | awk '/=> \// { print $3 }' | while read -r library; do
  file=$(basename "$(realpath "$library")")
  dpkg -S "*/$(uname -m)-linux-gnu/$file" 2>/dev/null | cut -d: -f1 || true
done | sort -u >"$target/packages"
# mpirun; ssh, with which it reaches other hosts and Kubeflow's operator reaches this one; tools that launch/ calls.
printf '%s\n' openmpi-bin openssh-client openssh-server procps >>"$target/packages"
