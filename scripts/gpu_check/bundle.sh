#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Packs gpu_check for a machine with only an NVIDIA driver, bash, coreutils, tar and gzip: no packages, no network, no
# compiler, no MPI. For x86-64-v3 (AVX2) processors and a C library as new as this machine's.
#
#   scripts/gpu_check.sh bundle DIR [--build BUILD] [--piece MIB]
#
#   --build BUILD   uses this build (default: makes build/bundle, preset release for compute capability 9.0)
#   --piece MIB     maximum size of a piece (default: 60)
#
# On the target, with all pieces and unpack.sh in one directory: bash unpack.sh PLACE && PLACE/scripts/gpu_check.sh
# basics --out results The pieces of core are always needed; cuda_* only without CUDA 13, cuDNN 9 and NCCL 2 (PyTorch
# brings them), python only without python3. unpack.sh reports the source of each part, and missing ones.
set -euo pipefail
# shellcheck source=scripts/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

words=() build='' piece=60
read_options "--build --piece" WORDS "$@"
[[ ${#words[@]} -eq 1 ]] || die "which directory? scripts/gpu_check.sh bundle DIR"
out=$(realpath -m -- "${words[0]}")
[[ ! -e $out || -z $(ls -A -- "$out") ]] || die "$out: is not empty"
[[ $piece =~ ^[1-9][0-9]*$ ]] || die "--piece $piece: is not a number of MiB"
if [[ -n $build ]]; then build=$(realpath -m -- "$build"); fi
cd "$repository"
# The directory of a CUDA library: the first that has it.
cuda_library() {
  local directory
  for directory in "$trireme_prefix/cuda/lib" /usr/local/cuda/lib64 /usr/local/cuda/lib; do
    if compgen -G "$directory/$1" >/dev/null; then
      printf '%s\n' "$directory"
      return
    fi
  done
  return 1
}

# Programs that gpu_check runs, by test name: a test that is not built has only a name.
test_programs() {
  python3 - "$1" <<'END'
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    names = {test["name"] for test in json.load(file)["tests"]}
print("\n".join(sorted({name.partition(".")[0] for name in names if name.endswith(".cuda")} | {"base_test"})))
END
}

if [[ -z $build ]]; then
  build=$repository/build/bundle
  use_tools
  say "building for x86-64-v3 and compute capability 9.0 in $build"
  run_quietly "cmake --preset release" cmake --preset release -B "$build" -DCMAKE_CUDA_ARCHITECTURES=90
fi
stage=$(mktemp -d "${TMPDIR:-/tmp}/trireme-bundle.XXXXXX")
trap 'rm -rf -- "$stage"' EXIT
ctest --test-dir "$build" --show-only=json-v1 >"$stage/ctest.json"
mapfile -t tests < <(test_programs "$stage/ctest.json")
[[ ${#tests[@]} -gt 5 ]] || die "$build has no tests for a GPU; is it a build with TRIREME_CUDA?"
run_quietly "cmake --build" cmake --build "$build" -j "${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}" --target trireme "${tests[@]}"
ctest --test-dir "$build" --show-only=json-v1 >"$stage/ctest.json"

# Each part is a separate tree; all are unpacked over each other.
core=$stage/core/trireme
mkdir -p "$core/build/cuda"/{lib,cuda,programs,tests}

# add_program FILE PLACE: stripped, behind a script that sets the path of our libraries for it alone.
add_program() {
  local name=${1##*/}
  strip -o "$core/build/cuda/programs/$name" "$1"
  # shellcheck disable=SC2016  # variables of the script that this writes
  printf '#!/usr/bin/env bash\nhere=$(cd "$(dirname "${BASH_SOURCE[0]}")/%s" && pwd)\nLD_LIBRARY_PATH=$here/lib:$here/cuda${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/programs/%s" "$@"\n' \
    "$([[ $2 == . ]] && echo . || echo ..)" "$name" >"$core/build/cuda/$2/$name"
  chmod +x "$core/build/cuda/$2/$name"
}

# A program's libraries, without the C library, the driver's and CUDA's.
libraries_of() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libresolv|libutil|libcuda|libcudart|libcublasLt|libnccl|libcudnn)\.so' || true
}

say "packing the program"
add_program "$build/trireme" .
for name in "${tests[@]}"; do add_program "$build/tests/$name" tests; done
mapfile -t files < <(libraries_of "$build/trireme" "${tests[@]/#/$build/tests/}")
for file in "${files[@]}"; do cp -L "$file" "$core/build/cuda/lib/"; done
# The test list of ctest, with paths relative to the tree.
sed -e "s#$build#{build}#g" -e "s#$repository#{source}#g" "$stage/ctest.json" >"$core/build/cuda/ctest.json"
git ls-files -z -- scripts launch configs LICENSE README.md | tar -cf - --null -T - | tar -C "$core" -xf -
git describe --always --dirty --abbrev=12 >"$core/revision.txt"
glibc=$(ldd --version | awk 'NR == 1 { print $NF }')

# A self-contained Python: it finds its library beside itself.
system_python=$(realpath /usr/bin/python3)
version=$("$system_python" -c 'import sys; print(f"python{sys.version_info[0]}.{sys.version_info[1]}")')
snake=$stage/python/trireme/python
mkdir -p "$snake/bin" "$snake/lib/libraries"
cp -L "$system_python" "$snake/bin/$version"
tar -C "$(dirname "$("$system_python" -c 'import os; print(os.__file__)')")/.." --exclude=__pycache__ --exclude='config-*' --exclude=idlelib \
  --exclude=ensurepip --exclude=lib2to3 --exclude=test --exclude=tkinter -chf - "$version" | tar -C "$snake/lib" -xf -
mapfile -t files < <(libraries_of "$snake/bin/$version" "$snake/lib/$version"/lib-dynload/*.so)
for file in "${files[@]}"; do cp -L "$file" "$snake/lib/libraries/"; done
# shellcheck disable=SC2016  # variables of the script that this writes
printf '#!/usr/bin/env bash\nhere=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)\nLD_LIBRARY_PATH=$here/lib/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$here/bin/%s" "$@"\n' \
  "$version" >"$snake/bin/python3"
chmod +x "$snake/bin/python3"

# Each of CUDA's libraries is a separate part: a machine may have some of them. cuDNN loads its parts, and nvrtc, when
# needed.
parts=(core python)
for name in cudart cublasLt nccl nvrtc nvrtc-builtins cudnn cudnn_graph cudnn_ops cudnn_cnn cudnn_adv cudnn_heuristic cudnn_engines_runtime_compiled cudnn_engines_precompiled \
  cudnn_engines_tensor_ir cudnn_ext; do
  part=cuda_${name%-builtins}
  directory=$(cuda_library "lib$name.so.*") || die "lib$name.so is in none of the places where CUDA is looked for"
  mkdir -p "$stage/$part/trireme/build/cuda/cuda"
  file=$(realpath "$(compgen -G "$directory/lib$name.so.*" | head -n 1)")
  # Under the name that programs load.
  cp "$file" "$stage/$part/trireme/build/cuda/cuda/$(readelf -d "$file" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')"
  [[ " ${parts[*]} " == *" $part "* ]] || parts+=("$part")
done

mkdir -p "$out"
for part in "${parts[@]}"; do
  # The programs contain the same kernels many times: only a dictionary larger than a program detects that.
  how=(gz gzip -6)
  if [[ $part == core ]]; then how=(xz xz -T1 "--lzma2=preset=1,dict=96MiB"); fi
  # shellcheck disable=SC2016  # expanded inside
  run_quietly "packing $part" bash -c 'set -o pipefail; tar -C "$1" --owner=0 --group=0 -cf - trireme | "${@:4}" | split -d -a 2 -b "$2"M - "$3"' \
    - "$stage/$part" "$piece" "$out/$part.tar.${how[0]}." "${how[@]:1}"
done
sed "s/@glibc@/$glibc/" scripts/gpu_check/unpack.sh >"$out/unpack.sh"
(cd "$out" && sha256sum -- *.tar.?z.* >SHA256SUMS)
say "$(find "$out" -name '*.tar.?z.*' | wc -l) pieces of at most $piece MiB, $(du -shc "$out"/core.tar.* | tail -n 1 | cut -f 1) for program and tests, $(du -sh "$out" | cut -f 1) in all, in $out"
