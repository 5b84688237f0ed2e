// SPDX-License-Identifier: Apache-2.0
// The heads in Hugging Face's config.json.
#pragma once

#include "models/heads/head_options.h"
#include "models/transformer/hf_keys.h"

namespace trireme::hugging_face {

// "problem_type", and "id2label", by whose names transformers counts the outputs. Without a comma
// in front or behind.
[[nodiscard]] std::string head_text(const HeadChoice& head);

// "Bert" + "ForSequenceClassification" or "ForTokenClassification".
[[nodiscard]] std::string head_architecture(std::string_view prefix, const HeadChoice& head);

// By architectures and problem_type; `otherwise`: of a model whose architecture is none of these.
[[nodiscard]] HeadKind read_head_kind(const HfKeys& keys, HeadKind otherwise);
// The number of names in id2label, or num_labels; two if it does not say.
[[nodiscard]] std::int64_t outputs_of(const HfKeys& keys);

// Sets head, and classes or targets.
template <typename Options>
void read_head(const HfKeys& keys, Options& options) {
  const HeadKind otherwise = head_kind(Options{}), kind = read_head_kind(keys, otherwise);
  if (kind != otherwise) options.head = kind;
  if (kind == HeadKind::language) return;
  (kind == HeadKind::values ? options.targets : options.classes) = outputs_of(keys);
}
// Keys that the head leaves without effect, for comparisons of models.
template <typename Options>
void canonicalize_head(Options& options) {
  const Options plain;
  options.head = head_kind(options);
  const HeadChoice head = head_choice(options);
  if (head.kind != HeadKind::values) options.targets = plain.targets;
  if (head.is_language() || head.kind == HeadKind::values) options.classes = plain.classes;
}

}  // namespace trireme::hugging_face
