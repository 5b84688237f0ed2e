// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/error.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace trireme {
namespace {

std::string& label_storage() {
  static std::string label = "rank 0/1";
  return label;
}

// Paths in messages start at the repository, not at the build machine's root.
std::string_view short_file(std::string_view path) {
  for (const std::string_view room : {"/runtime/", "/models/", "/data/", "/launch/", "/tests/"}) {
    if (const auto at = path.rfind(room); at != std::string_view::npos) return path.substr(at + 1);
  }
  return path;
}

std::string place(const std::source_location& where) {
  return fmt::format("{}:{}", short_file(where.file_name()), where.line());
}

}  // namespace

void library_failed(std::string_view call, std::string_view reason, ExitCode code,
                    std::source_location where) {
  throw Error(code, fmt::format("{}: {} failed: {}", place(where), call, reason));
}

void system_failed(std::string_view call, std::string_view subject, ExitCode code,
                   std::source_location where) {
  const int number = errno;
  const char* const name = strerrorname_np(number);
  throw Error(code, fmt::format("{}: {}({}) failed: {} ({})", place(where), call, subject,
                                name == nullptr ? "errno" : name, std::strerror(number)));
}

namespace detail {
void expectation_failed(std::string_view condition, const std::string& message,
                        std::source_location where) {
  throw Error(ExitCode::internal,
              fmt::format("{}: expected {}: {}", place(where), condition, message));
}
}  // namespace detail

void set_process_label(int rank, int size) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  label_storage() = fmt::format("rank {}/{} {}", rank, size, host.data());
}

const std::string& process_label() {
  return label_storage();
}

}  // namespace trireme
