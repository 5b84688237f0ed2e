#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# modules_test.sh CMAKE: CheckModules.cmake on a tree of three modules, with each rule broken in turn.
set -euo pipefail
readonly cmake=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{low/inner,middle/cuda,high}
echo '#include "low/inner/open.h"' >"$tree/low/open.h"
touch "$tree"/low/inner/{open,hidden}.h
echo '#include "low/open.h"' >"$tree/middle/face.h"
echo '#include "middle/face.h"' >"$tree/middle/body.cpp"
echo '#include "middle/face.h"' >"$tree/high/top.h"
echo '#include "low/open.h"' >"$tree/high/top.cpp"
# NAME|FOLDER|DEPENDS|PRIVATE_DEPENDS|SOURCES|PUBLIC_HEADERS
cat >"$tree/modules.txt" <<'END'
low|low||||open.h,inner/open.h
middle|middle|trireme::low,fmt::fmt||body.cpp|
high|high|trireme::middle||top.cpp|
END

judge() { said=$("$cmake" -DSOURCE="$tree" -DMODULES="$tree/modules.txt" -P "$here/../../scripts/cmake/CheckModules.cmake" 2>&1); }
judge || { echo "a sound tree is refused: $said"; exit 1; }

# refused FILE LINE WORDS: with the added line the check fails and names file, line number and reason.
refused() {
  local file=$tree/$1
  local -i had=0
  rm -f "$tree/before"
  if [[ -f $file ]]; then
    had=$(wc -l <"$file")
    cp "$file" "$tree/before"
  fi
  printf '%s\n' "$2" >>"$file"
  if judge; then
    echo "accepted: $2 in $1"
    exit 1
  elif [[ $said != *"$1:$((had + 1)): error: includes "*"$3"* ]]; then
    echo "$2 in $1 is refused with other words: $said"
    exit 1
  fi
  if [[ -f $tree/before ]]; then mv "$tree/before" "$file"; else rm "$file"; fi
}
refused low/inner/hidden.h '#include "middle/face.h"' 'trireme::low may not see middle'
refused middle/body.cpp '#include "high/top.h"' 'not among DEPENDS or PRIVATE_DEPENDS in middle/CMakeLists.txt'
refused middle/other.h '#include "low/inner/hidden.h"' 'private to low'
refused low/open.h '#include "low/inner/hidden.h"' 'an installed header needs one that is not'
refused high/top.cpp '#include "middle/gone.h"' 'there is no such file'

# Dependencies of sources are not allowed in headers for others.
sed -i 's/^middle|middle|trireme::low,fmt::fmt|/middle|middle||trireme::low/' "$tree/modules.txt"
if judge; then echo "a header may include what is linked privately"; exit 1; fi
[[ $said == *'middle/face.h:1: error: includes low/open.h'* && $said == *'high/top.cpp:1: error: includes low/open.h'* ]] || { echo "$said"; exit 1; }

