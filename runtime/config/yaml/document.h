// SPDX-License-Identifier: Apache-2.0
// Parses YAML text to a small tree with line numbers. Supports only what a config needs: one
// document of plain maps, lists and scalars. Refuses anchors, aliases, tags, duplicate keys and
// deep nesting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

struct Node {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  int line = 1;                     // 1-based
  std::string text{};               // of a scalar
  bool quoted = false;              // a scalar marked as text by its quotes
  std::vector<std::string> keys{};  // of a map, beside `items`
  std::vector<int> key_lines{};     // of a map, beside `items`
  std::vector<Node> items{};        // of a list or map
};

inline constexpr std::size_t max_depth = 32;
inline constexpr std::size_t max_items = 1024;  // of one map or list
inline constexpr std::size_t max_bytes = std::size_t{1} << 20;

// Parses `text`; messages begin with `name` as "name:line: ". An empty document gives a null node.
// Raises ExitCode::config.
[[nodiscard]] Node parse_document(std::string_view text, std::string_view name);

// Reads a file for parse_document. Raises ExitCode::config if it is missing, a directory, or over
// max_bytes.
[[nodiscard]] std::string read_text_file(const std::string& path);

}  // namespace trireme::config
