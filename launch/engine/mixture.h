// SPDX-License-Identifier: Apache-2.0
// The mixture of data sources that a config defines.
#pragma once

#include <string>

#include "data/loader/sampler.h"
#include "data/sets/dataset.h"
#include "runtime/config/config.h"

namespace trireme {

// The settings, beside the sources' contents, that fix the order of samples; for fingerprints.
[[nodiscard]] std::string mixture_recipe(const Config& config);

// For training data: draws by the config's sources if `dataset` is a mixture.
[[nodiscard]] Sampler make_sampler(const Config& config, const Dataset& dataset);

// For the log: "data/books 70 %, data/web 30 %", or the path of a single data set.
[[nodiscard]] std::string describe_training_data(const Config& config, const Dataset& dataset);

}  // namespace trireme
