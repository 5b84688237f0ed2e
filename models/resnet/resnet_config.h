// SPDX-License-Identifier: Apache-2.0
// ResNet in the config: the keys of its options (ResNetOptions) and their rules.
#pragma once

#include "models/resnet/resnet.h"
#include "runtime/config/key_table.h"

namespace trireme {

inline constexpr std::string_view resnet_name = "resnet";

[[nodiscard]] config::ModelFamily resnet_family();
// The model that a config describes, with the augmentation of its data section.
[[nodiscard]] Chain resnet_chain(const Config& config);

}  // namespace trireme
