// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/restore/verify.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>

#include "runtime/base/checksum.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/agree.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/checkpoint/restore/parallel_reader.h"

namespace trireme {
namespace {

constexpr std::size_t read_bytes = std::size_t{1} << 20;

// A run of bytes with one checksum.
struct Unit {
  std::string file;
  std::string tensor;
  std::uint64_t offset = 0, bytes = 0, checksum = 0;
};

std::vector<Unit> units_of(const Manifest& manifest) {
  std::vector<Unit> units{
      {std::string(view_name), "", 0, manifest.view_bytes, manifest.view_checksum}};
  for (const ManifestFile& file : manifest.files) {
    units.push_back({file.name, "", 0, file.header_bytes, file.header_checksum});
    for (const ValueKind kind : manifest.kinds) {
      const auto k = static_cast<std::size_t>(kind);
      std::uint64_t offset = file.offsets[k];
      for (const ManifestSlice& slice : file.slices) {
        const ManifestTensor& tensor = manifest.tensors[static_cast<std::size_t>(slice.tensor)];
        if (!has_value(tensor.kind, kind)) continue;
        const auto bytes = static_cast<std::uint64_t>(slice.count) * sizeof(float);
        units.push_back({file.name, fmt::format("{}/{}", name_of(kind), tensor.name), offset, bytes,
                         slice.checksums[k]});
        offset += bytes;
      }
    }
  }
  return units;
}

// Keeps one file open, because units are ordered by file.
class Verifier {
 public:
  Verifier(const std::string& directory, const Manifest& manifest)
      : directory_(directory), manifest_(manifest), piece_(read_bytes) {}

  void look_at(const Unit& unit) {
    if (unit.file != name_) open(unit.file);
    if (!file_.is_open()) return;
    try {
      if (hash_of(unit) == unit.checksum) return;
      add(unit, "does not match its checksum");
    } catch (const Error& error) {
      add(unit, error.what());
    }
  }
  [[nodiscard]] std::vector<Damage> damages() && { return std::move(damages_); }

 private:
  void open(const std::string& name) {
    name_ = name;
    file_ = FileDescriptor();
    const std::string path = directory_ + "/" + name;
    try {
      FileDescriptor opened = open_regular_file(path, ExitCode::checkpoint);
      const std::uint64_t size = regular_file_size(opened, path, ExitCode::checkpoint);
      if (size != expected_bytes(name))
        damages_.push_back(
            {name, "", fmt::format("has {} bytes instead of {}", size, expected_bytes(name))});
      file_ = std::move(opened);
    } catch (const Error& error) {
      damages_.push_back({name, "", error.what()});
    }
  }

  std::uint64_t expected_bytes(const std::string& name) const {
    const auto found = std::ranges::find(manifest_.files, name, &ManifestFile::name);
    return found == manifest_.files.end() ? manifest_.view_bytes : found->bytes;
  }

  std::uint64_t hash_of(const Unit& unit) {
    Checksum sum;
    for (std::uint64_t done = 0; done < unit.bytes;) {
      const auto part = std::span(piece_).first(
          static_cast<std::size_t>(std::min<std::uint64_t>(read_bytes, unit.bytes - done)));
      read_exactly(file_, directory_ + "/" + unit.file, unit.offset + done, part,
                   ExitCode::checkpoint);
      sum.update(part);
      done += part.size();
    }
    return sum.value();
  }

  void add(const Unit& unit, std::string what) {
    damages_.push_back({unit.file, unit.tensor, std::move(what)});
  }

