// SPDX-License-Identifier: Apache-2.0
// The kinds of data at a path, a row each: what can be said of them without a model.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/fields/describe.h"
#include "data/verify.h"

namespace trireme {

struct DataPlace {
  std::vector<std::string> names;  // paths, prefixes of Megatron-LM, patterns with * ? []
  std::string label{};             // of archives of images, as data.label; "": cls, or a guess
  std::uint64_t preview = 0;       // tokens or images to show
  bool progress = false;           // on stderr, of verify()
};

// Raise ExitCode::data where the data cannot be looked at.
struct DataKindRow {
  std::string_view name;
  bool (*lies_at)(const std::string& name);
  bool labels = false;   // takes DataPlace::label
  bool preview = false;  // takes DataPlace::preview
  // What the data holds.
  Description (*inspect)(const DataPlace& place);
  // A config that trains on it in place.
  Description (*config)(const DataPlace& place);
  // Reads all of it. Null: there is nothing to compare it with.
  std::vector<ShardReport> (*verify)(const DataPlace& place);
};

// The kind of all of `names`; packed shards where they are of no other kind.
[[nodiscard]] const DataKindRow& kind_of_data(const std::vector<std::string>& names);

}  // namespace trireme
