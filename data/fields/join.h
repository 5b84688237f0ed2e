// SPDX-License-Identifier: Apache-2.0
// Targets in files of their own: one label file for many files of samples, or inputs in one file
// and labels in another. Private to this folder.
#pragma once

#include <vector>

#include "data/fields/field_options.h"
#include "data/hdf5/field_scan.h"

namespace trireme {

// The request for options.target_files: the targets, and the names of their rows if there are any.
[[nodiscard]] ScanRequest target_request(const FieldOptions& options);

// Puts the targets behind the inputs of every unit: to each its rows, along the first axis. Rows
// are in the order of the samples (files, units, positions along N), or named by
// options.target_names. Raises ExitCode::data, naming files and numbers, if there are more or fewer
// rows than samples, or a sample has no row of its name.
void join_targets(std::vector<FileIndex>& samples, const std::vector<FileIndex>& targets,
                  const FieldOptions& options);

}  // namespace trireme
