// SPDX-License-Identifier: Apache-2.0
// Llama in the config: the keys of its options (LlamaOptions) and their rules.
#pragma once

#include "runtime/config/key_table.h"

namespace trireme {

inline constexpr std::string_view llama_name = "llama";

[[nodiscard]] config::ModelFamily llama_family();

}  // namespace trireme
