// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/meters/core_waits.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace trireme {

void CoreWaits::find_threads() {
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name != "trireme-comm") continue;  // device/cpu/cpu_stream.cpp
    FileDescriptor file(::open((task.path() / "schedstat").c_str(), O_RDONLY | O_CLOEXEC));
    if (file.is_open()) threads_.push_back(std::move(file));
  }
}

double CoreWaits::milliseconds() {
  if (!std::exchange(looked_, true)) find_threads();
  double sum = 0;
  for (const FileDescriptor& thread : threads_) {
    std::array<char, 96> text{};  // three numbers: nanoseconds, nanoseconds, a count
    if (::pread(thread.get(), text.data(), text.size() - 1, 0) <= 0) continue;
    if (const char* const second = std::strchr(text.data(), ' '))
      sum += 1e-6 * static_cast<double>(std::strtoull(second, nullptr, 10));
  }
  return sum;
}

}  // namespace trireme
