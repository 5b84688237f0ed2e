// SPDX-License-Identifier: Apache-2.0
#include "data/pack/output.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "runtime/base/error.h"

namespace trireme {

namespace fs = std::filesystem;

void check_output_options(const std::string& output, const std::string& split,
                          std::optional<double> validation) {
  if (output.empty()) fail(ExitCode::config, "--out: no output directory given");
  if (validation && !(*validation >= 0 && *validation < 1)) {
    fail(ExitCode::config,
         "--validation: {} is not allowed; use a fraction from 0 up to, not including, 1",
         *validation);
  }
  if (!split.empty() && (split.find('/') != std::string::npos || split.starts_with('.'))) {
    fail(ExitCode::config,
         "--split: '{}' is not allowed; use a plain name such as train or validation", split);
  }
  if (!split.empty() && validation) {
    fail(ExitCode::config,
         "--split and --validation exclude each other; --validation writes the splits train and "
         "validation");
  }
}

void check_output_outside(const std::string& output, const std::string& input) {
  std::error_code error;
  const fs::path inner = fs::weakly_canonical(output, error),
                 outer = fs::weakly_canonical(input, error);
  if (error || !fs::is_directory(outer, error)) return;
  if (std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end()) {
    fail(ExitCode::config, "--out: {} lies inside the input {}; choose a directory outside of it",
         output, input);
  }
}

std::string output_of(const std::string& output, const std::string& split) {
  return split.empty() ? output : (fs::path(output) / split).string();
}

std::vector<std::pair<std::string, std::uint64_t>> split_sizes(std::uint64_t total,
                                                               std::optional<double> validation,
                                                               const std::string& unit) {
  if (!validation) return {{"", total}};
  if (*validation == 0) return {{"train", total}};
  if (total < 2) fail(ExitCode::data, "--validation: {} {} cannot be split in two", total, unit);
  const auto wanted =
      static_cast<std::uint64_t>(std::llround(static_cast<double>(total) * *validation));
  const std::uint64_t last = std::clamp<std::uint64_t>(wanted, 1, total - 1);
  return {{"train", total - last}, {"validation", last}};
}

}  // namespace trireme
