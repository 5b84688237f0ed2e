// SPDX-License-Identifier: Apache-2.0
#include "launch/text/prompts.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "launch/text/json_lines.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t settings_limit = std::uint64_t{1} << 24;

// One id or a list of ids; other values are ignored.
std::vector<std::int32_t> end_tokens_in(const std::string& path) {
  const Json object = json_or_discarded(read_whole_file(path, settings_limit, ExitCode::config));
  if (!object.is_object() || !object.contains("eos_token_id")) return {};
  const Json& value = object["eos_token_id"];
  std::vector<std::int32_t> ids;
  for (const Json& id : value.is_array() ? value : Json::array({value})) {
    if (id.is_number_unsigned()) ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace

Prompt prompt_of_text(const std::string& text, const Words& words, const std::string& what) {
  if (text.empty())
    fail(
        ExitCode::config,
        "{}: is empty, and a text begins with something; give a character or more, or leave it out "
        "to begin with a new line",
        what);
  return {text, words.tokens_of(text, what), what};
}

std::vector<Prompt> read_prompts(const std::string& path, const Words& words) {
  std::vector<Prompt> prompts;
  each_json_line(path, [&](const JsonLine& line) {
    if (line.has("prompt_ids")) {
      if (line.has("prompt"))
        fail(ExitCode::config, "{}: has a prompt and prompt_ids; leave one out", line.where());
      prompts.push_back({"", line.ids("prompt_ids"), line.where()});
      if (prompts.back().ids.empty()) fail(ExitCode::config, "{}: has no prompt ids", line.where());
    } else {
      prompts.push_back(prompt_of_text(line.text("prompt"), words, line.where()));
    }
  });
  if (prompts.empty()) fail(ExitCode::config, "{}: holds no prompt", path);
  return prompts;
}

std::vector<std::int32_t> end_tokens_of_run(const std::string& run) {
  for (const char* const name : {"generation_config.json", "config.json"}) {
    const std::string path = run + "/" + name;
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) continue;
    if (auto ids = end_tokens_in(path); !ids.empty()) return ids;
  }
  return {};
}

}  // namespace trireme
