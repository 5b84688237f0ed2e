// SPDX-License-Identifier: Apache-2.0
// The data sets that a config names: packed shards, or HDF5 files or images read in place.
#pragma once

#include <memory>
#include <string>

#include "data/fields/field_dataset.h"
#include "data/sets/dataset.h"
#include "runtime/comm/communicator.h"
#include "runtime/config/config.h"

namespace trireme {

// The key that names it, for messages: "data.path".
[[nodiscard]] std::string data_key(const DataConfig& data, DataPart part);
// What the key says; "" for nothing.
[[nodiscard]] std::string data_text(const DataConfig& data, DataPart part);

// How samples lie in a batch of the config's model and data.
[[nodiscard]] SampleLayout sample_layout(const Config& config);

// For the model of `config`; of several sources a MixtureDataset. Packed shards are opened by every
// rank; files in place are looked at by all of them together, each at its part of them, but for
// those of which run.directory keeps an index, and those that `training`, already open, holds back.
// Collective. Raises ExitCode::data.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(Communicator& world, const Config& config,
                                                    DataPart part,
                                                    const Dataset* training = nullptr);
// By this process alone.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(const Config& config, DataPart part);

// Where the config says so, keeps the index that was made of files read in place. By one process.
void keep_data_index(const Dataset& dataset, const Config& config, DataPart part);

// The training data in files read in place, whatever model the config has. `masked`: what inputs
// become where data.mask is 0. By this process alone.
[[nodiscard]] std::unique_ptr<FieldDataset> open_files_alone(const Config& config,
                                                             float masked = 0);

}  // namespace trireme
