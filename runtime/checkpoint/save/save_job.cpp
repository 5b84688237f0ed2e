// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/save/save_job.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <optional>

#include "runtime/base/checksum.h"
#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/output_directory.h"
#include "runtime/checkpoint/directory.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/checkpoint/files/stored_values.h"
#include "runtime/checkpoint/save/direct_file.h"
#include "runtime/checkpoint/save/rank_file.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return 1e3 * seconds_since(start);
}

std::uint64_t xxh3_of(std::span<const std::byte> bytes) {
  Checksum sum;
  sum.update(bytes);
  return sum.value();
}

// The checksums of the slices of one dataset. Raises ExitCode::non_finite for NaN or infinity.
void hash_values(const Snapshot& snapshot, const Manifest& manifest, ValueKind kind,
                 ManifestFile& entry) {
  const auto k = static_cast<std::size_t>(kind);
  std::span<const std::byte> left = snapshot.values(kind);
  for (ManifestSlice& slice : entry.slices) {
    const ManifestTensor& tensor = manifest.tensors[static_cast<std::size_t>(slice.tensor)];
    if (!has_value(tensor.kind, kind)) continue;
    const auto bytes = static_cast<std::size_t>(slice.count) * sizeof(float);
    if (!all_finite({reinterpret_cast<const float*>(left.data()), bytes / sizeof(float)}))
      fail(ExitCode::non_finite, "{} of {} {}", name_of(kind), tensor.name,
           SaveReport::non_finite_ending);
    slice.checksums[k] = xxh3_of(left.first(bytes));
    left = left.subspan(bytes);
  }
}

// Files of other hosts are missing here if the directory is not shared.
void check_visible(const OutputDirectory& directory, const ManifestFile& file) {
  const std::string path = directory.path_of(file.name);
  const FileDescriptor opened = open_regular_file(path, ExitCode::checkpoint);
  const std::uint64_t size = regular_file_size(opened, path, ExitCode::checkpoint);
  if (size != file.bytes)
    fail(ExitCode::checkpoint,
         "{}: has {} bytes, its rank wrote {}; run.directory must be on a file system that all "
         "hosts share",
         path, size, file.bytes);
}

// On rank 0, with all ranks' entries.
void commit(Manifest& manifest, const std::vector<std::string>& entries,
            const OutputDirectory& partial, const std::string& path, const SaverOptions& options) {
  const SharedFiles files = shared_files(manifest, entries, partial.path());
  for (const ManifestFile& file : manifest.files)
    check_visible(partial, file);
  write_whole(partial, view_name, files.view);
  write_whole(partial, manifest_name, files.manifest);
  if (options.may_commit) options.may_commit();
  commit_directory(partial.path(), path);
}

// `partial`: the directory, if it could be opened.
std::string commit_or_clear(Manifest& manifest, const std::vector<std::string>& entries,
                            const std::optional<OutputDirectory>& partial, const std::string& path,
                            const SaverOptions& options) {
  std::string problem = problem_in(entries);
  if (problem.empty()) {
    problem = problem_of([&] { commit(manifest, entries, *partial, path, options); });
    if (!problem.empty()) problem = "rank 0: " + problem;
  }
  if (!problem.empty()) {
    std::error_code ignored;  // the next start removes leftovers
    if (partial) std::filesystem::remove_all(partial->path(), ignored);
    log::get("checkpoint").error("step {}: no checkpoint was written: {}", manifest.step, problem);
  }
  return problem;
}

}  // namespace

