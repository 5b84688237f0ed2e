// SPDX-License-Identifier: Apache-2.0
#include "launch/text/continuation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string_view>

#include "launch/engine/text/text_generator.h"
#include "launch/text/json_lines.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/json.h"

namespace trireme {

std::string Continuation::shown_up_to(std::size_t end) {
  std::string text = text_.substr(shown_, end - shown_);
  shown_ = end;
  return text;
}

// Start of the first stop text that ends after `from`; npos: none.
std::size_t Continuation::first_stop(std::size_t from) const {
  std::size_t first = std::string::npos;
  for (const std::string& stop : rules_.texts) {
    const std::size_t begin = from < stop.size() ? 0 : from - stop.size() + 1;
    first = std::min(first, text_.find(stop, begin));
  }
  return first;
}

// Length without the longest suffix that may begin a stop text.
std::size_t Continuation::certain() const {
  std::size_t end = text_.size();
  for (const std::string& stop : rules_.texts) {
    const std::size_t begin = text_.size() < stop.size() ? 0 : text_.size() - stop.size() + 1;
    for (std::size_t i = std::max(begin, shown_); i < end; ++i) {
      if (stop.starts_with(std::string_view(text_).substr(i))) end = i;
    }
  }
  return end;
}

std::string Continuation::take(std::int32_t token) {
  if (token == not_finite || token == TextGenerator::ended) {
    reason_ = token == not_finite ? "not_finite" : "context";
    return shown_up_to(text_.size());
  }
  if (std::ranges::find(rules_.ids, token) != rules_.ids.end()) {
    reason_ = "stop";
    return shown_up_to(text_.size());
  }
  ids_.push_back(token);
  const std::size_t before = text_.size();
  if (words_.known()) text_ += words_.text_of(token);
  if (const std::size_t stop = first_stop(before); stop != std::string::npos) {
    text_.resize(stop);
    reason_ = "stop";
  } else if (std::ssize(ids_) >= rules_.tokens) {
    reason_ = "length";
  }
  return shown_up_to(over() ? text_.size() : certain());
}

namespace {

using Json = nlohmann::json;

constexpr std::uint64_t settings_limit = std::uint64_t{1} << 24;

// One id or a list of ids.
std::vector<std::int32_t> end_tokens_in(const std::string& path) {
  const Json object = json_or_discarded(read_whole_file(path, settings_limit, ExitCode::config));
  if (!object.is_object())
    fail(ExitCode::config,
         "{}: is not a JSON object, so that the tokens that end a text are unknown; get the file "
         "again, or remove it",
         path);
  if (!object.contains("eos_token_id") || object["eos_token_id"].is_null()) return {};
  const Json& value = object["eos_token_id"];
  std::vector<std::int32_t> ids;
  for (const Json& id : value.is_array() ? value : Json::array({value})) {
    if (!id.is_number_unsigned() || id > std::numeric_limits<std::int32_t>::max())
      fail(ExitCode::config, "{}: eos_token_id: {} is not a token id, nor a list of them", path,
           value.dump());
    ids.push_back(id.get<std::int32_t>());
  }
  return ids;
}

}  // namespace

Prompt prompt_of_text(const std::string& text, const Words& words, const std::string& what) {
  if (text.empty())
    fail(ExitCode::config,
         "{}: is empty; give at least one character, or leave it out to begin with a new line",
         what);
  return {.text = text, .ids = words.tokens_of(text, what), .where = what};
}

std::vector<Prompt> read_prompts(const std::string& path, const Words& words,
                                 const ChatPieces* chat) {
  std::vector<Prompt> prompts;
  each_json_line(path, [&](const JsonLine& line) {
    if (chat != nullptr) {
      const std::string text = chat->prompt(line.messages("messages"), line.where());
      prompts.push_back(
          {.text = "", .ids = words.tokens_of(text, line.where()), .where = line.where()});
    } else if (line.has("prompt_ids")) {
      if (line.has("prompt"))
        fail(ExitCode::config, "{}: has a prompt and prompt_ids; leave one out", line.where());
      prompts.push_back({.text = "", .ids = line.ids("prompt_ids"), .where = line.where()});
      if (prompts.back().ids.empty()) fail(ExitCode::config, "{}: has no prompt ids", line.where());
    } else {
      prompts.push_back(prompt_of_text(line.text("prompt"), words, line.where()));
    }
  });
  if (prompts.empty()) fail(ExitCode::config, "{}: holds no prompt", path);
  return prompts;
}

std::vector<std::int32_t> end_tokens_of_run(const std::string& run) {
  for (const char* const name :
       {"generation_config.json", "hugging_face_config.json", "config.json"}) {
    const std::string path = run + "/" + name;
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored)) continue;
    if (auto ids = end_tokens_in(path); !ids.empty()) return ids;
  }
  return {};
}

