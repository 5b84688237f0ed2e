#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Checks the rules of this repository that no compiler checks. Prints every breach and exits 1 if there is one.
#
#   scripts/lint.sh            all files that git tracks or would track (a second)
#   scripts/lint.sh FILE...    these files only
#   scripts/lint.sh --cuda     instead: the CUDA sources (*.cu) under clang-tidy-22, seconds per file; 77 if it is missing
#   scripts/lint.sh --tidy [FILE.cpp...]  instead: C++ under clang-tidy-16, seconds per file; of a configured build/cpu or
#                              build/cuda. Without files: all that it compiles (half an hour)
set -euo pipefail
called_from=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Only clang-tidy 22 parses the headers of CUDA 13; see .clang-tidy for the checks.
lint_cuda() {
  local tidy cuda file
  tidy=$(command -v clang-tidy-22) || {
    echo "skipped: there is no clang-tidy-22; older ones do not understand CUDA 13 (apt-get install clang-tidy-22)"
    exit 77
  }
  cuda=${CUDACXX:-$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)}
  cuda=$(dirname "$(dirname "$(realpath -m "$cuda")")")
  [[ -f $cuda/include/cuda_runtime.h ]] || {
    echo "skipped: $cuda has no cuda_runtime.h; scripts/install_deps.sh --cuda brings one"
    exit 77
  }
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.cu')
  [[ ${#files[@]} -gt 0 ]] || exit 0
  for file in "${files[@]}"; do printf '%s\0' "$file"; done |
    xargs -0 -I FILE -P "$(nproc)" "$tidy" --quiet FILE -- -x cuda --cuda-path="$cuda" --cuda-gpu-arch=sm_90 \
      -isystem "$cuda/include/cccl" -std=c++20 -Wno-unknown-cuda-version -DFMT_CONSTEVAL= -I. \
      2> >(grep -vE '^[0-9]+ warnings? |^Suppressed|^Use -header-filter' >&2) || exit 1
  exit 0
}

# clang-tidy 14, Debian 12's default, has no std::source_location; 16 is the first in Debian 12 that parses this code.
lint_cpp() {
  local tidy build file
  tidy=$(command -v clang-tidy-16) || {
    echo "skipped: there is no clang-tidy-16 (apt-get install clang-tidy-16)"
    exit 77
  }
  for build in build/cpu build/cuda none; do if [[ -f $build/compile_commands.json ]]; then break; fi; done
  [[ $build != none ]] || {
    echo "skipped: neither build/cpu nor build/cuda is configured (cmake --preset cpu)"
    exit 77
  }
  if [[ $# -gt 0 ]]; then
    for file in "$@"; do printf '%s\0' "$(cd "$called_from" && realpath -- "$file")"; done
  else
    # The units of the build, which hold many sources each.
    grep -oP '"file": "\K[^"]+\.(cpp|cxx)(?=")' "$build/compile_commands.json" | sort -u | tr '\n' '\0'
  fi | xargs -0 -r -I FILE -P "$(nproc)" "$tidy" --quiet -p "$build" --extra-arg=-Wno-unknown-warning-option \
    --extra-arg=-Wno-unused-command-line-argument FILE 2> >(grep -vE '^[0-9]+ warnings? |^Suppressed|^Use -header-filter' >&2) || exit 1
  exit 0
}
case ${1:-} in
  --cuda) lint_cuda ;;
  --tidy) lint_cpp "${@:2}" ;;
  -*)
    sed -n '3,/^set -/{/^#/s/^# \{0,1\}//p}' scripts/lint.sh
    if [[ $1 == -h || $1 == --help ]]; then exit 0; else exit 2; fi
    ;;
esac

if [[ $# -gt 0 ]]; then
  files=()
  for file in "$@"; do files+=("$(cd "$called_from" && realpath -m --relative-to="$OLDPWD" -- "$file")"); done
else
  # git also lists a removed file before the commit.
  mapfile -t files < <(git ls-files --cached --others --exclude-standard | while read -r file; do
    if [[ -f $file ]]; then printf '%s\n' "$file"; fi
  done)
fi
if [[ ${#files[@]} -eq 0 ]]; then
  echo "scripts/lint.sh: git lists no files here; run it in a clone" >&2
  exit 1
fi

breaches=0
# report RULE: takes "file:line: text" lines from stdin.
report() {
  local rule=$1 line
  while IFS= read -r line; do
    printf '%s\n    %s\n' "$line" "$rule"
    breaches=$((breaches + 1))
  done
}

# select PATTERN: the files whose path matches.
select_files() {
  local file
  for file in "${files[@]}"; do
    if [[ $file =~ $1 ]]; then printf '%s\0' "$file"; fi
  done
}

# search FILES-PATTERN TEXT-PATTERN [EXCEPT-PATH-PATTERN]
search() {
  select_files "$1" | { xargs -0 -r grep -HnP -- "$2" || true; } | { grep -vP -- "${3:-^$}" || true; }
}

code='^(runtime|models|data|launch)/.*\.(h|cpp|cu|cuh)$'
all_code='^(runtime|models|data|launch|tests)/.*\.(h|cpp|cu|cuh)$'
call='\b(MPI_[A-Z][a-z]\w*|H5[A-Z]{1,2}[a-z]\w*|dnnl_(memory|primitive|stream|engine)_\w+|dnnl_sgemm|(cuda|cudnn|cublas|nccl)[A-Z]\w*)\('

# Backends are used only in the folder that implements them, and their headers stay out of other headers.
report 'MPI is called in runtime/comm only' < <(search "$code" '\bMPI_[A-Z][a-z]\w*\(' '^runtime/comm/|//.*MPI_')
report 'HDF5 is called in runtime/hdf5, data/hdf5 and runtime/checkpoint only' \
  < <(search "$code" '\bH5[A-Z]{1,2}[a-z]\w*\(' '^(runtime/hdf5|data/hdf5|runtime/checkpoint)/|//.*H5')
report 'CUDA libraries are called in their back ends only' \
  < <(search "$code" '\b(cuda|cudnn|cublas|nccl)[A-Z]\w*\(' '_cuda\.(cu|cpp):|/(cuda|nccl)/|/(cublaslt|cudnn)\w*\.(cpp|h):|//.*(cuda|nccl|cudnn|cublas)')
report 'a backend header in a header outside the folder that implements the backend' \
  < <(search '^(runtime|models|data|launch)/.*\.(h|cuh)$' \
    '#\s*include\s*[<"](mpi\.h|hdf5\.h|dnnl|oneapi|yaml-cpp|nlohmann|cuda|nccl|cudnn|cublas)' \
    'json_fwd\.hpp|^runtime/comm/.*mpi\.h|^runtime/(base/json|checkpoint/files/json_fields)\.h:.*nlohmann|^(runtime|data)/hdf5/.*hdf5\.h|^runtime/ops/(common|gemm)/(dnnl|cublaslt)_\w+\.h:.*(dnnl|cublas)|^runtime/ops/\w+/\w+_cuda\.h:.*(cuda_runtime|cuda/atomic)|/cuda/.*cuda|/nccl/.*nccl')
report 'JSON is parsed by runtime/base/json.h, which bounds how deeply values are nested' \
  < <(search "$code" '\w*[jJ]son::(parse|sax_parse|accept|from_\w+)\(' '^runtime/base/json\.h:')
report 'the result of a library call is dropped: use the check of this folder, or say why with "// unchecked: ..."' \
  < <(search "$code" "^\\s*(\\(void\\)|static_cast<void>\\()?\\s*$call" \
    '\b(MPI_Abort|H5Eset_auto2)\(|// unchecked: ' |
    while IFS= read -r hit; do
      # A call that continues the expression of the previous line uses its result.
      file=${hit%%:*} rest=${hit#*:} line=${rest%%:*}
      above=$(sed -n "$((line - 1))p" "$file")
      if [[ $above =~ (^|[;{}])[[:space:]]*$ || $above =~ ^[[:space:]]*// ]]; then printf '%s\n' "$hit"; fi
    done)

# All modules share a namespace (runtime/README.md). The linker reports equal names of functions, but not of types.
# shellcheck disable=SC2016  # awk's variables
report 'a type of this name is declared in another file of this namespace' < <(select_files "$code" | xargs -0 -r awk '
  FNR == 1 { depth = 0; hidden = 0 }
  /^namespace \{/ { hidden = ++depth }
  /^(inline )?namespace [a-z]/ { name[++depth] = $(NF - 1) }
  /^\}  \/\/ namespace/ { if (hidden == depth) hidden = 0; --depth }
  /^(struct|class|enum|enum class) [A-Za-z0-9_]+( final)?( : [^;]*)? ?\{/ && !hidden {
    type = $1 == "enum" && $2 == "class" ? $3 : $2
    for (i = depth; i > 0; --i) type = name[i] "::" type
    if (type in first && first[type] != FILENAME) print FILENAME ":" FNR ": " type ", also in " first[type]
    first[type] = FILENAME
  }')

# Size limits keep files and functions readable.
report 'over 500 lines: split by concept' \
  < <(select_files '\.(h|hpp|cpp|cu|cuh|py|sh|cmake)$' | xargs -0 -r awk 'FNR == 501 { print FILENAME ":501:" }')
# shellcheck disable=SC2016  # awk's variables
report 'a function over 80 lines: split by step' < <(select_files "$all_code" | xargs -0 -r awk '
  /^[A-Za-z_\[].*[{(,]$/ && !/^(namespace|class|struct|enum|union|extern|#|constexpr auto [a-z_]+ = )/ { start = FNR; text = $0 }
  /^}/ { if (start && FNR - start > 80) print FILENAME ":" start ": " text; start = 0 }')

# All files.
report 'has no SPDX-License-Identifier in its first three lines' \
  < <(select_files '\.(h|cpp|cu|cuh|py|sh)$' |
    xargs -0 -r awk 'FNR <= 3 && /SPDX-License-Identifier: Apache-2.0/ { seen[FILENAME] = 1 }
      { name[FILENAME] = 1 } END { for (file in name) if (!seen[file]) print file ":1:" }')
report 'a header without #pragma once' \
  < <(select_files '^(runtime|models|data|launch|tests)/.*\.(h|cuh)$' | xargs -0 -r grep -L '^#pragma once' | sed 's/$/:1:/')
report 'unfinished work belongs into an issue' \
  < <(search '\.(h|cpp|cu|cuh|py|sh|cmake|yaml)$|CMakeLists\.txt$' '\b(TO''DO|FIX''ME|XX''X|HA''CK)\b')
report 'white space at the end of a line' < <(search '\.(h|cpp|cu|cuh|py|sh|cmake|yaml|md|txt)$' '[ \t]+$')
report 'a tab' < <(search '\.(h|cpp|cu|cuh|py|cmake|yaml)$' '\t')

# The field's words instead of our own: spatial, context and expert parallelism, slab, activation checkpointing, dropout
# probability, most probable, module, idle, import and export, listener and peer, resume, bottleneck.
report 'a word of our own; say what PyTorch, Megatron-LM or NCCL call it' \
  < <(search '\.(h|cpp|cu|cuh|py|sh|cmake|md)$' \
    '(?i)cut in space|\bcut sequences|(sequences|samples) cut\b|ranks that share (a |each )?(sequence|sample)|kept or computed again|rows sent out|products in parts|share of activations|likeliest|stood still|there and back|\b(this|a|other|each|every) room\b(?! for)|\bstrangers?\b|\bheed|has_room|ask_who|turns_of|\bspell_|expert_buffer|mask_share|quarter_turns|begin anew|hanging rank|(run|job|command) goes on|slower ranks|waits for cores|verdict_text|what they visit' \
    '^scripts/lint\.sh:|renamed\(|["`](parallel|model|data)\.(expert_buffer|mask_share|quarter_turns)["`]')

# Each module has a limit in bytes of code: bytes, so that no line is made longer to stay below it.
report 'more bytes of code than its limit in scripts/module_bytes.txt: make it smaller, or raise the limit and say in the commit what the bytes buy' < <(
  if [[ $# -eq 0 ]]; then
    while read -r module limit; do
      bytes=$(select_files "^$module/.*(\.(h|cpp|cu|cuh|py|sh|cmake|js|css)|CMakeLists\.txt)\$" | xargs -0 cat | wc -c)
      if ((bytes > limit)); then printf '%s:1: %d bytes, limit %d\n' "$module" "$bytes" "$limit"; fi
    done <scripts/module_bytes.txt
  fi)

# READMEs of modules.
report 'a module without README.md' < <(
  if [[ $# -eq 0 ]]; then
    for module in runtime/*/ models/ data/ launch/ scripts/; do
      if [[ -d $module && ! -f ${module}README.md ]]; then printf '%s:1:\n' "$module"; fi
    done
  fi)

if ((breaches > 0)); then
  printf '%d breach%s of the rules in scripts/lint.sh\n' "$breaches" "$([[ $breaches -eq 1 ]] || printf es)" >&2
  exit 1
fi
