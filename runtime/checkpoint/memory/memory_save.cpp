// SPDX-License-Identifier: Apache-2.0
// A save to the memory of the hosts.
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/checkpoint/files/names.h"
#include "runtime/checkpoint/memory/memory_store.h"
#include "runtime/checkpoint/save/save_job.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Size of the pieces in which a rank's file is sent to its buddy.
constexpr std::int64_t piece_bytes = std::int64_t{4} << 20;

Tensor view_of(std::span<std::byte> bytes) {
  return {bytes.data(), DType::u8, Shape{static_cast<std::int64_t>(bytes.size())}};
}

std::vector<std::int64_t> share_sizes(Communicator& group, const HostStream& stream,
                                      std::int64_t own) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(group.size()));
  group.all_gather(*stream, {reinterpret_cast<std::byte*>(&own), DType::i64, Shape{1}},
                   {reinterpret_cast<std::byte*>(sizes.data()), DType::i64,
                    Shape{static_cast<std::int64_t>(sizes.size())}});
  return sizes;
}

// Another rank's file as it arrives. Full memory must not block that rank: the rest is received and
// dropped.
class ArrivingFile {
 public:
  ArrivingFile(const OutputDirectory& directory, int from, std::int64_t bytes)
      : from_(from), bytes_(bytes), path_(directory.path_of(rank_file_name(from))) {
    problem_ = problem_of([&] { file_ = directory.create(rank_file_name(from), O_WRONLY); });
  }

  [[nodiscard]] int from() const { return from_; }
  // Destination of the piece at `offset`; empty past the end.
  [[nodiscard]] std::span<std::byte> piece(std::int64_t offset) {
    const auto bytes = std::clamp<std::int64_t>(bytes_ - offset, 0, piece_bytes);
    piece_.resize(static_cast<std::size_t>(bytes));
    return piece_;
  }
  void arrived(std::int64_t offset) {
    if (piece_.empty() || !problem_.empty()) return;
    problem_ = problem_of([&] {
      write_fully_at(file_, path_, static_cast<std::uint64_t>(offset), piece_,
                     ExitCode::checkpoint);
    });
  }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  int from_;
  std::int64_t bytes_;
  std::string path_, problem_;
  FileDescriptor file_;
  std::vector<std::byte> piece_;
};

// Sends this rank's file to its buddy and receives those of others, piece by piece. Collective;
// file errors are returned and block no rank.
std::string exchange_copies(const MemoryCopies& copies,
                            const std::optional<OutputDirectory>& directory, Communicator& group,
                            const HostStream& stream, std::int64_t own_bytes) {
  const std::vector<std::int64_t> sizes = share_sizes(group, stream, own_bytes);
  if (std::ranges::find(sizes, 0) != sizes.end())
    return "";  // a rank without a file reports the reason
  std::vector<ArrivingFile> arriving;
  for (const int from : copies.from)
    arriving.emplace_back(*directory, from, sizes[static_cast<std::size_t>(from)]);
  const std::string path = directory->path_of(rank_file_name(group.rank()));
  std::string problem;
  std::optional<FileDescriptor> own;
  if (copies.to >= 0)
    problem = problem_of([&] { own = open_regular_file(path, ExitCode::checkpoint); });
  std::vector<std::byte> leaving;
  std::int64_t most = own_bytes;
  for (const int from : copies.from)
    most = std::max(most, sizes[static_cast<std::size_t>(from)]);
  for (std::int64_t offset = 0; offset < most; offset += piece_bytes) {
    const bool sends = copies.to >= 0 && offset < own_bytes;
    if (sends) {
      leaving.resize(static_cast<std::size_t>(std::min(piece_bytes, own_bytes - offset)));
      if (problem.empty())
        problem = problem_of([&] {
          read_exactly(*own, path, static_cast<std::uint64_t>(offset), leaving,
                       ExitCode::checkpoint);
        });
    }
    group.group_begin();
    if (sends) group.send(*stream, view_of(leaving), copies.to);
    for (ArrivingFile& file : arriving)
      if (const auto piece = file.piece(offset); !piece.empty())
        group.recv(*stream, view_of(piece), file.from());
    group.group_end(*stream);
    for (ArrivingFile& file : arriving)
      file.arrived(offset);
  }
  for (const ArrivingFile& file : arriving)
    if (problem.empty()) problem = file.problem();
  return problem;
}

void remove_other_steps(const std::string& directory, std::int64_t step) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    if (entry.path().filename() != step_directory_name(step)) fs::remove_all(entry, ignored);
}

// Commits this rank's copies, once all ranks have theirs.
void commit(const OutputDirectory& partial, const std::string& path, const SharedFiles& files) {
  write_whole(partial, view_name, files.view);
  write_whole(partial, manifest_name, files.manifest);
  fs::rename(partial.path(), path);
}

}  // namespace

void run_memory_save(const SaveContext& context, std::int64_t step, const std::string& state,
                     SaveReport& report) {
  const HostStream stream;
  Communicator& group = context.group;
  const MemoryCopies& copies = *context.memory;
  const std::string directory = copies.store.rank(group.rank());
  report.step = step;
  report.in_memory = true;
  report.path = directory + "/" + step_directory_name(step);
  auto start = Clock::now();
  std::string entry;
  std::optional<OutputDirectory> partial;
  std::string problem = problem_of([&] {
    report.copy_ms = context.snapshot.wait();
    start = Clock::now();
    fs::create_directories(directory);
    partial = OutputDirectory(directory, ExitCode::checkpoint).subdirectory(partial_name(step, 0));
    const ManifestFile file =
        write_rank_file(*partial, group.rank(), context.snapshot, context.manifest);
    report.bytes = file.bytes;
    entry = file_entry_text(file, context.manifest.kinds, context.manifest.tensors);
  });
  report.write_ms = 1e3 * seconds_since(start);
  start = Clock::now();
  const std::string lost =
      exchange_copies(copies, partial, group, stream, static_cast<std::int64_t>(report.bytes));
  if (problem.empty()) problem = lost;
  const auto entries =
      gather_texts(group, stream, problem.empty() ? entry : problem_mark + problem);
  SharedFiles files;
  if (group.rank() == 0 && (problem = problem_in(entries)).empty()) {
    Manifest manifest = manifest_of(context, step, state);
    files = shared_files(manifest, entries, partial->path());
  }
  problem = share_text(group, stream, problem);
  if (problem.empty()) {
    files.manifest = share_text(group, stream, files.manifest);
    files.view = share_text(group, stream, files.view);
    problem =
        first_problem(group, stream, problem_of([&] { commit(*partial, report.path, files); }));
  }
  report.problem = problem;
  report.commit_ms = 1e3 * seconds_since(start);
  // Until here the copies of the previous step were the newest complete ones.
  if (report.committed()) remove_other_steps(directory, step);
  std::error_code ignored;
  if (partial) fs::remove_all(partial->path(), ignored);
}

}  // namespace trireme
