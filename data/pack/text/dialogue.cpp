// SPDX-License-Identifier: Apache-2.0
#include "data/pack/text/dialogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "data/tokenizer/letters.h"
#include "runtime/base/error.h"
#include "runtime/base/json.h"

namespace trireme {
namespace {

using json = nlohmann::json;

constexpr std::array roles = {"system", "user", "assistant"};

void mark(MarkedTokens to, bool counts) {
  to.counted.resize(to.ids.size(), counts ? 1 : 0);
}

void add_text(std::string_view text, TextEncoder* encoder, bool begins, MarkedTokens to) {
  if (encoder != nullptr) return encoder->encode(text, to.ids, begins);
  for (const char byte : text)
    to.ids.push_back(static_cast<unsigned char>(byte));
}

// The problem of message `number` (from 1), or "".
std::string problem_of(const json& message, std::size_t number) {
  if (!message.is_object()) return fmt::format("message {} is not an object", number);
  for (const char* const field : {"role", "content"}) {
    const auto at = message.find(field);
    if (at == message.end()) return fmt::format("message {} has no field '{}'", number, field);
    if (!at->is_string())
      return fmt::format("message {} has {} in its field '{}', not text", number, at->type_name(),
                         field);
  }
  const auto& role = message["role"].get_ref<const std::string&>();
  if (std::ranges::find(roles, role) != roles.end()) return "";
  return fmt::format("message {} has the role '{}'; roles are {}", number, role,
                     fmt::join(roles, ", "));
}

// Reads a line's messages; returns its problem, or "".
std::string read_messages(std::string_view line, json& messages) {
  json whole;
  try {
    whole = parse_json(line);
  } catch (const json::parse_error& error) {
    return fmt::format("is not JSON (byte {})", error.byte);
  } catch (const JsonFault& error) {
    return error.what();
  }
  if (!whole.is_object()) return fmt::format("is {}, not an object", whole.type_name());
  const auto at = whole.find("messages");
  if (at == whole.end()) return "has no field 'messages'";
  if (!at->is_array())
    return fmt::format("has {} in its field 'messages', not a list", at->type_name());
  messages = std::move(*at);
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (std::string problem = problem_of(messages[i], i + 1); !problem.empty()) return problem;
  }
  return "";
}

}  // namespace

Dialogue::Dialogue(const Tokenizer* tokenizer, ChatTemplate chat, const std::string& tokenizer_path)
    : tokenizer_(tokenizer), chat_(chat) {
  if (chat == ChatTemplate::none) return;
  if (chat == ChatTemplate::rendered) return;
  if (!tokenizer->keeps_text())
    fail(ExitCode::config,
         "--chat-template: only byte-level tokenizers show where an answer begins in the tokens, "
         "which {} is not; pack its chats by scripts/pack_chats.py, which needs the model's "
         "tokenizer.json",
         tokenizer_path);
  const auto id_of = [&](const char* token) {
    const auto id = tokenizer->id_of(token);
    if (!id)
      fail(ExitCode::config,
           "--chat-template: '{}' is not in {}; use the template that the model was trained with, "
           "or a tokenizer that has this token",
           token, tokenizer_path);
    return *id;
  };
  if (chat == ChatTemplate::chatml) {
    begin_ = id_of("<|im_start|>");
    turn_end_ = id_of("<|im_end|>");
  } else {
    begin_ = id_of("<|start_header_id|>");
    header_end_ = id_of("<|end_header_id|>");
    turn_end_ = id_of("<|eot_id|>");
  }
}

std::string Dialogue::encode_pair(std::string_view line, TextEncoder* encoder,
                                  std::span<const std::uint32_t> end, MarkedTokens to) const {
  std::string prompt, completion;
  if (!read_json_line(line, "prompt", prompt)) return prompt;
  if (!read_json_line(line, "completion", completion)) return completion;
  if (!prompt.empty()) add_text(prompt, encoder, true, to);
  mark(to, false);
  if (!completion.empty()) add_text(completion, encoder, prompt.empty(), to);
  to.ids.insert(to.ids.end(), end.begin(), end.end());
  mark(to, true);
  return "";
}

std::string Dialogue::encode_rendered(std::string_view line, MarkedTokens to) const {
  const json whole = json_or_discarded(line);
  const auto ids = whole.is_object() ? whole.find("ids") : whole.end();
  const auto learn = whole.is_object() ? whole.find("learn") : whole.end();
  if (ids == whole.end() || learn == whole.end() || !ids->is_array() || !learn->is_array() ||
      ids->size() != learn->size())
    return "is not {\"ids\": [...], \"learn\": [...]} with lists of equal length";
  for (std::size_t i = 0; i < ids->size(); ++i) {
    const json &id = (*ids)[i], &counts = (*learn)[i];
    if (!id.is_number_unsigned() || id >= tokenizer_->vocabulary() || !(counts == 0 || counts == 1))
      return fmt::format("has the id {} with \"learn\" {}; ids are below {}, and learn is 0 or 1",
                         id.dump(), counts.dump(), tokenizer_->vocabulary());
    to.ids.push_back(id.get<std::uint32_t>());
    to.counted.push_back(counts.get<std::uint8_t>());
  }
  return "";
}