ManifestFile write_rank_file(const OutputDirectory& directory, int rank, const Snapshot& snapshot,
                             const Manifest& manifest) {
  ManifestFile entry{.name = rank_file_name(rank)};
  std::array<std::uint64_t, value_kinds.size()> elements{};
  for (const ValueKind kind : manifest.kinds)
    elements[static_cast<std::size_t>(kind)] = snapshot.values(kind).size() / sizeof(float);
  const RankFilePlan plan = plan_rank_file(elements, directory.path_of(entry.name));
  entry.bytes = plan.bytes;
  entry.offsets = plan.offsets;
  entry.header_bytes = plan.header.size();
  entry.header_checksum = xxh3_of(plan.header);
  for (const OwnSlice& own : snapshot.slices())
    entry.slices.push_back(own.slice);
  // Overlaps hashing with the disk. The destructor of an async() future waits.
  auto hashed = std::async(std::launch::async, [&] {
    for (const ValueKind kind : manifest.kinds)
      hash_values(snapshot, manifest, kind, entry);
  });
  DirectFile file(directory, entry.name, ExitCode::checkpoint);
  file.require_room(plan.bytes);
  file.write(0, plan.header);
  for (const ValueKind kind : manifest.kinds)
    file.write(plan.offsets[static_cast<std::size_t>(kind)], snapshot.values(kind));
  // The library reserves some bytes after the last value.
  file.finish(plan.bytes);
  hashed.get();
  return entry;
}

void write_whole(const OutputDirectory& directory, std::string_view name, std::string_view text) {
  const std::string path = directory.path_of(std::string(name));
  FileDescriptor file = directory.create(std::string(name), O_WRONLY);
  write_fully(file, path, std::as_bytes(std::span(text)), ExitCode::checkpoint);
  if (::fsync(file.get()) != 0) write_failed("fsync", path, ExitCode::checkpoint);
  file.close(path, ExitCode::checkpoint);
}

SharedFiles shared_files(Manifest& manifest, const std::vector<std::string>& entries,
                         const std::string& directory) {
  manifest.view_bytes = 1;  // unknown yet; the parser requires a file
  manifest.files = parse_manifest(manifest_text(manifest, entries),
                                  fmt::format("{}/{}", directory, manifest_name))
                       .files;
  const auto view = view_file(manifest, fmt::format("{}/{}", directory, view_name));
  manifest.view_bytes = view.size();
  manifest.view_checksum = xxh3_of(view);
  return {manifest_text(manifest, entries),
          std::string(reinterpret_cast<const char*>(view.data()), view.size())};
}

std::string problem_in(const std::vector<std::string>& entries) {
  for (std::size_t rank = 0; rank < entries.size(); ++rank) {
    if (entries[rank].starts_with(problem_mark))
      return fmt::format("rank {}: {}", rank, entries[rank].substr(1));
  }
  return "";
}

Manifest manifest_of(const SaveContext& context, std::int64_t step, const std::string& state) {
  Manifest manifest = context.manifest;
  manifest.step = step;
  manifest.state = state;
  manifest.scalars = context.snapshot.scalars();
  return manifest;
}

void run_save(const SaveContext& context, std::int64_t step, const std::string& state,
              SaveReport& report) {
  const HostStream stream;
  Communicator& group = context.group;
  report.step = step;
  report.path = context.options.directory + "/" + step_directory_name(step);
  auto start = Clock::now();
  std::string entry;
  std::optional<OutputDirectory> partial;
  const std::string problem = problem_of([&] {
    report.copy_ms = context.snapshot.wait();
    start = Clock::now();
    partial = checkpoint_directory(context.options.directory)
                  .subdirectory(partial_name(step, context.options.epoch));
    const ManifestFile file =
        write_rank_file(*partial, group.rank(), context.snapshot, context.manifest);
    report.bytes = file.bytes;
    entry = file_entry_text(file, context.manifest.kinds, context.manifest.tensors);
  });
  report.write_ms = milliseconds_since(start);
  start = Clock::now();
  const auto entries =
      gather_texts(group, stream, problem.empty() ? entry : problem_mark + problem);
  std::string outcome;
  if (group.rank() == 0) {
    Manifest manifest = manifest_of(context, step, state);
    outcome = commit_or_clear(manifest, entries, partial, report.path, context.options);
  }
  report.problem = share_text(group, stream, outcome);
  report.commit_ms = milliseconds_since(start);
  if (group.rank() != 0 || !report.committed()) return;
  const SaverOptions& options = context.options;
  remove_old_checkpoints(options.directory, options.keep, options.keep_every, step,
                         context.unusable, context.best);
}

}  // namespace trireme