namespace {

std::int64_t scored_tokens(const ScoredText& text) {
  return std::ssize(text.tokens) - text.first;
}

ScoredText text_of(const JsonLine& line, const Words& words, std::size_t& bytes) {
  std::string context = line.text("context"), continuation = line.text("continuation");
  const std::size_t end = context.find_last_not_of(" \t\n\r") + 1;
  if (end > 0) {
    continuation.insert(0, context, end, std::string::npos);
    context.resize(end);
  }
  bytes = continuation.size();
  const auto before = words.tokens_of(context, line.where());
  return {words.tokens_of(context + continuation, line.where()), std::ssize(before)};
}

}  // namespace

ScoredFile read_continuations(const std::string& path, const Words& words) {
  ScoredFile file{.path = path, .texts = {}, .bytes = {}};
  each_json_line(path, [&](const JsonLine& line) {
    std::size_t bytes = 0;
    ScoredText text;
    if (line.has("continuation_ids")) {
      text.tokens = line.ids("context_ids");
      text.first = std::ssize(text.tokens);
      const auto more = line.ids("continuation_ids");
      text.tokens.insert(text.tokens.end(), more.begin(), more.end());
    } else {
      text = text_of(line, words, bytes);
    }
    if (text.first < 1 || scored_tokens(text) < 1)
      fail(ExitCode::config, "{}: {} is empty, but a token is needed {} the scored text",
           line.where(), text.first < 1 ? "the context" : "the continuation",
           text.first < 1 ? "before" : "in");
    file.texts.push_back(std::move(text));
    file.bytes.push_back(bytes);
  });
  if (file.texts.empty()) fail(ExitCode::config, "{}: holds no continuation", path);
  return file;
}

std::string score_lines(const ScoredFile& file, std::span<const TextScore> scores) {
  std::string lines;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    nlohmann::ordered_json line;
    line["file"] = file.path;
    line["index"] = i;
    line["log_likelihood"] = scores[i].log_likelihood;
    line["is_greedy"] = scores[i].greedy;
    line["tokens"] = scored_tokens(file.texts[i]);
    if (file.bytes[i] > 0) line["bytes"] = file.bytes[i];
    lines += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  return lines;
}

std::string score_summary(const ScoredFile& file, std::span<const TextScore> scores) {
  double nats = 0, greedy = 0;
  std::int64_t tokens = 0;
  std::size_t bytes = 0;
  bool of_text = true;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    nats -= scores[i].log_likelihood;
    greedy += scores[i].greedy ? 1 : 0;
    tokens += scored_tokens(file.texts[i]);
    bytes += file.bytes[i];
    of_text = of_text && file.bytes[i] > 0;
  }
  const auto count = static_cast<double>(scores.size());
  std::string text = fmt::format(
      "{}: {} continuations of {} tokens, log-likelihood {:.6f} nats each, perplexity "
      "{:.4f}, greedy {:.4f} %",
      file.path, scores.size(), tokens, -nats / count, std::exp(nats / static_cast<double>(tokens)),
      100 * greedy / count);
  if (of_text)
    text += fmt::format(", bits per byte {:.6f}",
                        nats / std::numbers::ln2 / static_cast<double>(bytes));
  return text + "\n";
}

}  // namespace trireme