std::size_t Dialogue::tokens_within(std::span<const std::uint32_t> ids, std::size_t bytes) const {
  std::size_t count = 0, size = 0;
  while (count < ids.size()) {
    size += tokenizer_->text_of(ids.subspan(count, 1)).size();
    if (size > bytes) break;
    ++count;
  }
  return count;
}

// Special tokens are also recognised in contents, as in transformers.
void Dialogue::encode_message(const std::string& role, std::string_view content,
                              TextEncoder& encoder, MarkedTokens to) const {
  const bool chatml = chat_ == ChatTemplate::chatml, counts = role == "assistant";
  to.ids.push_back(begin_);
  std::string header = chatml ? role + "\n" : "\n\n";
  if (!chatml) {
    encoder.encode(role, to.ids);
    to.ids.push_back(header_end_);
    content = stripped(content);
  }
  const std::size_t first = to.ids.size();
  encoder.encode(header + std::string(content), to.ids);
  to.ids.push_back(turn_end_);
  to.counted.resize(first + tokens_within(std::span(to.ids).subspan(first), header.size()), 0);
  mark(to, counts);
  if (chatml) encoder.encode("\n", to.ids);
  mark(to, false);
}

std::string Dialogue::encode(std::string_view line, TextEncoder* encoder,
                             std::span<const std::uint32_t> end, MarkedTokens to) const {
  const std::size_t before = to.ids.size();
  if (chat_ == ChatTemplate::none) {
    if (std::string problem = encode_pair(line, encoder, end, to); !problem.empty()) return problem;
  } else if (chat_ == ChatTemplate::rendered) {
    mark(to, false);
    if (std::string problem = encode_rendered(line, to); !problem.empty()) return problem;
    to.ids.insert(to.ids.end(), end.begin(), end.end());
    mark(to, false);
  } else {
    json messages;
    if (std::string problem = read_messages(line, messages); !problem.empty()) return problem;
    for (const json& message : messages)
      encode_message(message["role"].get_ref<const std::string&>(),
                     message["content"].get_ref<const std::string&>(), *encoder, to);
    to.ids.insert(to.ids.end(), end.begin(), end.end());
    mark(to, false);
  }
  const auto marks = std::span(to.counted).subspan(before);
  if (std::ranges::find(marks, 1) != marks.end()) return "";
  return chat_ == ChatTemplate::none ? "has an empty completion, so no token is a target"
                                     : "has no message of the assistant, so no token is a target";
}

namespace {

using json = nlohmann::json;

// Stores only the field's text.
class FieldReader final : public json::json_sax_t {
 public:
  explicit FieldReader(const std::string& field) : field_(field) {}

  bool null() override { return other("null"); }
  bool boolean(bool /*value*/) override { return other("a boolean"); }
  bool number_integer(number_integer_t /*value*/) override { return other("a number"); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return other("a number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return other("a number");
  }
  bool binary(binary_t& /*value*/) override { return other("binary"); }
  bool string(string_t& value) override {
    if (!here()) return other("text");
    text = std::move(value);
    found_ = "";
    is_field_ = false;
    return true;
  }
  bool start_object(std::size_t /*elements*/) override { return open("an object"); }
  bool start_array(std::size_t /*elements*/) override { return open("a list"); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& value) override {
    if (depth_ == 1) is_field_ = value == field_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const json::exception& error) override {
    const std::string_view whole = error.what();
    const std::size_t at = whole.find("parse error");
    problem = fmt::format("is not JSON ({}, byte {})",
                          at == std::string_view::npos ? whole : whole.substr(at), position);
    return false;
  }

  // Empty if `text` holds it.
  [[nodiscard]] std::string verdict() const {
    if (!problem.empty()) return problem;
    if (found_.empty()) return "";
    return found_ == missing ? fmt::format("has no field '{}'", field_)
                             : fmt::format("has {} in its field '{}', not text", found_, field_);
  }

  std::string text, problem;

 private:
  static constexpr std::string_view missing = "nothing";

  [[nodiscard]] bool here() const { return depth_ == 1 && is_field_; }
  bool other(std::string_view kind) {
    if (depth_ == 0) problem = fmt::format("is {}, not an object", kind);
    if (here()) {
      found_ = kind;
      is_field_ = false;
    }
    return true;
  }
  bool open(std::string_view kind) {
    if (depth_ > 0 || kind != "an object") other(kind);
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  const std::string& field_;
  std::string_view found_ = missing;
  int depth_ = 0;
  bool is_field_ = false;  // the next value is the field's
};

}  // namespace

bool read_json_line(std::string_view line, const std::string& field, std::string& text) {
  FieldReader reader(field);
  static_cast<void>(read_json_events(line, reader));
  text = reader.verdict();
  if (!text.empty()) return false;
  text = std::move(reader.text);
  return true;
}

}  // namespace trireme
