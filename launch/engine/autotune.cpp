// SPDX-License-Identifier: Apache-2.0
#include "launch/engine/autotune.h"

#include <filesystem>
#include <set>

#include "runtime/base/atomic_file.h"
#include "runtime/base/checksum.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/comm/same_on_all_ranks.h"
#include "runtime/ops/gemm/gemm_tuning.h"

namespace trireme {
namespace {

// Empty if the file does not exist yet. Refuses now a file that could not be written later.
std::string read_if_there(const std::string& file) {
  const std::filesystem::path folder = std::filesystem::absolute(file).parent_path();
  if (!std::filesystem::is_directory(folder)) {
    fail(ExitCode::config, "device.autotune: {}: the directory {} does not exist; create it", file,
         folder.string());
  }
  if (!std::filesystem::exists(file)) return {};
  constexpr std::uint64_t limit = std::uint64_t{1} << 28;
  return read_whole_file(file, limit, ExitCode::config);
}

ops::GemmChoices parse(const std::string& text, Device& device, const std::string& file) {
  ops::GemmChoices choices = ops::no_gemm_choices(device);
  return text.empty() ? choices : ops::GemmChoices::parse(text, file, choices.gpu, choices.library);
}

// All ranks' matmuls that used a suggestion, each once.
std::set<ops::GemmKey> unmeasured_anywhere(Communicator& world) {
  std::string own;
  for (const ops::GemmKey& key : ops::unmeasured_gemms())
    own += ops::to_text(key) + '\n';
  std::set<ops::GemmKey> keys;
  for (int rank = 0; rank < world.size(); ++rank) {
    const std::string text = broadcast_text(world, own, rank);
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = text.find('\n', begin);
      const auto key = ops::parse_gemm_key(std::string_view(text).substr(begin, end - begin));
      TRIREME_EXPECTS(key.has_value(), "rank {} sent an invalid matmul", rank);
      keys.insert(*key);
      begin = end + 1;
    }
  }
  return keys;
}

// On rank 0. Returns how many were measured and are now in the file.
std::size_t measure(const std::set<ops::GemmKey>& keys, Stream& stream, const std::string& file,
                    Unmeasured unmeasured) {
  ops::GemmChoices choices = parse(read_if_there(file), stream.device(), file);
  std::size_t measured = 0;
  for (const ops::GemmKey& key : keys) {
    try {
      ops::measure_gemm(stream, key, choices);
      ++measured;
    } catch (const Error& error) {
      if (unmeasured == Unmeasured::error) {
        fail(ExitCode::config,
             "device.autotune: {}: the matmul {} could not be measured: {}; a run with enough "
             "memory to measure it would give other bits, which reproducibility: run and layout "
             "forbid: lower train.micro_batch, name a file from another GPU of this type, or set "
             "device.autotune: off",
             file, ops::to_text(key), error.what());
      }
      log::get("ops").warn("{}: the matmul {} was not measured: {}", file, ops::to_text(key),
                           error.what());
    }
  }
  write_file(file, choices.to_text(), ExitCode::config);
  return measured;
}

}  // namespace

void use_tuned_gemms(Communicator& world, Device& device, const std::string& file) {
  const ops::GemmChoices here = ops::no_gemm_choices(device);
  check_same_on_all_ranks(world, "the GPU and library that device.autotune is for",
                          fmt::format("{}\n{}\n", here.gpu, here.library));
  const std::string text =
      broadcast_text(world, world.rank() == 0 ? read_if_there(file) : std::string(), 0);
  ops::GemmChoices choices = parse(text, device, file);
  if (world.rank() == 0) {
    log::get("ops").info("{}: {} (XXH3 {:016x})", file, choices.summary(), checksum_of(text));
  }
  ops::use_gemm_choices(std::move(choices), file);
}

void tune_gemms(Communicator& world, Stream& stream, const std::string& file,
                Unmeasured unmeasured) {
  const std::set<ops::GemmKey> keys = unmeasured_anywhere(world);
  if (keys.empty()) return;
  if (world.rank() == 0) {
    const std::size_t measured = measure(keys, stream, file, unmeasured);
    log::get("ops").info("{}: {} matmuls measured", file, measured);
  }
  use_tuned_gemms(world, stream.device(), file);
}

void complete_tuned_gemms(Communicator& world, Stream& stream, const std::string& file) {
  const std::set<ops::GemmKey> keys = unmeasured_anywhere(world);
  if (world.rank() != 0 || keys.empty()) return;
  const std::size_t measured = measure(keys, stream, file, Unmeasured::suggestion);
  log::get("ops").info("{}: {} matmuls measured, for the next run", file, measured);
}

}  // namespace trireme