  const std::string& directory_;
  const Manifest& manifest_;
  std::vector<std::byte> piece_;
  std::string name_;
  FileDescriptor file_;
  std::vector<Damage> damages_;
};

// The checkpoints that rank 0 finds in the directory, newest first, one path per line.
std::string list_text(const std::string& directory, std::int64_t min_step) {
  std::string text;
  for (const StepDirectory& found : list_checkpoints(directory))
    if (found.step >= min_step) text.insert(0, found.path + "\n");
  return text;
}

// Does this rank's part of the work; returns the problem as text.
std::string problem_opening(const std::string& path, Communicator& world, FoundCheckpoint& found) {
  try {
    found = open_checkpoint(path);
    const auto damages = verify_checkpoint(path, found.manifest, world.rank(), world.size());
    return damages.empty() ? "" : damages.front().describe();
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::string Damage::describe() const {
  return tensor.empty() ? fmt::format("{}: {}", file, what)
                        : fmt::format("{}: tensor {}: {}", file, tensor, what);
}

std::vector<Damage> verify_checkpoint(const std::string& path, const Manifest& manifest, int share,
                                      int shares) {
  const std::vector<Unit> units = units_of(manifest);
  std::uint64_t total = 0;
  for (const Unit& unit : units)
    total += unit.bytes;
  const std::uint64_t each = total / static_cast<std::uint64_t>(shares * reading_threads) + 1;
  std::array<std::vector<Damage>, reading_threads> found;
  run_in_parallel(reading_threads, [&](int thread) {
    const auto own = static_cast<std::uint64_t>(share * reading_threads + thread);
    Verifier verifier(path, manifest);
    std::uint64_t before = 0;
    for (const Unit& unit : units) {
      if (before / each == own) verifier.look_at(unit);
      before += unit.bytes;
    }
    found[static_cast<std::size_t>(thread)] = std::move(verifier).damages();
  });
  std::vector<Damage> all;
  for (const std::vector<Damage>& part : found) {
    // Several ranks may have found the same bad file.
    std::ranges::copy_if(part, std::back_inserter(all), [&](const Damage& damage) {
      return std::ranges::find(all, damage) == all.end();
    });
  }
  return all;
}

FoundCheckpoint open_checkpoint(const std::string& path) {
  FoundCheckpoint found{.path = path,
                        .manifest = read_manifest(path + "/" + std::string(manifest_name))};
  found.step = found.manifest.step;
  // "a/", "a/." and "." mean the directory itself.
  const auto step = step_of(std::filesystem::weakly_canonical(path).filename().string());
  if (step && *step != found.step)
    fail(ExitCode::checkpoint, "{}: its manifest is of step {}; give the directory its old name",
         path, found.step);
  return found;
}

bool looks_complete(const std::string& path) noexcept {
  namespace fs = std::filesystem;
  try {
    if (!fs::is_regular_file(path + "/" + std::string(manifest_name))) return false;
    const FoundCheckpoint found = open_checkpoint(path);
    return std::ranges::all_of(found.manifest.files, [&](const ManifestFile& file) {
      const std::string name = path + "/" + file.name;
      return fs::is_regular_file(name) && fs::file_size(name) == file.bytes;
    });
  } catch (const std::exception&) {
    return false;
  }
}

std::optional<FoundCheckpoint> find_newest_valid(const std::string& directory, Communicator& world,
                                                 std::int64_t min_step) {
  const HostStream stream;
  std::string mine, problem;
  try {
    if (world.rank() == 0) mine = list_text(directory, min_step);
  } catch (const Error& error) {
    problem = error.what();
  }
  problem = first_problem(world, stream, problem);
  if (!problem.empty()) fail(ExitCode::checkpoint, "{}", problem);
  const std::string paths = share_text(world, stream, mine);
  for (std::size_t at = 0; at < paths.size();) {
    const std::string path = paths.substr(at, paths.find('\n', at) - at);
    at += path.size() + 1;
    FoundCheckpoint found;
    problem = first_problem(world, stream, problem_opening(path, world, found));
    if (problem.empty()) {
      require_same_checkpoint(world, found);
      return found;
    }
    if (world.rank() == 0) {
      log::get("checkpoint").warn("{}: is not used: {}; trying the previous one", path, problem);
    }
  }
  return {};
}

FoundCheckpoint open_valid(const std::string& path, Communicator& world) {
  FoundCheckpoint found;
  std::string problem = problem_opening(path, world, found);
  if (world.size() > 1) problem = first_problem(world, HostStream(), problem);
  if (!problem.empty()) fail(ExitCode::checkpoint, "{}: {}", path, problem);
  require_same_checkpoint(world, found);
  return found;
}

}  // namespace trireme
