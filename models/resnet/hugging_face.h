// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/transformer/exchange.h"

namespace trireme::hugging_face {

// ResNetForImageClassification.
[[nodiscard]] const Exchange& resnet_exchange();

}  // namespace trireme::hugging_face
