// SPDX-License-Identifier: Apache-2.0
#include "data/shard/read_times.h"

#include <mutex>
#include <unordered_map>

#include "runtime/base/checksum.h"

namespace trireme {
namespace {

struct KnownFiles {
  std::mutex mutex;
  std::unordered_map<std::string, std::weak_ptr<ReadTimes>> by_path;
};

KnownFiles& known_files() {
  static KnownFiles files;
  return files;
}

}  // namespace

std::shared_ptr<ReadTimes> ReadTimes::of(const std::string& path) {
  KnownFiles& files = known_files();
  const std::lock_guard lock(files.mutex);
  std::weak_ptr<ReadTimes>& known = files.by_path[path];
  std::shared_ptr<ReadTimes> times = known.lock();
  if (!times) known = times = std::make_shared<ReadTimes>();
  return times;
}

std::optional<SlowFile> slowest_file() {
  KnownFiles& files = known_files();
  const std::lock_guard lock(files.mutex);
  SlowFile slowest;
  for (const auto& [path, known] : files.by_path) {
    const std::shared_ptr<ReadTimes> times = known.lock();
    if (!times) continue;
    const double seconds = 1e-9 * static_cast<double>(times->nanoseconds_.exchange(0));
    const std::uint64_t bytes = times->bytes_.exchange(0);
    if (seconds > slowest.seconds) slowest = {path, seconds, bytes};
  }
  if (slowest.path.empty()) return {};
  return slowest;
}

std::uint64_t number_of_path(const std::string& path) {
  return checksum_of(path);
}

std::string path_of_number(std::uint64_t number) {
  KnownFiles& files = known_files();
  const std::lock_guard lock(files.mutex);
  for (const auto& [path, known] : files.by_path)
    if (number_of_path(path) == number) return path;
  return "";
}

}  // namespace trireme
