#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks the pieces beside this script and reports missing ones. Part of a bundle of scripts/gpu_check.sh; needs bash,
# coreutils, tar and gzip.
#
#   bash unpack.sh PLACE      then: PLACE/scripts/gpu_check.sh list
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
place=${1:-}
[[ -n $place && $place != -* ]] || {
  echo "which directory? bash unpack.sh PLACE" >&2
  exit 2
}
made_with=@glibc@
have=$(getconf GNU_LIBC_VERSION 2>/dev/null || true)
have=${have##* }
if [[ -n $have && $(printf '%s\n%s\n' "$made_with" "$have" | sort -V | head -n 1) != "$made_with" ]]; then
  echo "error: made with C library $made_with, and this machine has $have" >&2
  exit 1
fi

mkdir -p "$place"
place=$(cd "$place" && pwd)
cd "$here"
# Python first: the bundled one replaces xz if that is missing.
unpack() {
  local part=$1 python
  sha256sum --quiet --check < <(while read -r sum name; do if [[ $name == "$part".tar.* ]]; then printf '%s  %s\n' "$sum" "$name"; fi; done <SHA256SUMS) || {
    echo "error: a piece of $part is missing or damaged" >&2
    exit 1
  }
  if compgen -G "$part.tar.gz.*" >/dev/null; then
    cat "$part".tar.gz.* | gzip -dc
  elif command -v xz >/dev/null; then
    cat "$part".tar.xz.* | xz -dc
  else
    python=$(command -v python3) || python=$place/python/bin/python3
    cat "$part".tar.xz.* | "$python" -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.stdin.buffer), sys.stdout.buffer, 1 << 20)'
  fi | tar -xf - -C "$place" --strip-components=1
}
parts=()
for first in python.tar.gz.00 *.tar.?z.00; do
  part=${first%.tar.*}
  if [[ -e $first && " ${parts[*]} " != *" $part "* ]]; then
    unpack "$part"
    parts+=("$part")
  fi
done
echo "unpacked: ${parts[*]}"
[[ -x $place/build/cuda/trireme ]] || {
  echo "error: the piece core is missing" >&2
  exit 1
}

# Libraries that are not in the pieces: from PyTorch's packages, a toolkit, or the system.
libraries=$place/build/cuda/cuda
places=(/usr/local/cuda/lib64 /usr/local/cuda/lib /usr/lib/x86_64-linux-gnu)
if command -v python3 >/dev/null; then
  while read -r directory; do places=("$directory" "${places[@]}"); done < <(python3 -c '
import glob, site, sys
for root in {*site.getsitepackages(), *sys.path}:
    print("\n".join(sorted(glob.glob(root + "/nvidia/*/lib"))))' 2>/dev/null)
fi
missing=()
for name in libcudart.so.13 libcublasLt.so.13 libnccl.so.2 libcudnn.so.9 libcudnn_graph.so.9 libcudnn_ops.so.9 libcudnn_cnn.so.9 libcudnn_adv.so.9 \
  libcudnn_heuristic.so.9 libcudnn_engines_runtime_compiled.so.9 libcudnn_engines_precompiled.so.9 libcudnn_engines_tensor_ir.so.9 libcudnn_ext.so.9 \
  libnvrtc.so.13 libnvrtc-builtins.so.13.0; do
  if compgen -G "$libraries/$name*" >/dev/null; then continue; fi
  for directory in "${places[@]}"; do
    # An older cuDNN lacks this part, and the parts of two versions do not go together.
    if [[ $name == libcudnn* && ! -e $directory/libcudnn_engines_tensor_ir.so.9 ]]; then continue; fi
    if [[ -e $directory/$name ]]; then
      ln -sfn "$directory/$name" "$libraries/$name"
      echo "found: $directory/$name"
      continue 2
    fi
  done
  missing+=("$name")
done
if [[ ${#missing[@]} -gt 0 ]]; then echo "missing: ${missing[*]}; bring the pieces cuda_*"; fi
if ! command -v python3 >/dev/null && [[ ! -x $place/python/bin/python3 ]]; then echo "missing: python3; bring the piece python"; fi
said=$("$place/build/cuda/trireme" --version 2>&1) || {
  echo "error: the program does not start: $said" >&2
  exit 1
}
echo "$said"
echo "next: $place/scripts/gpu_check.sh list"
