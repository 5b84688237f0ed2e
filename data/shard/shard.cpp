// SPDX-License-Identifier: Apache-2.0
#include "data/shard/shard.h"

#include <fmt/format.h>

#include <array>

#include "runtime/base/checksum.h"
#include "runtime/base/error.h"

namespace trireme {

std::string_view name_of(DataKind kind) {
  return kind == DataKind::tokens ? "tokens" : "images";
}

std::string_view name_of(TextTargets targets) {
  constexpr std::array<std::string_view, 5> names = {"none", "class", "values", "labels",
                                                     "token_classes"};
  return names[static_cast<std::size_t>(targets)];
}

std::uint64_t Shard::element_bytes() const {
  if (header.kind == DataKind::tokens) return size_of(header.dtype);
  return header.height * header.width * header.channels;
}

std::uint64_t Shard::index_bytes() const {
  if (header.kind == DataKind::tokens) return (header.documents + 1) * sizeof(std::uint64_t);
  return header.count * sizeof(std::int32_t);
}

std::string_view stored_name(DType dtype) {
  switch (dtype) {
    case DType::u8:
      return "uint8";
    case DType::u16:
      return "uint16";
    case DType::u32:
      return "uint32";
    default:
      return "";
  }
}

DType dtype_from_stored_name(std::string_view name) {
  for (const DType dtype : {DType::u8, DType::u16, DType::u32}) {
    if (name == stored_name(dtype)) return dtype;
  }
  return DType::f32;
}

Attributes attributes_of(const ShardHeader& header) {
  Attributes all = {{"format", std::string("trireme-shard")},
                    {"version", header.targets != TextTargets::none ? labelled_shard_version
                                : header.counted                    ? masked_shard_version
                                                                    : shard_version},
                    {"kind", std::string(name_of(header.kind))},
                    {"dtype", std::string(stored_name(header.dtype))},
                    {"shard_index", header.shard_index},
                    {"shard_count", header.shard_count},
                    {"count", header.count}};
  if (header.kind == DataKind::tokens) {
    all.emplace_back("documents", header.documents);
    all.emplace_back("continues", std::uint64_t{header.continues});
    all.emplace_back("tokenizer", header.tokenizer);
    all.emplace_back("vocabulary", header.vocabulary);
    if (header.counted) all.emplace_back("counted", *header.counted);
    if (header.targets != TextTargets::none) {
      all.emplace_back("targets", std::string(name_of(header.targets)));
      all.emplace_back("target_width", header.target_width);
      all.emplace_back("longest", header.longest);
      all.emplace_back("classes", join_classes(header.classes));
    }
  } else {
    all.emplace_back("height", header.height);
    all.emplace_back("width", header.width);
    all.emplace_back("channels", header.channels);
    all.emplace_back("classes", join_classes(header.classes));
  }
  all.emplace_back("payload_xxh3", header.payload_checksum);
  return all;
}

std::uint64_t header_checksum(const ShardHeader& header) {
  std::string text;
  for (const auto& [name, value] : attributes_of(header)) {
    std::visit([&](const auto& it) { text += fmt::format("{}={}\n", name, it); }, value);
  }
  return checksum_of(text);
}

std::string join_classes(const std::vector<std::string>& classes) {
  return fmt::format("{}", fmt::join(classes, "\n"));
}

std::vector<std::string> split_classes(std::string_view joined) {
  std::vector<std::string> classes;
  while (true) {
    const std::size_t end = joined.find('\n');
    classes.emplace_back(joined.substr(0, end));
    if (end == std::string_view::npos) return classes;
    joined.remove_prefix(end + 1);
  }
}

void require_class_names(const std::string& source, const std::vector<std::string>& classes) {
  for (const std::string& name : classes) {
    if (const std::size_t at = name.find_first_of(std::string_view("\n\0", 2)); at != name.npos)
      fail(ExitCode::data, "{}: the class '{}...' has a line break or NUL behind that; rename it",
           source, name.substr(0, at));
  }
}

std::string shard_file_name(std::uint64_t index) {
  return fmt::format("shard_{:05}.h5", index);
}

}  // namespace trireme
