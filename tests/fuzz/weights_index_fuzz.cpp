// SPDX-License-Identifier: Apache-2.0
// model.safetensors.index.json beside two files that it may name: refused, or every tensor of its
// map is readable.
#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "runtime/checkpoint/files/weight_files.h"
#include "tests/fuzz/fuzz_target.h"

using namespace trireme;

namespace {

// Contains a.safetensors and b.safetensors, with one and two tensors.
class IndexDirectory {
 public:
  IndexDirectory() {
    std::string pattern = std::filesystem::temp_directory_path() / "trireme_fuzz_XXXXXX";
    fuzz::require(mkdtemp(pattern.data()) != nullptr, "mkdtemp");
    path_ = pattern;
    write_safetensors(path_ + "/a.safetensors", std::array{tensor("x")});
    write_safetensors(path_ + "/b.safetensors", std::array{tensor("y"), tensor("z")});
  }
  ~IndexDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  IndexDirectory(const IndexDirectory&) = delete;
  IndexDirectory& operator=(const IndexDirectory&) = delete;

  [[nodiscard]] std::string set_index(std::string_view text) const {
    const std::string path = path_ + "/model.safetensors.index.json";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
    return path;
  }

 private:
  NamedTensor tensor(const char* name) {
    return {name, {reinterpret_cast<std::byte*>(values_.data()), DType::f32, Shape{2}}};
  }

  std::array<float, 2> values_{1, 2};
  std::string path_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const IndexDirectory directory;
  const std::string path = directory.set_index(fuzz::text_of(data, size));
  fuzz::accepts(ExitCode::checkpoint, [&] {
    const WeightFiles files(path);
    for (const std::string& name : files.names())
      fuzz::require(files.read(name) == std::vector<float>{1, 2}, "a tensor has other values");
  });
  return 0;
}
