// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/health/energy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// A small file of sysfs from its start; "" if it is unreadable.
std::string sysfs_text(const FileDescriptor& file) {
  std::array<char, 64> bytes{};
  const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  std::string text(bytes.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
  text.erase(std::find_if(text.begin(), text.end(), [](char c) { return c == '\n'; }), text.end());
  return text;
}

FileDescriptor open_sysfs(const fs::path& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return {};
  return value;
}

struct Package {
  FileDescriptor energy;    // microjoules; stays open, each read starts at 0
  std::uint64_t range = 0;  // where the counter wraps
  std::uint64_t before = 0;
};

class PackageEnergy final : public EnergyCounter {
 public:
  explicit PackageEnergy(std::vector<Package> packages) : packages_(std::move(packages)) {}

  std::optional<double> take() override {
    double microjoules = 0;
    bool all = true;
    for (Package& package : packages_) {
      const auto now = whole_number(sysfs_text(package.energy));
      if (!now) {
        all = false;
        continue;
      }
      const std::uint64_t passed =
          *now >= package.before ? *now - package.before : package.range - package.before + *now;
      microjoules += static_cast<double>(passed);
      package.before = *now;
    }
    // After a failed read the next difference would cover several steps.
    const bool known = all && complete_;
    complete_ = all;
    return known ? std::optional(1e-6 * microjoules) : std::nullopt;
  }

 private:
  std::vector<Package> packages_;
  bool complete_ = true;
};

// "intel-rapl:0": a processor's zone. Its parts have two numbers; intel-rapl-mmio repeats the same
// packages. AMD uses the same names.
bool is_zone(const std::string& name) {
  constexpr std::string_view head = "intel-rapl:";
  return name.starts_with(head) && name.find(':', head.size()) == std::string::npos;
}

}  // namespace

EnergySource package_energy(const std::string& root) {
  std::vector<fs::path> zones;
  std::error_code error;
  for (fs::directory_iterator entry(root, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (!is_zone(entry->path().filename().string())) continue;
    // "psys" is the whole board including packages.
    if (sysfs_text(open_sysfs(entry->path() / "name")).starts_with("package"))
      zones.push_back(entry->path());
  }
  std::ranges::sort(zones);
  if (zones.empty()) return {.problem = fmt::format("{} has no RAPL package", root)};
  std::vector<Package> packages;
  for (const fs::path& zone : zones) {
    Package package{.energy = open_sysfs(zone / "energy_uj")};
    const int reason = errno;
    const auto now = whole_number(sysfs_text(package.energy));
    const auto range = whole_number(sysfs_text(open_sysfs(zone / "max_energy_range_uj")));
    if (!now || !range)
      return {.problem = fmt::format(
                  "{}: cannot be read{}", (zone / "energy_uj").string(),
                  package.energy.is_open() ? "" : fmt::format(": {}", std::strerror(reason)))};
    package.before = *now;
    package.range = *range;
    packages.push_back(std::move(package));
  }
  return {.counter = std::make_unique<PackageEnergy>(std::move(packages))};
}

std::function<double()> joules_by_step(EnergySource source) {
  static constexpr double not_known = std::numeric_limits<double>::quiet_NaN();
  if (!source.counter) {
    log::get("train").debug("energy is not counted: {}", source.problem);
    return [] { return not_known; };
  }
  return [counter = std::shared_ptr(std::move(source.counter)), first = true]() mutable {
    const double joules = counter->take().value_or(not_known);
    return std::exchange(first, false) ? not_known : joules;
  };
}

}  // namespace trireme
