// SPDX-License-Identifier: Apache-2.0
// From a snapshot to a committed checkpoint: what the background thread of a rank does. Private to
// this room.
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
  Communicator& group;  // for this thread alone
  const SaverOptions& options;
  const Snapshot& snapshot;
  const Manifest& manifest;                // the parts that every save shares
  const std::set<std::int64_t>& unusable;  // steps whose directories hold no good checkpoint
  const MemoryCopies* memory;              // null where none are kept
};

// Collective. Writes this rank's file, waits for the others' and commits; fills `report` but for
// stall_ms. Never raises for a file that could not be written: that is what the report says.
void run_save(const SaveContext& context, std::int64_t step, const std::string& state,
              SaveReport& report);

// The same into the memory of the hosts (memory/memory_store.h): this rank's file, that of the
// ranks whose buddy it is, and what all share.
void run_memory_save(const SaveContext& context, std::int64_t step, const std::string& state,
                     SaveReport& report);

// What both are made of.

// Before the problem of a rank, where its manifest entry would stand.
inline constexpr char problem_mark = '!';
// The first such problem, with its rank; "" for none.
[[nodiscard]] std::string problem_in(const std::vector<std::string>& entries);
// This rank's file; its entry of the manifest.
[[nodiscard]] ManifestFile write_rank_file(const OutputDirectory& directory, int rank,
                                           const Snapshot& snapshot, const Manifest& manifest);
// The manifest of a save, but for its files.
[[nodiscard]] Manifest manifest_of(const SaveContext& context, std::int64_t step,
                                   const std::string& state);
// The bytes of manifest.json and checkpoint.h5. Completes `manifest` by the ranks' entries.
struct SharedFiles {
  std::string manifest, view;
};
[[nodiscard]] SharedFiles shared_files(Manifest& manifest, const std::vector<std::string>& entries,
                                       const std::string& directory);
// A new file, durable.
void write_whole(const OutputDirectory& directory, std::string_view name, std::string_view text);

}  // namespace trireme
