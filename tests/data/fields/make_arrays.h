// SPDX-License-Identifier: Apache-2.0
// Writes .npy files and .npz archives byte by byte, as NumPy does.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trireme::test {

// `shape`: as Python writes it: "(3, 2)".
template <typename Number>
std::string npy_bytes(const std::string& type, const std::string& shape,
                      const std::vector<Number>& values, const std::string& order = "False") {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes += static_cast<char>(header.size() & 255);
  bytes += static_cast<char>(header.size() >> 8);
  const auto stored = std::as_bytes(std::span(values));
  return bytes + header + std::string(reinterpret_cast<const char*>(stored.data()), stored.size());
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string raw_deflate(const std::string& from) {
  std::string to(compressBound(from.size()) + 64, '\0');
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(from.data()));
  stream.avail_in = static_cast<uInt>(from.size());
  stream.next_out = reinterpret_cast<Bytef*>(to.data());
  stream.avail_out = static_cast<uInt>(to.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  to.resize(stream.total_out);
  deflateEnd(&stream);
  return to;
}

// Members by name; `deflated`: compressed, as numpy.savez_compressed.
inline std::string zip_bytes(const std::vector<std::pair<std::string, std::string>>& members,
                             bool deflated) {
  std::string bytes, directory;
  const auto number = [](std::string& to, std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i)
      to += static_cast<char>(value >> (8 * i) & 255);
  };
  for (const auto& [name, content] : members) {
    const std::string stored = deflated ? raw_deflate(content) : content;
    const std::size_t at = bytes.size();
    std::string common;
    number(common, 20, 2);  // version
    number(common, 0, 2);
    number(common, deflated ? 8 : 0, 2);
    number(common, 0, 4);  // time, date: not read
    number(
        common,
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())),
        4);
    number(common, stored.size(), 4);
    number(common, content.size(), 4);
    number(common, name.size(), 2);
    bytes += "PK\x03\x04" + common;
    number(bytes, 4, 2);
    bytes += name + std::string("\x99\x00\x00\x00", 4);  // an extra field
    bytes += stored;
    directory += "PK\x01\x02";
    number(directory, 20, 2);
    directory += common;
    number(directory, 0, 12);
    number(directory, at, 4);
    directory += name;
  }
  const std::size_t start = bytes.size();
  bytes += directory + std::string("PK\x05\x06\0\0\0\0", 8);
  number(bytes, members.size(), 2);
  number(bytes, members.size(), 2);
  number(bytes, directory.size(), 4);
  number(bytes, start, 4);
  number(bytes, 0, 2);
  return bytes;
}

}  // namespace trireme::test
