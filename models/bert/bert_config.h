// SPDX-License-Identifier: Apache-2.0
// BERT in the config: the keys of its options (BertOptions) and their rules.
#pragma once

#include "runtime/config/key_table.h"

namespace trireme {

inline constexpr std::string_view bert_name = "bert";

[[nodiscard]] config::ModelFamily bert_family();

}  // namespace trireme
