// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/lock_support.h"

#include <fmt/format.h>

#include <sstream>
#include <vector>

namespace trireme {
namespace {

struct Mount {
  std::string place, type, options;
};

// A line is "36 35 98:0 /root /place options [tags] - type source super_options".
Mount mount_of(const std::string& line) {
  std::istringstream words(line);
  std::vector<std::string> before, after;
  bool divided = false;
  for (std::string word; words >> word;) {
    if (!divided && word == "-") {
      divided = true;
    } else {
      (divided ? after : before).push_back(word);
    }
  }
  if (before.size() < 6 || after.size() < 3) return {};
  return {before[4], after[0], before[5] + "," + after[2]};
}

bool holds(std::string_view place, std::string_view path) {
  if (place == "/") return true;
  return path.starts_with(place) && (path.size() == place.size() || path[place.size()] == '/');
}

bool has_option(const std::string& options, std::string_view wanted) {
  std::istringstream all(options);
  for (std::string option; std::getline(all, option, ',');) {
    if (option == wanted) return true;
  }
  return false;
}

}  // namespace

std::string why_locks_are_local(std::string_view mounts, std::string_view path) {
  std::istringstream lines{std::string(mounts)};
  Mount found;
  for (std::string line; std::getline(lines, line);) {
    Mount mount = mount_of(line);
    // Of two mounts at one place the later hides the earlier.
    if (holds(mount.place, path) && mount.place.size() >= found.place.size()) found = mount;
  }
  const auto with = [&](std::string_view option) {
    return fmt::format("{} ({}) is mounted with {}", found.place, found.type, option);
  };
  if (found.type.starts_with("nfs")) {
    for (const char* const option : {"nolock", "local_lock=all", "local_lock=posix"}) {
      if (has_option(found.options, option)) return with(option);
    }
  }
  if (found.type == "lustre" && has_option(found.options, "localflock")) return with("localflock");
  return "";
}

}  // namespace trireme
