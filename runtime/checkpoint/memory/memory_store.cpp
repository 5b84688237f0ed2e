// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/memory/memory_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <random>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/agree.h"
#include "runtime/checkpoint/files/names.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// File in a store's root that names the run directory.
constexpr const char* run_name = "run";
constexpr std::uint64_t longest_text = 4096;

std::string id_path(const std::string& checkpoints) {
  return checkpoints + "/memory.id";
}

// Left by earlier runs of this directory, which was emptied since.
void remove_abandoned(const std::string& root, const std::string& run_directory) {
  std::error_code error;
  for (fs::directory_iterator entry(parent_directory(root), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string path = entry->path().string();
    if (!entry->path().filename().string().starts_with("trireme-") || path == root) continue;
    std::error_code ignored;  // belongs to another user
    try {
      const auto run = read_file_if_exists(path + "/" + run_name, longest_text, ExitCode::config);
      if (run && *run == run_directory) fs::remove_all(path, ignored);
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace

std::vector<int> buddies_of(std::span<const std::string> hosts) {
  std::map<std::string, std::size_t> order;
  std::vector<std::vector<int>> ranks;  // per host, in the order of their first ranks
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [host, first] = order.try_emplace(hosts[rank], ranks.size());
    if (first) ranks.emplace_back();
    ranks[host->second].push_back(static_cast<int>(rank));
  }
  std::vector<int> buddies(hosts.size(), -1);
  if (ranks.size() < 2) return buddies;
  for (std::size_t host = 0; host < ranks.size(); ++host) {
    const std::vector<int>& next = ranks[(host + 1) % ranks.size()];
    for (std::size_t i = 0; i < ranks[host].size(); ++i)
      buddies[static_cast<std::size_t>(ranks[host][i])] = next[i % next.size()];
  }
  return buddies;
}

std::string MemoryStore::rank(int rank) const {
  return fmt::format("{}/rank_{:05}", host_, rank);
}

void MemoryStore::clear(const std::string& run) const {
  std::error_code error;
  remove_abandoned(root_, run);
  fs::remove_all(host_, error);
  if (!error) fs::create_directories(host_, error);
  if (error) {
    fail(code_of_failed_write(error.value(), ExitCode::config),
         "checkpoint.memory_directory: {}: {}; name a directory of a memory file system that every "
         "host has and this user may write to (/dev/shm), or set checkpoint.in_memory_every_steps: "
         "0",
         host_, error.message());
  }
  fs::permissions(root_, fs::perms::owner_all, error);  // only the user may read weights
  write_file(root_ + "/" + run_name, run, ExitCode::config);
}

void MemoryStore::forget(int number) const noexcept {
  std::error_code ignored;
  fs::remove_all(rank(number), ignored);
  if (!fs::remove(host_, ignored) || ignored) return;
  if (std::ranges::distance(fs::directory_iterator(root_, ignored)) > 1 || ignored) return;
  fs::remove_all(root_, ignored);
}

std::optional<std::string> memory_id(const std::string& checkpoints) {
  const std::string path = id_path(checkpoints);
  const auto id = read_file_if_exists(path, longest_text, ExitCode::checkpoint);
  if (!id) return {};
  if (id->size() != 16 || id->find_first_not_of("0123456789abcdef") != std::string::npos)
    fail(ExitCode::checkpoint, "{}: is not an id of 16 hexadecimal digits; remove it", path);
  return id;
}

namespace {

// Creates and stores the id if there is none.
std::string make_memory_id(const std::string& checkpoints) {
  if (auto id = memory_id(checkpoints)) return *id;
  std::random_device random;
  const std::string id = fmt::format("{:08x}{:08x}", random(), random());
  write_file(id_path(checkpoints), id, ExitCode::checkpoint);
  return id;
}

}  // namespace

MemoryCopies prepare_memory(const MemoryPlace& place, const std::string& checkpoints,
                            Communicator& group) {
  const HostStream stream;
  const int rank = group.rank();
  std::string id;
  std::string problem = problem_of([&] {
    if (rank == 0) id = make_memory_id(checkpoints);
  });
  id = share_text(group, stream, id);
  const std::vector<std::string> hosts = share_texts(group, stream, place.host);
  MemoryCopies copies{.store = MemoryStore(place, id)};
  if (problem.empty() && std::ranges::find(hosts, place.host) - hosts.begin() == rank) {
    problem = problem_of([&] {
      copies.store.clear(fs::absolute(parent_directory(checkpoints)).lexically_normal().string());
    });
  }
  problem = first_problem(group, stream, problem);
  if (!problem.empty()) fail(ExitCode::config, "{}", problem);
  const std::vector<int> buddies = buddies_of(hosts);
  copies.to = buddies[static_cast<std::size_t>(rank)];
  for (std::size_t other = 0; other < buddies.size(); ++other)
    if (buddies[other] == rank) copies.from.push_back(static_cast<int>(other));
  if (rank == 0 && copies.to < 0)
    log::get("checkpoint")
        .warn(
            "checkpoint.in_memory_every_steps: all ranks are on one host, {}: copies of the state "
            "in its memory survive the job's processes, but not a failure of the host",
            place.host);
  return copies;
}

}  // namespace trireme
