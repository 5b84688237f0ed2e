// SPDX-License-Identifier: Apache-2.0
#include "launch/text/continuation_scores.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "launch/text/json_lines.h"
#include "runtime/base/error.h"

namespace trireme {
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
      fail(ExitCode::config, "{}: {} is empty, and a token has to stand {} what is scored",
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
