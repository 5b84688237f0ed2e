// SPDX-License-Identifier: Apache-2.0
// ViT in the config: the keys of its options (VitOptions) and their rules.
#pragma once

#include "models/vit/vit.h"
#include "runtime/config/key_table.h"

namespace trireme {

inline constexpr std::string_view vit_name = "vit";

[[nodiscard]] config::ModelFamily vit_family();
// The model that a config describes, with the augmentation of its data section.
[[nodiscard]] Chain vit_chain(const Config& config);

}  // namespace trireme
