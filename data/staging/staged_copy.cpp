// SPDX-License-Identifier: Apache-2.0
#include "data/staging/staged_copy.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <span>

#include "data/verify.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"
#include "runtime/base/log.h"

namespace trireme {
namespace {

constexpr std::uint64_t copy_block_bytes = std::uint64_t{4} << 20;

struct Stopped {};

// Calls `use` for each block of bytes [first, end).
template <typename Use>
void for_blocks(std::uint64_t first, std::uint64_t end, const StopAsked& stop, Use&& use) {
  std::vector<std::byte> buffer(std::min(copy_block_bytes, end - first));
  while (first < end) {
    if (stop()) throw Stopped{};
    const auto block = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), end - first));
    use(first, block);
    first += block.size();
  }
}

std::uint64_t checksum_of_part(const FileDescriptor& file, const std::string& path,
                               std::uint64_t first, std::uint64_t end, const StopAsked& stop) {
  Checksum sum;
  for_blocks(first, end, stop, [&](std::uint64_t at, std::span<std::byte> block) {
    read_exactly(file, path, at, block, ExitCode::internal);
    sum.update(block);
  });
  return sum.value();
}

// Releases its claim.
class PieceClaim {
 public:
  PieceClaim(const PieceLedger& ledger, std::uint64_t piece)
      : ledger_(ledger), piece_(piece), has_(ledger.claim(piece)) {}
  ~PieceClaim() {
    if (has_) ledger_.release(piece_);
  }
  PieceClaim(const PieceClaim&) = delete;
  PieceClaim& operator=(const PieceClaim&) = delete;
  explicit operator bool() const { return has_; }

 private:
  const PieceLedger& ledger_;
  std::uint64_t piece_;
  bool has_;
};

}  // namespace

struct StagedCopy::Open {
  Open(const OutputDirectory& directory, const StageSource& source)
      : ledger(directory, source.ledger_name(), source.pieces() + 1),
        path(directory.path_of(source.copy_name())),
        copy(directory.try_open(source.copy_name(), O_RDWR)) {}
  [[nodiscard]] bool are_there() const { return ledger.is_open() && copy.is_open(); }

  PieceLedger ledger;
  std::string path;
  FileDescriptor copy;
};

StagedCopy::StagedCopy(StageSource source, const OutputDirectory& directory, std::uint64_t job)
    : source_(std::move(source)),
      directory_(directory),
      job_(job),
      readers_(LocalCopy::of(source_.path)),
      good_(source_.pieces()) {}

StagedCopy::State StagedCopy::advance(const StopAsked& stop) {
  const Open files(directory_, source_);
  if (!files.are_there()) return State::given_up;
  try {
    return work(files, stop);
  } catch (const Stopped&) {
    return State::waiting;
  } catch (const Error& error) {
    return give_up(files, error.what());
  }
}

StagedCopy::State StagedCopy::work(const Open& files, const StopAsked& stop) {
  require_unchanged();
  bool worked = false;
  for (std::uint64_t piece = 0; piece < good_.size(); ++piece) {
    if (stop()) return State::waiting;
    if (files.ledger.is_removed()) return State::given_up;
    if (!good_[piece]) worked |= settle(files, piece, stop);
  }
  const bool all = std::ranges::all_of(good_, [](bool good) { return good; });
  if (!all || !content_is_checked(files, stop)) return worked ? State::worked : State::waiting;
  require_unchanged();
  readers_->publish(files.path);
  return State::complete;
}

// Returns whether it did anything for a piece.
bool StagedCopy::settle(const Open& files, std::uint64_t piece, const StopAsked& stop) {
  const PieceClaim claim(files.ledger, piece);
  if (!claim) return false;
  const StagedPiece known = files.ledger.read(piece);
  const std::uint64_t first = piece * source_.piece_bytes,
                      end = std::min(first + source_.piece_bytes, source_.state.size);
  if (known.verified_by != job_) {
    if (known.verified_by == 0 ||
        checksum_of_part(files.copy, files.path, first, end, stop) != known.checksum) {
      copy_piece(files, piece, stop);
    } else {
      files.ledger.write(piece, {known.checksum, job_});
    }
  }
  good_[piece] = true;
  return known.verified_by != job_;
}

void StagedCopy::copy_piece(const Open& files, std::uint64_t piece, const StopAsked& stop) {
  const InputFile from(source_.path);
  const std::uint64_t first = piece * source_.piece_bytes,
                      end = std::min(first + source_.piece_bytes, source_.state.size);
  files.ledger.write(piece, {});
  files.ledger.write(source_.pieces(), {});  // the content has changed
  Checksum sum;
  for_blocks(first, end, stop, [&](std::uint64_t at, std::span<std::byte> block) {
    from.read(at, block);
    sum.update(block);
    write_fully_at(files.copy, files.path, at, block, ExitCode::internal);
  });
  // So that reading back reads from the disk.
  if (::fdatasync(files.copy.get()) != 0) write_failed("fdatasync", files.path);
  static_cast<void>(::posix_fadvise(files.copy.get(), static_cast<off_t>(first),
                                    static_cast<off_t>(end - first), POSIX_FADV_DONTNEED));
  if (checksum_of_part(files.copy, files.path, first, end, stop) != sum.value())
    fail(ExitCode::internal, "{}: bytes {} to {} differ from what was written: the disk is damaged",
         files.path, first, end);
  files.ledger.write(piece, {sum.value(), job_});
  bytes_copied_ += end - first;
}

// Checked by one process, of any job, since the last piece was copied.
bool StagedCopy::content_is_checked(const Open& files, const StopAsked& stop) {
  const std::uint64_t whole = source_.pieces();
  const PieceClaim claim(files.ledger, whole);
  if (!claim) return false;
  if (files.ledger.read(whole).verified_by != 0) return true;
  if (source_.is_shard) {
    verify_payload(open_shard(files.path), [&](std::uint64_t) {
      if (stop()) throw Stopped{};
    });
  }
  files.ledger.write(whole, {0, job_});
  return true;
}

void StagedCopy::require_unchanged() const {
  if (state_of_file(source_.path) == source_.state) return;
  fail(ExitCode::data, "it has changed since the run began");
}

// Logged once, by the process that removed it.
StagedCopy::State StagedCopy::give_up(const Open& files, const std::string& why) {
  const std::string ledger = directory_.path_of(source_.ledger_name());
  if (!files.ledger.is_removed() && ::unlink(ledger.c_str()) == 0) {
    directory_.remove(source_.copy_name());
    log::get("data").warn(
        "data.stage: {} ({} bytes) is read in place, because it could not be copied: {}",
        source_.path, source_.state.size, why);
  }
  return State::given_up;
}

}  // namespace trireme
