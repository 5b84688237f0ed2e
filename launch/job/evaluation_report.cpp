// SPDX-License-Identifier: Apache-2.0
#include "launch/job/evaluation_report.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

namespace trireme {
namespace {

using json = nlohmann::ordered_json;

double bits_per_byte(const EvaluatedData& evaluated) {
  return evaluated.result.loss / std::numbers::ln2 * evaluated.result.targets / evaluated.bytes;
}

// For a whole data set or a part of it.
template <typename Result>
json numbers(const Result& result) {
  return {{"loss", result.loss},
          {"top1", result.accuracy},
          {"top5", result.top5},
          {"targets", static_cast<std::int64_t>(result.targets)}};
}

}  // namespace

std::string evaluation_text(const EvaluatedData& evaluated) {
  const EvaluationResult& result = evaluated.result;
  std::string text = fmt::format("data      {}\nsamples   {} of {}\nloss      {:.6f} nats\n",
                                 evaluated.data, evaluated.samples, evaluated.of, result.loss);
  if (evaluated.tokens)
    text += fmt::format("perplexity {:.4f}\nbits per token {:.6f}\n", std::exp(result.loss),
                        result.loss / std::numbers::ln2);
  if (evaluated.bytes > 0) text += fmt::format("bits per byte {:.6f}\n", bits_per_byte(evaluated));
  text += fmt::format("accuracy  {:.4f} %\ntop 5     {:.4f} %\n", 100 * result.accuracy,
                      100 * result.top5);
  for (const EvaluationResult::Part& part : result.parts) {
    if (!part.source.empty())
      text += fmt::format("{}: loss {:.6f} nats, accuracy {:.4f} %, top 5 {:.4f} %\n", part.source,
                          part.loss, 100 * part.accuracy, 100 * part.top5);
  }
  return text;
}

std::string evaluation_json(const std::string& run, const std::string& weights,
                            std::span<const EvaluatedData> results) {
  json data = json::array();
  for (const EvaluatedData& evaluated : results) {
    json one = {{"data", evaluated.data}, {"samples", evaluated.samples}, {"of", evaluated.of}};
    one.update(numbers(evaluated.result));
    if (evaluated.tokens) {
      one["perplexity"] = std::exp(evaluated.result.loss);
      one["bits_per_token"] = evaluated.result.loss / std::numbers::ln2;
    }
    if (evaluated.bytes > 0) one["bits_per_byte"] = bits_per_byte(evaluated);
    for (const EvaluationResult::Part& part : evaluated.result.parts) {
      if (!part.source.empty()) one["sources"][part.source] = numbers(part);
    }
    data.push_back(std::move(one));
  }
  const json all = {{"run", run}, {"weights", weights}, {"results", std::move(data)}};
  return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace trireme
