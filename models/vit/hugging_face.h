// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/transformer/exchange.h"

namespace trireme::hugging_face {

// ViTForImageClassification.
[[nodiscard]] const Exchange& vit_exchange();

}  // namespace trireme::hugging_face
