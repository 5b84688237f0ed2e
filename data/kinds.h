// SPDX-License-Identifier: Apache-2.0
// The kinds of data at a path, one row each, and what is known without a model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct DataPlace {
  std::vector<std::string> names{};  // paths, prefixes of Megatron-LM, patterns with * ? []
  std::string label{};               // of archives of images, as data.label; "": cls, or a guess
  std::uint64_t preview = 0;         // tokens or images to show
};

struct Description {
  std::string text{};
  std::string problem{};  // why the text is incomplete, or ""
};

struct ShardReport {
  std::string path;
  std::string problem{};  // empty: all is good
  std::uint64_t bytes = 0;
  std::vector<std::string> others{};  // other problems

  void add(std::string what) {
    problem.empty() ? void(problem = std::move(what)) : others.push_back(std::move(what));
  }
};

// Called with the bytes read since the last call.
using ByteProgress = std::function<void(std::uint64_t)>;
// Called with a title and the bytes to read; returns the progress callback.
using StartProgress = std::function<ByteProgress(const char* title, std::uint64_t bytes)>;

// Functions raise ExitCode::data for unreadable data.
struct DataKindRow {
  std::string_view name;
  bool (*lies_at)(const std::string& name);
  bool labels = false;   // takes DataPlace::label
  bool preview = false;  // takes DataPlace::preview
  // Describes the data.
  Description (*inspect)(const DataPlace& place);
  // A config that trains on it in place.
  Description (*config)(const DataPlace& place);
  // Reads all of it. Null: there is nothing to compare it with.
  std::vector<ShardReport> (*verify)(const DataPlace& place, const StartProgress& start);
};

// The kind of all of `names`; packed shards if no other kind matches.
[[nodiscard]] const DataKindRow& kind_of_data(const std::vector<std::string>& names);

}  // namespace trireme
