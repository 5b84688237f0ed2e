// SPDX-License-Identifier: Apache-2.0
#include "launch/text/json_lines.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace trireme {

using Json = nlohmann::json;

struct JsonObject {
  Json value;

  // The value of `key`, for messages.
  [[nodiscard]] std::string said(const char* key) const {
    const auto found = value.find(key);
    return found == value.end() ? "missing"
                                : found->dump(-1, ' ', true, Json::error_handler_t::replace);
  }
};

namespace {

constexpr std::uint64_t lines_limit = std::uint64_t{1} << 32;

}  // namespace

bool JsonLine::has(const char* key) const {
  return object_.value.contains(key);
}

std::string JsonLine::text(const char* key) const {
  if (!has(key) || !object_.value[key].is_string())
    fail(ExitCode::config, "{}: \"{}\" is {}, expected a string", where_, key, object_.said(key));
  return object_.value[key].get<std::string>();
}

std::vector<std::int32_t> JsonLine::ids(const char* key) const {
  const auto refuse = [&] {
    fail(ExitCode::config, "{}: \"{}\" is {}, expected a list of token ids", where_, key,
         object_.said(key));
  };
  if (!has(key) || !object_.value[key].is_array()) refuse();
  std::vector<std::int32_t> ids;
  for (const Json& id : object_.value[key]) {
    if (!id.is_number_unsigned() ||
        id.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max())
      refuse();
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

std::vector<ChatMessage> JsonLine::messages(const char* key) const {
  std::vector<ChatMessage> messages;
  const auto text = [](const Json& message, const char* field) {
    return message.is_object() && message.contains(field) && message[field].is_string();
  };
  const bool list = has(key) && object_.value[key].is_array();
  for (const Json& message : list ? object_.value[key] : Json::array({nullptr})) {
    if (!text(message, "role") || !text(message, "content"))
      fail(ExitCode::config,
           "{}: \"{}\" is {}, expected a list of {{\"role\": text, \"content\": text}}", where_,
           key, object_.said(key));
    messages.push_back({message["role"].get<std::string>(), message["content"].get<std::string>()});
  }
  return messages;
}

void each_json_line(const std::string& path, const std::function<void(const JsonLine&)>& action) {
  std::istringstream file(read_whole_file(path, lines_limit, ExitCode::config));
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    std::string where = fmt::format("{}:{}", path, number);
    const JsonObject object{json_or_discarded(line)};
    if (!object.value.is_object()) fail(ExitCode::config, "{}: is not a JSON object", where);
    action(JsonLine(object, std::move(where)));
  }
}

}  // namespace trireme
