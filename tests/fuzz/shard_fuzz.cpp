// SPDX-License-Identifier: Apache-2.0
// A shard: refused when it is opened or verified, or its samples can be read.
#include "data/hdf5/child.h"
#include "data/sets/dataset.h"
#include "data/verify.h"
#include "tests/fuzz/fuzz_target.h"

using namespace trireme;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::MemoryFile file;
  static const auto child = Hdf5Child::shared();  // one for all inputs
  file.set(fuzz::text_of(data, size));
  // As if it were the child's answer.
  fuzz::accepts(ExitCode::data, [&] { static_cast<void>(parse_facts(fuzz::text_of(data, size))); });
  const bool good = fuzz::accepts(ExitCode::data, [&] {
    const Shard shard = open_shard(file.path());
    fuzz::require(shard.data_bytes() <= size && shard.data_offset <= size - shard.data_bytes() &&
                      shard.index_bytes() <= size &&
                      shard.index_offset <= size - shard.index_bytes(),
                  "a shard reaches beyond its file");
    verify_payload(shard);
  });
  fuzz::accepts(ExitCode::data, [&] {
    const auto samples = Dataset::open(file.path(), {.context = 8});
    std::vector<std::byte> inputs(samples->layout().input_bytes());
    std::vector<std::int32_t> targets(static_cast<std::size_t>(samples->layout().targets.count()));
    for (const std::int64_t index : {std::int64_t{0}, samples->size() - 1}) {
      const bool read =
          fuzz::accepts(ExitCode::data, [&] { samples->read(index, inputs, targets); });
      fuzz::require(read || !good, "a verified shard has a sample that cannot be read");
    }
  });
  return 0;
}
