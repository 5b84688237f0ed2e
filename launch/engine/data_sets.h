// SPDX-License-Identifier: Apache-2.0
// The data sets that a config names: packed shards, or HDF5 files or images read in place.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/fields/field_dataset.h"
#include "data/images/files_dataset.h"
#include "data/loader/sampler.h"
#include "data/sets/dataset.h"
#include "data/staging/staging.h"
#include "models/registry.h"
#include "runtime/comm/communicator.h"
#include "runtime/config/config.h"

namespace trireme {

struct RankProcess;

// The key that names it, for messages: "data.path".
[[nodiscard]] std::string data_key(const DataConfig& data, DataPart part);
// The key's value; "" if unset.
[[nodiscard]] std::string data_text(const DataConfig& data, DataPart part);

// The layout of samples for a model and the config's data, as a rank of a tensor group reads them.
[[nodiscard]] SampleLayout sample_layout(const Config& config, const ModelTraits& model,
                                         int tensor_rank = 0);

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

// The data section as the data module takes images in archives and class folders. To train on,
// images are cropped at random where the config says so; to evaluate on, their centre is taken.
[[nodiscard]] ImageOptions image_options(const Config& config, const DataSource& data,
                                         DataPart part);

// Looked through by all ranks together, each at its part of the archives or folders, but for those
// that `index_file` keeps. Collective. Raises ExitCode::data.
[[nodiscard]] std::unique_ptr<ImageFilesDataset> open_images(Communicator& world,
                                                             const ImageOptions& options,
                                                             const std::string& index_file);

// The settings, beside the sources' contents, that fix the order of samples; for fingerprints.
[[nodiscard]] std::string mixture_recipe(const Config& config);

// For training data: draws by the config's sources if `dataset` is a mixture.
[[nodiscard]] Sampler make_sampler(const Config& config, const Dataset& dataset);

// Replaces train.epochs, if it is given, by train.steps, for which the training data are opened: by
// all ranks together, or by this process alone. `given` is not yet resolved. Raises
// ExitCode::config and data.
void settle_epochs(Config& given, Provenance& where, const RankProcess& process);  // collective
void settle_epochs(Config& given, Provenance& where);

// For the log: "data/books 70 %, data/web 30 %", or the path of a single data set.
[[nodiscard]] std::string describe_training_data(const Config& config, const Dataset& dataset);

// Starts to copy the files of `sets` to data.stage of every host, shared among its ranks, and
// returns; null if the config sets none. Raises ExitCode::config on all ranks if a host's directory
// cannot be used; a full disk is only logged. Collective; blocks the host.
[[nodiscard]] std::unique_ptr<Staging> start_staging(Communicator& world, const DataConfig& data,
                                                     const std::vector<const Dataset*>& sets);

}  // namespace trireme
