// SPDX-License-Identifier: Apache-2.0
// GPT-2 in the config: the keys of its options (GptOptions) and their rules.
#pragma once

#include "runtime/config/key_table.h"

namespace trireme {

inline constexpr std::string_view gpt2_name = "gpt2";

[[nodiscard]] config::ModelFamily gpt2_family();

}  // namespace trireme
