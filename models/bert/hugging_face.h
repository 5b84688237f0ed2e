// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/transformer/exchange.h"

namespace trireme::hugging_face {

// BertForMaskedLM.
[[nodiscard]] const Exchange& bert_exchange();

}  // namespace trireme::hugging_face
