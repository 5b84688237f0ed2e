// SPDX-License-Identifier: Apache-2.0
// Our GPT-2 in the names and the form of Hugging Face's GPT2LMHeadModel, both ways.
#pragma once

#include "models/transformer/exchange.h"

namespace trireme::hugging_face {

[[nodiscard]] const Exchange& gpt2_exchange();

}  // namespace trireme::hugging_face
