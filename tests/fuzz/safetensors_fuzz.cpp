// SPDX-License-Identifier: Apache-2.0
// A safetensors file: refused when opened, or every tensor is inside it and readable, if its
// element type is supported.
#include <vector>

#include "runtime/checkpoint/files/weight_files.h"
#include "tests/fuzz/fuzz_target.h"

using namespace trireme;

namespace {

void read_all(const std::string& path, std::size_t file_bytes) {
  const SafetensorsFile file(path);
  for (const std::string& name : file.names()) {
    fuzz::require(file.contains(name) && file.bytes(name) <= file_bytes &&
                      file.offset(name) <= file_bytes - file.bytes(name),
                  "a tensor reaches beyond its file");
    fuzz::accepts(ExitCode::checkpoint, [&] {
      fuzz::require(
          static_cast<std::size_t>(file.shape(name).count()) * size_of(file.dtype(name)) ==
              file.bytes(name),
          "a tensor's bytes do not agree with its shape");
      std::vector<std::byte> values(file.bytes(name));
      file.read(name, values.data(), values.size());
    });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file;
  file.set(fuzz::text_of(data, size));
  if (!fuzz::accepts(ExitCode::checkpoint, [&] { read_all(file.path(), size); })) return 0;
  const WeightFiles weights(file.path());
  for (const std::string& name : weights.names())
    fuzz::accepts(ExitCode::checkpoint, [&] { static_cast<void>(weights.read(name)); });
  return 0;
}
