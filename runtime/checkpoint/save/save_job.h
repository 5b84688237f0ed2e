// SPDX-License-Identifier: Apache-2.0
// The background thread of a rank: turns a snapshot into a committed checkpoint. Private to this
// module.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/output_directory.h"
#include "runtime/checkpoint/agree.h"
#include "runtime/checkpoint/save/saver.h"
#include "runtime/checkpoint/save/snapshot.h"

namespace trireme {

struct SaveContext {
  Communicator& group;  // used only by this thread
  const SaverOptions& options;
  const Snapshot& snapshot;
  const Manifest& manifest;                // the parts that every save shares
  const std::set<std::int64_t>& unusable;  // steps with directories without a good checkpoint
  const MemoryCopies* memory;              // null if no copies are kept
  std::int64_t best;                       // a step that is kept beside the newest; 0: none
};

// Collective. Writes this rank's file, waits for the other ranks' and commits; fills `report`
// except stall_ms. A failed write does not raise: it is in the report.
void run_save(const SaveContext& context, std::int64_t step, const std::string& state,
              SaveReport& report);

// The same into host memory (memory/memory_store.h): this rank's file, those of the ranks whose
// buddy it is, and the shared files.
void run_memory_save(const SaveContext& context, std::int64_t step, const std::string& state,
                     SaveReport& report);

// Parts of both.

// Marks a rank's problem in place of its manifest entry.
inline constexpr char problem_mark = '!';
// The first such problem, with its rank; "" for none.
[[nodiscard]] std::string problem_in(const std::vector<std::string>& entries);
// Writes this rank's file; returns its manifest entry.
[[nodiscard]] ManifestFile write_rank_file(const OutputDirectory& directory, int rank,
                                           const Snapshot& snapshot, const Manifest& manifest);
// A save's manifest without its files.
[[nodiscard]] Manifest manifest_of(const SaveContext& context, std::int64_t step,
                                   const std::string& state);
// The bytes of manifest.json and checkpoint.h5. Fills the ranks' entries into `manifest`.
struct SharedFiles {
  std::string manifest, view;
};
[[nodiscard]] SharedFiles shared_files(Manifest& manifest, const std::vector<std::string>& entries,
                                       const std::string& directory);
// Creates the file and makes it durable.
void write_whole(const OutputDirectory& directory, std::string_view name, std::string_view text);

}  // namespace trireme
