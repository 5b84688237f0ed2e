// SPDX-License-Identifier: Apache-2.0
#include "data/index_file.h"

#include <cstring>

#include "runtime/base/atomic_file.h"
#include "runtime/base/checksum.h"
#include "runtime/base/file.h"

namespace trireme {

void keep_index_file(const std::string& path, const std::string& request, std::string_view bytes) {
  std::string text = request + "\n";
  text += bytes;
  const std::uint64_t sum = checksum_of(text);
  std::string head(sizeof(sum), '\0');
  std::memcpy(head.data(), &sum, sizeof(sum));
  write_file(path, head + text, ExitCode::internal);
}

std::string kept_index_file(const std::string& path, const std::string& request) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 34;
  auto text = read_file_if_exists(path, limit, ExitCode::data);
  std::uint64_t sum = 0;
  if (!text || text->size() < sizeof(sum)) return "";
  std::memcpy(&sum, text->data(), sizeof(sum));
  text->erase(0, sizeof(sum));
  if (checksum_of(*text) != sum || !text->starts_with(request + "\n")) return "";
  return text->substr(request.size() + 1);
}

}  // namespace trireme
