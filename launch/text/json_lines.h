// SPDX-License-Identifier: Apache-2.0
// JSON lines files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launch/text/chat_pieces.h"

namespace trireme {

struct JsonObject;

class JsonLine {
 public:
  JsonLine(const JsonObject& object, std::string where)
      : object_(object), where_(std::move(where)) {}

  [[nodiscard]] const std::string& where() const { return where_; }  // "FILE:LINE"
  [[nodiscard]] bool has(const char* key) const;
  // The text or token ids of `key`. Raises ExitCode::config, naming the line.
  [[nodiscard]] std::string text(const char* key) const;
  [[nodiscard]] std::vector<std::int32_t> ids(const char* key) const;
  // A list of {"role": "...", "content": "..."}, likewise.
  [[nodiscard]] std::vector<ChatMessage> messages(const char* key) const;

 private:
  const JsonObject& object_;
  std::string where_;
};

// Calls `action` for each non-blank line, in order. Raises ExitCode::config, naming the line, if it
// is not an object.
void each_json_line(const std::string& path, const std::function<void(const JsonLine&)>& action);

}  // namespace trireme
