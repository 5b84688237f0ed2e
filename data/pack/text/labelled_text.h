// SPDX-License-Identifier: Apache-2.0
// Texts with targets from JSON lines, as training needs them: whole texts in the tokens' frame that
// the model had, no longer than its context.
#pragma once

#include <string>
#include <vector>

#include "data/pack/pack_text.h"
#include "data/pack/text/text_source.h"

namespace trireme {

class StagedDirectory;

// Lines are, by PackTextOptions::targets:
//   label          {"text": ..., "label": a name, or a number from 0 on}
//   values         {"text": ..., "label": a number or a list of them; null: no target}
//   labels         {"text": ..., "label": [names or numbers of the labels that hold]}
//   token_classes  {"tokens": [words], "label": [a name or number for each; -100: no target]}
// The first token of a word has its class, other tokens and those around the text have none, as in
// transformers' example. json_field replaces "text" or "tokens". Names are numbered in alphabetical
// order, or as in classes_of, which then must have them. Writes the shards of one split, or of a
// training and a validation split, below `stage`, for `target`. Errors as pack_text().
[[nodiscard]] PackedText pack_labelled_text(const std::vector<TextPart>& parts,
                                            const PackTextOptions& options,
                                            const std::string& target, StagedDirectory& stage);

}  // namespace trireme
