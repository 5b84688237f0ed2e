// SPDX-License-Identifier: Apache-2.0
// The data sets that a config names: packed shards, or HDF5 files or images read in place.
#pragma once

#include <memory>
#include <string>

#include "data/fields/field_dataset.h"
#include "data/fields/field_options.h"
#include "data/sets/dataset.h"
#include "runtime/comm/communicator.h"
#include "runtime/config/config.h"

namespace trireme {

enum class DataPart : std::uint8_t { training, validation };

// The key that names it, for messages: "data.path".
[[nodiscard]] std::string data_key(const DataConfig& data, DataPart part);
// What the key says; "" for nothing.
[[nodiscard]] std::string data_text(const DataConfig& data, DataPart part);

// How samples lie in a batch of the config's model and data.
[[nodiscard]] SampleLayout sample_layout(const Config& config);

// For the model of `config`. Packed shards are opened by every rank; files in place are looked at
// by all of them together, each at its part of them, but for those of which run.directory keeps an
// index. Collective. Raises ExitCode::data.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(Communicator& world, const Config& config,
                                                    DataPart part);
// By this process alone.
[[nodiscard]] std::unique_ptr<Dataset> open_dataset(const Config& config, DataPart part);
// Packed shards or tokens of Megatron-LM at `path`, for the model of `config`.
[[nodiscard]] std::unique_ptr<Dataset> open_packed(const Config& config, const std::string& path,
                                                   DataPart part);

// With data.validation_fraction: those of the files of `training`, which are not looked at again;
// else null.
[[nodiscard]] std::shared_ptr<const Dataset> held_back_samples(const Config& config,
                                                               const Dataset& training);

// The training data in files read in place, whatever model the config has. By this process alone.
[[nodiscard]] std::unique_ptr<FieldDataset> open_files_alone(const Config& config);

// The data section as the data room takes it, scaling included: reads data.statistics.
[[nodiscard]] FieldOptions field_options(const Config& config, DataPart part);

// Keeps what was learned of files in place beside a run; called by one rank.
void keep_data_index(const std::string& run_directory, const Dataset& dataset, const Config& config,
                     DataPart part);

}  // namespace trireme
