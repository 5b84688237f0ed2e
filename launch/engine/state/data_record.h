// SPDX-License-Identifier: Apache-2.0
// RUN/data.json: what a run was trained on, for other data to be compared with.
#pragma once

#include <optional>
#include <string>

#include "data/sets/dataset.h"
#include "data/sets/id_names.h"

namespace trireme {

// Called by one rank. Atomic. Writes nothing for a data set that does not say what its ids are.
void keep_data_record(const std::string& run_directory, const Dataset& training);

// Raises ExitCode::data, naming both, when ids or labels of `data` stand for something else than
// those the run was trained on (data/sets/id_names.h). Runs from before there was a record are
// accepted.
void require_ids_of_run(const std::string& run_directory, const Dataset& data);
// What the record says, or of a run without one, as an import leaves it, its tokenizer; nothing
// where there is neither.
[[nodiscard]] std::optional<IdNames> ids_of_run(const std::string& run_directory);
// The same for what `given` says of itself.
void require_ids_of_run(const std::string& run_directory, const IdNames& given);

// The tokenizer's file in the run's directory; "" for none.
[[nodiscard]] std::string tokenizer_of_run(const std::string& run_directory);

}  // namespace trireme
