// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/order/sites.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tests/emulation/order/frames.h"

namespace trireme::emulated::order {
namespace {

constexpr std::array<const char*, 4> call_names{"record", "wait", "event-synchronize",
                                                "stream-synchronize"};

// A call and its caller's call.
using Offsets = std::pair<std::uintptr_t, std::uintptr_t>;

// Caller 0 matches any.
std::vector<Offsets> offsets_to_drop() {
  std::vector<Offsets> list;
  const char* text = std::getenv("TRIREME_EMULATED_DROP");
  while (text != nullptr && *text != '\0') {
    char* end = nullptr;
    Offsets offsets{std::strtoull(text, &end, 16), 0};
    if (*end == ':') offsets.second = std::strtoull(end + 1, &end, 16);
    list.push_back(offsets);
    text = *end == ',' ? end + 1 : nullptr;
  }
  return list;
}

bool is_dropped(const Offsets& here) {
  static const std::vector<Offsets> unwanted = offsets_to_drop();
  return std::ranges::any_of(unwanted, [&](const Offsets& each) {
    return each.first == here.first && (each.second == 0 || each.second == here.second);
  });
}

std::mutex sites_mutex;
std::map<std::pair<Call, Offsets>, Site> sites;

void write_sites() {
  std::FILE* const file = std::fopen(std::getenv("TRIREME_EMULATED_SITES"), "a");
  if (file == nullptr) return;
  for (const auto& [key, site] : sites) {
    const auto& [call, offsets] = key;
    std::fprintf(file, "%s 0x%zx 0x%zx %ld %ld\n", call_names[static_cast<std::size_t>(call)],
                 static_cast<std::size_t>(offsets.first), static_cast<std::size_t>(offsets.second),
                 site.times.load(), site.told.load());
  }
  std::fclose(file);
}

bool wanted_sites() {
  static const bool listing =
      std::getenv("TRIREME_EMULATED_SITES") != nullptr && std::atexit(write_sites) == 0;
  return listing || std::getenv("TRIREME_EMULATED_DROP") != nullptr;
}

// The caller of the function that contains `within`, and its caller.
Offsets find_offsets(const void* within) {
  const Frames frames = Frames::here();
  for (int i = 0; i + 2 < frames.depth; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (frames.addresses[at] != within) continue;
    return {offset_in_program(frames.addresses[at + 1]),
            offset_in_program(frames.addresses[at + 2])};
  }
  return {};
}

}  // namespace

Site& site_of(Call call, const void* within) {
  static Site any;
  static const bool wanted = wanted_sites();
  if (!wanted) return any;
  const Offsets here = find_offsets(within);
  const std::lock_guard lock(sites_mutex);
  const auto [found, added] = sites.try_emplace({call, here});
  if (added) found->second.dropped = is_dropped(here);
  ++found->second.times;
  return found->second;
}

}  // namespace trireme::emulated::order
