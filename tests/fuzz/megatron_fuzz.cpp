// SPDX-License-Identifier: Apache-2.0
// An index of Megatron-LM beside a file of tokens: refused when it is opened, or every sample can
// be read.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "data/sets/dataset.h"
#include "tests/fuzz/fuzz_target.h"

using namespace trireme;

namespace {

// The input is the index; its .bin file has 32 bytes, as the seeds describe.
class Files {
 public:
  Files()
      : directory_(std::filesystem::temp_directory_path() /
                   ("trireme-fuzz-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(directory_);
    std::ofstream((directory_ / "tokens.bin").string(), std::ios::binary) << std::string(32, '\1');
  }
  ~Files() {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  [[nodiscard]] std::string index() const { return (directory_ / "tokens.idx").string(); }

 private:
  std::filesystem::path directory_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Files files;
  std::ofstream(files.index(), std::ios::binary) << fuzz::text_of(data, size);
  fuzz::accepts(ExitCode::data, [&] {
    const auto samples = Dataset::open(files.index(), {.context = 3});
    std::vector<std::byte> inputs(samples->layout().input_bytes());
    std::vector<std::int32_t> targets(static_cast<std::size_t>(samples->layout().targets.count()));
    for (std::int64_t index = 0; index < samples->size(); ++index)
      fuzz::accepts(ExitCode::data, [&] { samples->read(index, inputs, targets); });
  });
  return 0;
}
