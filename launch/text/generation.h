// SPDX-License-Identifier: Apache-2.0
// Prompts continued and written, by all copies of the model that a job has.
#pragma once

#include <span>

#include "launch/engine/text/text_generator.h"
#include "launch/text/continuation.h"
#include "launch/text/prompts.h"

namespace trireme {

// Rank 0 writes to standard output: the only prompt and its text as it comes, or with `lines` an
// object of JSON for each prompt, in their order, whichever copy continues it. False where an
// answer of the model was not finite. Collective over all ranks.
[[nodiscard]] bool continue_prompts(Session& session, TextGenerator& generator, const Words& words,
                                    const StopRules& stop, std::span<const Prompt> prompts,
                                    bool lines);

}  // namespace trireme
