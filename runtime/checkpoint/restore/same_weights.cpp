// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/restore/verify.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "runtime/base/checksum.h"
#include "runtime/base/file.h"
#include "runtime/checkpoint/agree.h"
#include "runtime/checkpoint/files/weight_files.h"
#include "runtime/comm/same_on_all_ranks.h"

namespace trireme {
namespace {

constexpr std::uint64_t block_bytes = std::uint64_t{64} << 10;
constexpr std::uint64_t blocks_of_all = 1024;

// All of a file of up to `max_blocks` blocks; else `max_blocks` of it, with the first and last.
void add_blocks(Checksum& sum, const std::string& path, std::uint64_t max_blocks) {
  const FileDescriptor file = open_regular_file(path, ExitCode::checkpoint);
  const std::uint64_t size = regular_file_size(file, path, ExitCode::checkpoint);
  sum.update(std::as_bytes(std::span(&size, 1)));
  const std::uint64_t blocks = std::min(max_blocks, (size + block_bytes - 1) / block_bytes);
  const bool whole = size <= max_blocks * block_bytes;
  std::vector<std::byte> bytes(block_bytes);
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::uint64_t first = whole ? i * block_bytes : i * (size - block_bytes) / (blocks - 1);
    const auto part = std::span(bytes).first(std::min(block_bytes, size - first));
    read_exactly(file, path, first, part, ExitCode::checkpoint);
    sum.update(part);
  }
}

std::uint64_t fingerprint_of(const std::string& path) {
  const WeightFiles weights(path);
  std::set<std::string> files;
  for (const std::string& name : weights.names())
    files.insert(weights.file_of(name).path());
  Checksum sum;
  for (const std::string& file : files)
    add_blocks(sum, file, std::max<std::uint64_t>(blocks_of_all / files.size(), 2));
  return sum.value();
}

void require_same(Communicator& world, const std::string& path, std::string value) {
  std::error_code ignored;
  check_same_on_all_ranks(
      world, {.name = path,
              .value = std::move(value),
              .place = std::filesystem::absolute(path, ignored).string(),
              .code = ExitCode::checkpoint,
              .advice = "all ranks must begin with the same weights: copy them to every host "
                        "again, or use an absolute path that all hosts share"});
}

}  // namespace

void require_same_checkpoint(Communicator& world, const FoundCheckpoint& found) {
  if (world.size() == 1) return;
  require_same(
      world, found.path,
      fmt::format("manifest XXH3 {:016x} (step {})", found.manifest.text_checksum, found.step));
}

void require_same_weights(Communicator& world, const std::string& path) {
  if (world.size() == 1) return;
  std::string value, problem;
  try {
    value = fmt::format("weights with fingerprint {:016x}", fingerprint_of(path));
  } catch (const Error& error) {
    problem = error.what();
  }
  problem = first_problem(world, HostStream(), problem);
  if (!problem.empty()) fail(ExitCode::checkpoint, "{}", problem);
  require_same(world, path, std::move(value));
}

}  // namespace trireme
