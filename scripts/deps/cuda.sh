# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced by install_deps.sh: the CUDA toolkit, cuDNN, NCCL and cudnn-frontend from pip's wheels, as one tree that CMake
# finds like an installed toolkit. Versions as in PyTorch 2.11, but for cuDNN's.

minimum_cuda=13.0
cuda_toolkit_wheels=(
  nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96
  nvidia-cuda-cccl==13.0.85 nvidia-cublas==13.1.0.3 nvidia-nvtx==13.0.85 nvidia-cuda-nvrtc==13.0.88
)
# Header that shows that a library is present, and its wheel.
cuda_library_wheels=(
  "cudnn.h nvidia-cudnn-cu13==9.28.1.4" "nccl.h nvidia-nccl-cu13==2.28.9" "cudnn_frontend.h nvidia-cudnn-frontend==1.32.0"
)

# Prints the nvcc of builds, if it is new enough.
find_nvcc() {
  local nvcc version
  for nvcc in "${CUDACXX:-}" "$(command -v nvcc || true)" /usr/local/cuda/bin/nvcc; do
    [[ -x $nvcc ]] || continue
    version=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
    if at_least "${version:-0}" "$minimum_cuda"; then
      printf '%s %s\n' "$nvcc" "$version"
      return 0
    fi
  done
  return 1
}

# As find_nvcc, if NCCL is also beside that toolkit or in the system: preset cuda needs both.
find_toolkit() {
  local found include
  found=$(find_nvcc) || return 1
  include=$(dirname "$(dirname "$(realpath "${found% *}")")")/include
  [[ -n $(find_header nccl.h "$include") ]] || return 1
  printf '%s\n' "$found"
}

# find_header NAME DIR: the path of a header in DIR or the system's directories.
find_header() {
  find -L "$2" /usr/include /usr/local/include -maxdepth 2 -name "$1" -print -quit 2>/dev/null || true
}

# pip_install DIR WHEEL...: unpacks wheels into DIR. cudnn-frontend has wheels for some Pythons only, but only its
# headers are used.
pip_install() {
  local target=$1 pip=(python3 -m pip)
  shift
  command -v python3 >/dev/null || die "python3 is missing, which runs pip"
  if ! "${pip[@]}" --version >/dev/null 2>&1; then
    python3 -m venv "$tools_directory" 2>/dev/null || die "python3 has neither pip nor venv; install python3-pip or python3-venv"
    pip=("$tools_directory/bin/python" -m pip)
  fi
  run_quietly "pip install of $# wheels" "${pip[@]}" install --quiet --no-deps --no-compile --disable-pip-version-check \
    --only-binary=:all: --python-version 3.12 --target "$target" "$@"
}

# make_cuda_tree DIR WHEEL...: the wheels' files under DIR/{bin,include,lib,nvvm}, with additions.
make_cuda_tree() {
  local tree=$1 part file name stage
  shift
  mkdir -p "$(dirname "$tree")"
  stage=$(mktemp -d "$tree.XXXXXX")
  pip_install "$stage/wheels" "$@" || { rm -rf -- "$stage"; return 1; }
  mkdir -p "$stage/tree/include" "$stage/tree/lib"
  for part in "$stage"/wheels/nvidia/*/ "$stage/wheels/"; do
    for name in bin include lib nvvm; do
      if [[ -d $part$name ]]; then cp -al "$part$name" "$stage/tree/"; fi
    done
  done
  # nvcc and CMake expect lib64; wheels lack the unversioned lib*.so for the linker.
  ln -sfn lib "$stage/tree/lib64"
  for file in "$stage"/tree/lib/lib*.so.[0-9]*; do
    [[ -e $file ]] || continue
    name=${file##*/}
    ln -sfn "$name" "$stage/tree/lib/${name%%.so.*}.so"
  done
  rm -rf -- "$tree"
  mv "$stage/tree" "$tree"
  rm -rf -- "$stage"
}

# install_cuda: installs missing parts into $prefix/cuda.
install_cuda() {
  local wheels=() found header wheel line include
  if [[ -d $prefix/cuda ]]; then
    say "skipped: $prefix/cuda is there already"
    return 0
  fi
  if found=$(find_nvcc); then
    say "skipped: the CUDA toolkit, since ${found% *} is version ${found#* }"
    include=$(dirname "$(dirname "$(realpath "${found% *}")")")/include
  else
    wheels=("${cuda_toolkit_wheels[@]}")
    include=''
  fi
  for line in "${cuda_library_wheels[@]}"; do
    read -r header wheel <<<"$line"
    # Libraries beside an older toolkit do not fit the new one.
    found=''
    if [[ -n $include ]]; then
      found=$(find_header "$header" "$include")
    fi
    if [[ -n $found ]]; then
      say "skipped: ${wheel%==*}, since $found is there"
    else
      wheels+=("$wheel")
    fi
  done
  if [[ ${#wheels[@]} -eq 0 ]]; then return 0; fi
  make_cuda_tree "$prefix/cuda" "${wheels[@]}"
  write_environment
  say "CUDA is in $prefix/cuda. The scripts here find it; in a shell of yours first: source $prefix/env.sh"
}
