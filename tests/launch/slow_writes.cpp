// SPDX-License-Identifier: Apache-2.0
// Preloaded into a run (LD_PRELOAD): every fsync in the directory of an unfinished checkpoint takes
// TRIREME_TEST_FSYNC_MS milliseconds longer.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

namespace {

bool is_of_a_save(int file) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  const std::string_view text(path.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  const std::size_t step = text.find("/checkpoints/step_");
  return step != std::string_view::npos && text.find(".tmp", step) != std::string_view::npos;
}

}  // namespace

extern "C" int fsync(int file) {
  static auto* const real = reinterpret_cast<int (*)(int)>(::dlsym(RTLD_NEXT, "fsync"));
  const char* const milliseconds = std::getenv("TRIREME_TEST_FSYNC_MS");
  if (milliseconds != nullptr && is_of_a_save(file))
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(milliseconds)));
  return real(file);
}
