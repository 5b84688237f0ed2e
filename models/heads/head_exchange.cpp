// SPDX-License-Identifier: Apache-2.0
#include "models/heads/head_exchange.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace trireme::hugging_face {

std::string head_text(const HeadChoice& head) {
  const std::string_view problem = head.kind == HeadKind::values   ? "regression"
                                   : head.kind == HeadKind::labels ? "multi_label_classification"
                                                                   : "single_label_classification";
  std::string names;
  for (std::int64_t i = 0; i < head.outputs; ++i)
    names += fmt::format("{}\n    \"{}\": \"LABEL_{}\"", i == 0 ? "" : ",", i, i);
  const std::string type =
      head.of_tokens() ? "" : fmt::format("\"problem_type\": \"{}\",\n  ", problem);
  return fmt::format("{}\"id2label\": {{{}\n  }}", type, names);
}

std::string head_architecture(std::string_view prefix, const HeadChoice& head) {
  return fmt::format("{}{}", prefix,
                     head.of_tokens() ? "ForTokenClassification" : "ForSequenceClassification");
}

HeadKind read_head_kind(const HfKeys& keys, HeadKind otherwise) {
  const std::string problem = keys.text("problem_type");
  const HfKeys::Json* const all = keys.find("architectures");
  const std::string name =
      all != nullptr && all->is_array() && !all->empty() && all->front().is_string()
          ? all->front().get<std::string>()
          : "";
  if (name.ends_with("ForTokenClassification")) return HeadKind::token_classes;
  if (!name.ends_with("ForSequenceClassification") && !name.ends_with("ForImageClassification"))
    return otherwise;
  if (problem == "multi_label_classification") return HeadKind::labels;
  // Without a problem_type, transformers takes one output for regression.
  if (problem == "regression" || (problem.empty() && outputs_of(keys) == 1))
    return HeadKind::values;
  if (problem.empty() || problem == "single_label_classification") return HeadKind::classes;
  keys.refuse("problem_type",
              "supported are regression, single_label_classification and "
              "multi_label_classification");
}

std::int64_t outputs_of(const HfKeys& keys) {
  const HfKeys::Json* const labels = keys.find("id2label");
  if (labels != nullptr && labels->is_object()) return static_cast<std::int64_t>(labels->size());
  return keys.find("num_labels") != nullptr ? keys.size("num_labels") : 2;
}

}  // namespace trireme::hugging_face
