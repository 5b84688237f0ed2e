// SPDX-License-Identifier: Apache-2.0
// Converts the config.json of Hugging Face's libraries to our model config.
#pragma once

#include <string>

#include "runtime/config/model_config.h"

namespace trireme {

// Raises ExitCode::config for an unsupported kind of model or setting.
[[nodiscard]] ModelConfig model_of_hf_config(const std::string& path);

// Checks that it describes `model`, ignoring keys that weights do not depend on: dropout, and the
// context of rotary models. A missing file is no error.
void check_hf_config(const std::string& path, const ModelConfig& model);

}  // namespace trireme
