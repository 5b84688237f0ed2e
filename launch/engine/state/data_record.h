// SPDX-License-Identifier: Apache-2.0
// RUN/data.json records the data that a run was trained on, to compare other data with it.
#pragma once

#include <optional>
#include <string>

#include "data/sets/dataset.h"
#include "data/sets/id_names.h"

namespace trireme {

// Called by one rank. Atomic. Writes nothing if the data set does not describe its ids.
void keep_data_record(const std::string& run_directory, const Dataset& training);

// Raises ExitCode::data, naming both, if ids or labels of `data` mean something else than those the
// run was trained on (data/sets/id_names.h). Accepts runs from before the record existed.
void require_ids_of_run(const std::string& run_directory, const Dataset& data);
// The record's content, or for an imported run without one its tokenizer; nothing if there is
// neither.
[[nodiscard]] std::optional<IdNames> ids_of_run(const std::string& run_directory);
// The same for `given`.
void require_ids_of_run(const std::string& run_directory, const IdNames& given);

// The tokenizer file in the run directory; "" for none.
[[nodiscard]] std::string tokenizer_of_run(const std::string& run_directory);

}  // namespace trireme
