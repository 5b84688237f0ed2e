// SPDX-License-Identifier: Apache-2.0
// Tar archives, sound and otherwise.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

namespace trireme::test {

struct TarEntry {
  std::string name;
  std::string content;
  char type = '0';
  std::string magic = std::string("ustar\00000", 8);
  std::string size = "";  // the header's text; "": the size of the content
};

inline std::string tar_header(const TarEntry& entry) {
  std::string block(512, '\0');
  block.replace(0, entry.name.size(), entry.name);
  block.replace(100, 7, "0000644");
  const std::string size =
      entry.size.empty() ? fmt::format("{:011o}", entry.content.size()) : entry.size;
  block.replace(124, size.size(), size);
  block.replace(136, 11, "00000000000");
  block.replace(148, 8, "        ");
  block[156] = entry.type;
  block.replace(257, 8, entry.magic);
  unsigned sum = 0;
  for (const char byte : block)
    sum += static_cast<unsigned char>(byte);
  return block.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
}

inline std::string tar_member(const TarEntry& entry) {
  std::string bytes = tar_header(entry) + entry.content;
  return bytes + std::string((512 - bytes.size() % 512) % 512, '\0');
}

inline std::string pax_record(const std::string& key, const std::string& value) {
  const std::string rest = " " + key + "=" + value + "\n";
  std::size_t length = rest.size() + 1;
  while (std::to_string(length).size() + rest.size() != length)
    ++length;
  return std::to_string(length) + rest;
}

inline std::string tar_of(const std::vector<TarEntry>& entries) {
  std::string bytes;
  for (const TarEntry& entry : entries)
    bytes += tar_member(entry);
  return bytes + std::string(1024, '\0');
}

}  // namespace trireme::test
