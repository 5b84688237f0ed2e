// SPDX-License-Identifier: Apache-2.0
// Images in archives and class folders that a config names, read in place.
#pragma once

#include <memory>
#include <string>

#include "data/images/files_dataset.h"
#include "runtime/comm/communicator.h"
#include "runtime/config/config.h"

namespace trireme {

// The data section for the data room. Training images are cropped at random if the config says so;
// evaluation takes their centre.
[[nodiscard]] ImageOptions image_options(const Config& config, const DataSource& data,
                                         DataPart part);

// Looked through by all ranks together, each at its part of the archives or folders, but for those
// that `index_file` keeps. Collective. Raises ExitCode::data.
[[nodiscard]] std::unique_ptr<ImageFilesDataset> open_images(Communicator& world,
                                                             const ImageOptions& options,
                                                             const std::string& index_file);

}  // namespace trireme
