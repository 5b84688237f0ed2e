// SPDX-License-Identifier: Apache-2.0
// The config.json that Hugging Face's libraries have beside weights, as a model of ours.
#pragma once

#include <string>

#include "runtime/config/model_config.h"

namespace trireme {

// Raises ExitCode::config for a kind of model that is not ours, or one of ours with a setting that
// we do not have.
[[nodiscard]] ModelConfig model_of_hf_config(const std::string& path);

// It must describe `model`, but for what weights do not depend on: the context where positions are
// rotary, dropout. A missing file is no fault.
void check_hf_config(const std::string& path, const ModelConfig& model);

}  // namespace trireme
