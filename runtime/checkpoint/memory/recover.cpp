// SPDX-License-Identifier: Apache-2.0
// Writes the copies in the hosts' memory to disk as a checkpoint.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "runtime/base/json.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/agree.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/manifest.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/checkpoint/memory/memory_store.h"
#include "runtime/checkpoint/restore/verify.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A directory with one rank's copies of a step, as found on its host.
struct HeldCopy {
  std::int64_t step = 0;
  std::uint64_t manifest = 0;  // its checksum, which starts of a run may differ in
  std::string path;
  std::vector<std::string> files{};  // of the files in the manifest, those that are here
  std::size_t of = 0;                // number of files in the manifest
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HeldCopy, step, manifest, path, files, of)

// The files that one rank writes to disk.
struct Transfer {
  int rank = 0;
  std::string from, name;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Transfer, rank, from, name)

struct Recovery {
  std::int64_t step = -1;  // none
  std::vector<Transfer> transfers;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Recovery, step, transfers)

HeldCopy look_at(const std::string& path) {
  const FoundCheckpoint found = open_checkpoint(path);
  HeldCopy held{.step = found.step,
                .manifest = found.manifest.text_checksum,
                .path = path,
                .of = found.manifest.files.size()};
  for (const ManifestFile& file : found.manifest.files) {
    std::error_code error;
    if (fs::file_size(path + "/" + file.name, error) == file.bytes && !error)
      held.files.push_back(file.name);
  }
  return held;
}

std::vector<HeldCopy> copies_on_this_host(const MemoryStore& store) {
  std::vector<HeldCopy> copies;
  std::error_code error;
  for (const auto& rank : fs::directory_iterator(store.host(), error)) {
    for (const StepDirectory& step : list_checkpoints(rank.path().string())) {
      try {
        copies.push_back(look_at(step.path));
      } catch (const Error& damaged) {
        log::get("checkpoint").warn("copies in memory: {}", damaged.what());
      }
    }
  }
  return copies;
}

// The newest step whose files all exist somewhere. `by_rank`: each host's files once, reported by
// one of its ranks.
Recovery newest_whole(const std::vector<std::vector<HeldCopy>>& by_rank, std::int64_t newer_than) {
  struct Found {
    std::size_t of = 0;
    std::map<std::string, Transfer> files;
  };
  std::map<std::pair<std::int64_t, std::uint64_t>, Found> steps;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    for (const HeldCopy& held : by_rank[rank]) {
      Found& found = steps[{held.step, held.manifest}];
      found.of = held.of;
      const auto take = [&](std::string_view name) {
        found.files.try_emplace(std::string(name), static_cast<int>(rank),
                                held.path + "/" + std::string(name), std::string(name));
      };
      take(view_name);
      take(manifest_name);
      for (const std::string& name : held.files)
        take(name);
    }
  }
  Recovery recovery;
  for (const auto& [key, found] : steps) {
    if (key.first <= newer_than || found.files.size() != found.of + 2) continue;
    recovery.step = key.first;
    recovery.transfers.clear();
    for (const auto& [name, transfer] : found.files)
      recovery.transfers.push_back(transfer);
  }
  return recovery;
}

void bring(const Transfer& transfer, const OutputDirectory& to) {
  constexpr std::size_t piece = std::size_t{4} << 20;
  const FileDescriptor from = open_regular_file(transfer.from, ExitCode::checkpoint);
  const std::uint64_t bytes = regular_file_size(from, transfer.from, ExitCode::checkpoint);
  const std::string path = to.path_of(transfer.name);
  FileDescriptor file = to.create(transfer.name, O_WRONLY);
  std::vector<std::byte> buffer(piece);
  for (std::uint64_t done = 0; done < bytes;) {
    const auto part = std::span(buffer).first(std::min<std::uint64_t>(piece, bytes - done));
    read_exactly(from, transfer.from, done, part, ExitCode::checkpoint);
    write_fully_at(file, path, done, part, ExitCode::checkpoint);
    done += part.size();
  }
  if (::fsync(file.get()) != 0) write_failed("fsync", path, ExitCode::checkpoint);
  file.close(path, ExitCode::checkpoint);
}

std::int64_t newest_on_disk(const std::string& checkpoints) {
  std::int64_t newest = -1;
  for (const StepDirectory& found : list_checkpoints(checkpoints))
    if (looks_complete(found.path)) newest = found.step;
  return newest;
}

// Equal on all ranks; collective.
Recovery find_recovery(const MemoryPlace& place, const std::string& id,
                       const std::string& checkpoints, Communicator& world,
                       const HostStream& stream) {
  const bool first = world.rank() == 0;
  const std::vector<std::string> hosts = share_texts(world, stream, place.host);
  std::vector<HeldCopy> held;  // reported by the first rank of a host
  if (std::ranges::find(hosts, place.host) - hosts.begin() == world.rank())
    held = copies_on_this_host(MemoryStore(place, id));
  Recovery recovery;
  const auto texts = gather_texts(world, stream, json(held).dump());
  if (first) {
    std::vector<std::vector<HeldCopy>> by_rank;
    for (const std::string& text : texts)
      by_rank.push_back(parse_json(text).get<std::vector<HeldCopy>>());
    recovery = newest_whole(by_rank, newest_on_disk(checkpoints));
  }
  return parse_json(share_text(world, stream, first ? json(recovery).dump() : "")).get<Recovery>();
}

// Returns the problem, equal on all ranks.
std::string write_recovery(const Recovery& recovery, const std::string& checkpoints,
                           Communicator& world, const HostStream& stream) {
  const std::string name = partial_name(recovery.step, 0);
  std::string problem = problem_of([&] {
    const OutputDirectory partial = checkpoint_directory(checkpoints).subdirectory(name);
    for (const Transfer& transfer : recovery.transfers)
      if (transfer.rank == world.rank()) bring(transfer, partial);
  });
  problem = first_problem(world, stream, problem);
  if (!problem.empty()) return problem;
  if (world.rank() == 0) {
    problem = problem_of([&] {
      commit_directory(checkpoints + "/" + name,
                       checkpoints + "/" + step_directory_name(recovery.step));
    });
  }
  return first_problem(world, stream, problem);
}

}  // namespace

void recover_from_memory(const MemoryPlace& place, const std::string& checkpoints,
                         Communicator& world) {
  const HostStream stream;
  const bool first = world.rank() == 0;
  const std::string id =
      share_text(world, stream, first ? memory_id(checkpoints).value_or("") : std::string());
  if (id.empty()) return;
  const Recovery recovery = find_recovery(place, id, checkpoints, world, stream);
  if (recovery.step < 0) return;
  const std::string problem = write_recovery(recovery, checkpoints, world, stream);
  if (!problem.empty()) {
    fail(
        ExitCode::checkpoint,
        "step {} in the memory of the hosts is newer than any checkpoint, and could not be written "
        "to the disk: {}",
        recovery.step, problem);
  }
  if (first)
    log::get("checkpoint")
        .info(
            "step {}: written to disk from the memory of the hosts; it is newer than any "
            "checkpoint there",
            recovery.step);
}

}  // namespace trireme
