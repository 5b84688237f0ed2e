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
// The key's value; "" if unset.
[[nodiscard]] std::string data_text(const DataConfig& data, DataPart part);

// The layout of samples for the config's model and data.
[[nodiscard]] SampleLayout sample_layout(const Config& config);

// For the model of `config`; a MixtureDataset if there are several sources. Every rank opens packed
// shards; files in place are indexed by all ranks together, a part each, except those with an index
// in run.directory and those that `training`, already open, holds back. Collective. Raises
// ExitCode::data.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(Communicator& world, const Config& config,
                                                    DataPart part,
                                                    const Dataset* training = nullptr);
// By this process alone.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(const Config& config, DataPart part);

// Stores the index of files read in place, if the config says so. By one process.
void keep_data_index(const Dataset& dataset, const Config& config, DataPart part);

// The training data in files read in place, for any model. `masked`: value of inputs where
// data.mask is 0. By this process alone.
[[nodiscard]] std::unique_ptr<FieldDataset> open_files_alone(const Config& config,
                                                             float masked = 0);

}  // namespace trireme
