// SPDX-License-Identifier: Apache-2.0
// Names of checkpoint files and directories.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

inline constexpr std::string_view manifest_name = "manifest.json";
inline constexpr std::string_view view_name = "checkpoint.h5";
// In a run directory.
inline constexpr std::string_view checkpoints_name = "checkpoints";
inline constexpr std::string_view weights_name = "weights.safetensors";
inline constexpr std::string_view averages_name = "weights_average.safetensors";
// Hugging Face's name.
inline constexpr std::string_view model_name = "model.safetensors";
inline constexpr std::string_view model_index_name = "model.safetensors.index.json";
// Suffix of a directory that is being written or removed: not a checkpoint.
inline constexpr std::string_view partial_suffix = ".tmp";
inline constexpr std::string_view deleting_suffix = ".deleting";

// "rank_00003.h5"
[[nodiscard]] inline std::string rank_file_name(int rank) {
  return fmt::format("rank_{:05}.h5", rank);
}
// "step_00000100"
[[nodiscard]] inline std::string step_directory_name(std::int64_t step) {
  return fmt::format("step_{:08}", step);
}
// "step_00000100.e3.tmp": written by the third start of a run; without an epoch (0)
// "step_00000100.tmp". The epoch keeps a superseded start away from its successor's files.
[[nodiscard]] inline std::string partial_name(std::int64_t step, std::int64_t epoch) {
  const std::string whose = epoch > 0 ? fmt::format(".e{}", epoch) : std::string();
  return fmt::format("{}{}{}", step_directory_name(step), whose, partial_suffix);
}
// Whether the name is that of a directory being written or removed.
[[nodiscard]] bool is_leftover(std::string_view directory_name);
// The step in such a name; nothing for any other name.
[[nodiscard]] std::optional<std::int64_t> step_of(std::string_view directory_name);

}  // namespace trireme
