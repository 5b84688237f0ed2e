// SPDX-License-Identifier: Apache-2.0
// The sources that a config mixes.
#pragma once

#include <string>

#include "data/loader/sampler.h"
#include "data/sets/dataset.h"
#include "runtime/config/config.h"

namespace trireme {

// What decides the order of samples beside what the sources hold, for the fingerprint.
[[nodiscard]] std::string mixture_recipe(const Config& config);

// Of the training data: by the config's sources where `dataset` is made of them.
[[nodiscard]] Sampler make_sampler(const Config& config, const Dataset& dataset);

// "data/books 70 %, data/web 30 %", as the run begins; of one data set its path.
[[nodiscard]] std::string describe_training_data(const Config& config, const Dataset& dataset);

}  // namespace trireme
