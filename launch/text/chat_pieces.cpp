// SPDX-License-Identifier: Apache-2.0
#include "launch/text/chat_pieces.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "data/tokenizer/letters.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using json = nlohmann::json;

constexpr std::uint64_t largest_chat_file = 1 << 24;

json known_chat(const std::string& name) {
  json roles;
  for (const char* const role : {"system", "user", "assistant"}) {
    const bool chatml = name == "chatml";
    const std::string before =
        chatml ? fmt::format("<|im_start|>{}\n", role)
               : fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n", role);
    roles[role] = {{"before", before}, {"after", chatml ? "<|im_end|>\n" : "<|eot_id|>"}};
  }
  if (name == "chatml")
    return {{"begin", ""},
            {"generation", "<|im_start|>assistant\n"},
            {"end", "<|im_end|>"},
            {"trims", false},
            {"roles", roles}};
  const std::string begin = "<|begin_of_text|>";
  roles["system"]["before"] = begin + roles["system"]["before"].get<std::string>();
  return {{"begin", begin},
          {"generation", roles["assistant"]["before"]},
          {"end", "<|eot_id|>"},
          {"trims", true},
          {"roles", roles}};
}

}  // namespace

ChatPieces::ChatPieces(const std::string& chat_template) : name_(chat_template) {
  const bool known = chat_template == "chatml" || chat_template == "llama3";
  try {
    const json read =
        known ? known_chat(chat_template)
              : parse_json(read_whole_file(chat_template, largest_chat_file, ExitCode::config));
    begin_ = read.at("begin").get<std::string>();
    generation_ = read.at("generation").get<std::string>();
    end_ = read.at("end").get<std::string>();
    trims_ = read.at("trims").get<bool>();
    for (const auto& [role, around] : read.at("roles").items())
      roles_[role] = {around.at("before").get<std::string>(),
                      around.at("after").get<std::string>()};
  } catch (const json::exception& error) {
    fail(ExitCode::config,
         "{}: is not a file that scripts/pack_chats.py --pieces writes: {}; the templates chatml "
         "and llama3 need none",
         chat_template, error.what());
  }
}

std::string ChatPieces::prompt(const std::vector<ChatMessage>& messages,
                               const std::string& where) const {
  const bool system_first = !messages.empty() && messages.front().role == "system";
  std::string text = system_first ? "" : begin_;
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const auto& [role, content] = messages[i];
    const auto around = roles_.find(role);
    if (around == roles_.end())
      fail(ExitCode::config, "{}: message {} has the role '{}', which the template {} lacks", where,
           i + 1, role, name_);
    if (role == "system" && i > 0)
      fail(ExitCode::config, "{}: message {} is the system's; it must be the first", where, i + 1);
    text += around->second.before;
    text += trims_ ? stripped(content) : std::string_view(content);
    text += around->second.after;
  }
  if (messages.empty() || messages.back().role == "assistant")
    fail(ExitCode::config, "{}: the conversation must end with a message to be answered", where);
  return text + generation_;
}

}  // namespace trireme
