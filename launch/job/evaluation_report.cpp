// SPDX-License-Identifier: Apache-2.0
#include "launch/job/evaluation_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>
#include <utility>
#include <vector>

namespace trireme {
namespace {

using json = nlohmann::ordered_json;

double bits_per_byte(const EvaluatedData& evaluated) {
  return evaluated.result.loss / std::numbers::ln2 * evaluated.result.targets / evaluated.bytes;
}

// Targets are the classes of tokens or samples, so the most likely ones are meaningful.
bool ranks(TargetKind kind) {
  return kind == TargetKind::tokens || kind == TargetKind::label;
}

// For a whole data set or a part of it.
json numbers(const EvaluationPart& result, const TargetSpec& targets) {
  json all = {{"loss", result.loss}};
  if (ranks(targets.kind)) {
    all["top1"] = result.correct;
    all["top5"] = result.second;
  }
  const Qualities values = qualities_of(targets, result);
  for (const Quality& quality : qualities) {
    const bool known = ranks(targets.kind) && quality.key == "accuracy";  // top1
    if (const auto value = values.*quality.value; value && !known)
      all[std::string(quality.key)] = *value;
  }
  all["targets"] = static_cast<std::int64_t>(result.targets);
  return all;
}

// The same, as names and texts of values.
std::vector<std::pair<std::string_view, std::string>> measured(const EvaluationPart& result,
                                                               const TargetSpec& targets) {
  const auto share = [](double value) { return fmt::format("{:.4f} %", 100 * value); };
  std::vector<std::pair<std::string_view, std::string>> all;
  if (ranks(targets.kind))
    all = {{"accuracy", share(result.correct)}, {"top 5", share(result.second)}};
  const Qualities values = qualities_of(targets, result);
  for (const Quality& quality : qualities)
    if (const auto value = values.*quality.value;
        value && (all.empty() || quality.key != "accuracy"))
      all.emplace_back(quality.key,
                       quality.is_share ? share(*value) : fmt::format("{:.6f}", *value));
  return all;
}

}  // namespace

std::string evaluation_text(const EvaluatedData& evaluated) {
  const EvaluationResult& result = evaluated.result;
  const std::string_view unit = evaluated.targets.kind == TargetKind::values ? "" : " nats";
  std::string text =
      fmt::format("data      {}\nsamples   {} of {}\nloss      {:.6f}{}\n", evaluated.data,
                  evaluated.samples, evaluated.of, result.loss, unit);
  if (evaluated.targets.kind == TargetKind::tokens)
    text += fmt::format("perplexity {:.4f}\nbits per token {:.6f}\n", std::exp(result.loss),
                        result.loss / std::numbers::ln2);
  if (evaluated.bytes > 0) text += fmt::format("bits per byte {:.6f}\n", bits_per_byte(evaluated));
  for (const auto& [name, value] : measured(result, evaluated.targets))
    text += fmt::format("{:<9} {}\n", name, value);
  for (const EvaluationPart& part : result.parts) {
    if (part.source.empty()) continue;
    text += fmt::format("{}: loss {:.6f}{}", part.source, part.loss, unit);
    for (const auto& [name, value] : measured(part, evaluated.targets))
      text += fmt::format(", {} {}", name, value);
    text += "\n";
  }
  return text;
}

std::string evaluation_json(const std::string& run, const std::string& weights,
                            std::span<const EvaluatedData> results) {
  json data = json::array();
  for (const EvaluatedData& evaluated : results) {
    json one = {{"data", evaluated.data}, {"samples", evaluated.samples}, {"of", evaluated.of}};
    one.update(numbers(evaluated.result, evaluated.targets));
    if (evaluated.targets.kind == TargetKind::tokens) {
      one["perplexity"] = std::exp(evaluated.result.loss);
      one["bits_per_token"] = evaluated.result.loss / std::numbers::ln2;
    }
    if (evaluated.bytes > 0) one["bits_per_byte"] = bits_per_byte(evaluated);
    for (const EvaluationPart& part : evaluated.result.parts) {
      if (!part.source.empty()) one["sources"][part.source] = numbers(part, evaluated.targets);
    }
    data.push_back(std::move(one));
  }
  const json all = {{"run", run}, {"weights", weights}, {"results", std::move(data)}};
  return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace trireme
