// SPDX-License-Identifier: Apache-2.0
#include "tests/emulation/order/frames.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

namespace trireme::emulated::order {
namespace {

struct Named {
  std::string function, place;
};

std::string program_file() {
  std::array<char, 4096> path{};
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size() - 1);
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : "";
}

// A readable C++ name: no arguments, none of our namespaces.
std::string shortened(std::string name) {
  for (const char* const part : {"(anonymous namespace)::", "trireme::", "ops::cuda::", "cuda::"}) {
    for (auto at = name.find(part); at != std::string::npos; at = name.find(part))
      name.erase(at, std::string(part).size());
  }
  if (const auto at = name.find('('); at != std::string::npos && at > 0) name.erase(at);
  if (name.starts_with("void ")) name.erase(0, 5);
  return name;
}

std::string place_of(std::string text) {
  if (text.starts_with("??")) return "";
  for (const char* const folder : {"/runtime/", "/data/", "/models/", "/launch/", "/tests/"}) {
    if (const auto at = text.rfind(folder); at != std::string::npos) text.erase(0, at + 1);
  }
  text.erase(std::min(text.find(' '), text.size()));
  return text.ends_with(":?") ? "" : text;
}

// The names at the given offsets, including inlined functions.
std::vector<Named> look_up(const std::vector<std::uintptr_t>& offsets) {
  std::string command = "addr2line -f -C -i -e '" + program_file() + "'";
  for (const std::uintptr_t offset : offsets) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), " 0x%zx", static_cast<std::size_t>(offset));
    command += text.data();
  }
  std::vector<Named> names;
  FILE* const output = popen((command + " 2>/dev/null").c_str(), "r");
  if (output == nullptr) return names;
  std::vector<char> line(std::size_t{1} << 16);
  for (bool function = true; std::fgets(line.data(), static_cast<int>(line.size()), output);
       function = !function) {
    std::string text(line.data());
    text.erase(text.find_last_not_of('\n') + 1);
    if (function) {
      names.push_back({text, ""});
    } else {
      names.back().place = place_of(text);
    }
  }
  pclose(output);
  return names;
}

std::vector<std::uintptr_t> offsets_of(const Frames& frames) {
  std::vector<std::uintptr_t> offsets;
  for (int i = 0; i < frames.depth; ++i) {
    const std::uintptr_t offset = offset_in_program(frames.addresses[static_cast<std::size_t>(i)]);
    if (offset > 0) offsets.push_back(offset - 1);  // the call, not the instruction after it
  }
  return offsets;
}

bool of_interest(const Named& name) {
  for (const char* const part : {"trireme::emulated", "trireme::cuda::launch<", "CudaDevice::",
                                 "CudaStream::", "CudaEvent::", "trireme::Buffer::Buffer"}) {
    if (name.function.find(part) != std::string::npos) return false;
  }
  return name.function.find("trireme::") != std::string::npos &&
         !name.function.starts_with("std::") && !name.function.starts_with("void std::");
}

}  // namespace

Frames Frames::here() {
  Frames frames;
  frames.depth = backtrace(frames.addresses.data(), static_cast<int>(frames.addresses.size()));
  return frames;
}

std::uintptr_t offset_in_program(const void* address) {
  Dl_info program{}, found{};
  static const char own = 0;
  if (dladdr(&own, &program) == 0 || dladdr(address, &found) == 0) return 0;
  if (found.dli_fbase != program.dli_fbase) return 0;  // of a library
  return reinterpret_cast<std::uintptr_t>(address) -
         reinterpret_cast<std::uintptr_t>(found.dli_fbase);
}

std::vector<std::string> names_of(const Frames& frames) {
  constexpr std::size_t most = 5;
  std::vector<std::string> names;
  for (const Named& name : look_up(offsets_of(frames))) {
    if (!of_interest(name) || names.size() == most) continue;
    std::string text = shortened(name.function);
    if (!name.place.empty()) text += " (" + name.place + ")";
    names.push_back(std::move(text));
  }
  return names;
}

std::string function_name(const void* function) {
  const auto names = look_up({offset_in_program(function)});
  return names.empty() ? "" : shortened(names.back().function);
}

std::string call_name(const Frames& frames) {
  for (const Named& name : look_up(offsets_of(frames))) {
    if (name.function.starts_with("nccl")) return "an NCCL call";  // it enqueues when it is polled
    if (name.function.starts_with("cuda") || name.function.starts_with("cublas"))
      return shortened(name.function);
  }
  return "a call";
}

}  // namespace trireme::emulated::order
