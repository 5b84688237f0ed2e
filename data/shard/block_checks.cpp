// SPDX-License-Identifier: Apache-2.0
#include "data/shard/block_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "runtime/base/checksum.h"
#include "runtime/base/error.h"

namespace trireme {

std::uint32_t block_checksum(std::span<const std::byte> block) {
  return static_cast<std::uint32_t>(
      checksum_of({reinterpret_cast<const char*>(block.data()), block.size()}));
}

std::uint64_t table_checksum(std::uint64_t block_bytes, std::uint64_t payload_checksum,
                             std::span<const std::uint32_t> table) {
  const std::string text =
      fmt::format("block_bytes={}\npayload_xxh3={}\n", block_bytes, payload_checksum);
  Checksum checksum;
  checksum.update(std::as_bytes(std::span(text)));
  checksum.update(std::as_bytes(table));
  return checksum.value();
}

void BlockSums::add(std::span<const std::byte> bytes, std::uint64_t block_bytes) {
  while (!bytes.empty()) {
    const auto part =
        bytes.first(std::min<std::uint64_t>(block_bytes - begun_.size(), bytes.size()));
    bytes = bytes.subspan(part.size());
    if (part.size() == block_bytes) {
      table_.push_back(block_checksum(part));
      continue;
    }
    begun_.insert(begun_.end(), part.begin(), part.end());
    if (begun_.size() == block_bytes) end_block();
  }
}

void BlockSums::end_block() {
  if (begun_.empty()) return;
  table_.push_back(block_checksum(begun_));
  begun_.clear();
}

BlockChecks::BlockChecks(const Shard& shard, const InputFile& file)
    : shard_(shard),
      block_bytes_(shard.block_bytes),
      data_bytes_(shard.data_bytes()),
      data_blocks_(shard.data_blocks()),
      index_{shard.index_offset, shard.index_bytes(), shard.data_blocks()},
      mask_{shard.mask_offset, shard.mask_bytes(), shard.data_blocks() + shard.index_blocks()},
      cut_(shard.header.kind == DataKind::tokens),
      shift_(std::countr_zero(shard.block_bytes)),
      table_(shard.blocks_in_all()),
      verified_(shard.blocks_in_all() / 64 + 1) {
  shard_.header.classes.clear();  // of no use here, and long
  TRIREME_EXPECTS(block_bytes_ > 0, "{} has no block checksums", shard.path);
  file.read(shard.table_offset, std::as_writable_bytes(std::span(table_)));
  const std::uint64_t computed =
      table_checksum(block_bytes_, shard.header.payload_checksum, table_);
  if (computed == shard.table_checksum) return;
  fail(
      ExitCode::data,
      "{}: its table of block checksums does not match its own checksum block_checksums_xxh3 "
      "({:016x}, computed {:016x}): the file was damaged; restore it, copy it again or re-pack the "
      "data set",
      shard.path, shard.table_checksum, computed);
}

template <typename Read>
void BlockChecks::with_fallback(const DataFile& file, Read&& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.code() != ExitCode::data || !file.leave_copy(error.what())) throw;
    read();
  }
}

void BlockChecks::read(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
                       std::optional<std::int64_t> sample) {
  with_fallback(file, [&] { read_once(file, first, to, sample); });
}

void BlockChecks::read_index(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
                             std::optional<std::int64_t> sample) {
  read_part(index_, file, first, to, sample);
}

void BlockChecks::read_mask(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
                            std::optional<std::int64_t> sample) {
  read_part(mask_, file, first, to, sample);
}

void BlockChecks::read_part(const Part& part, const DataFile& file, std::uint64_t first,
                            std::span<std::byte> to, std::optional<std::int64_t> sample) {
  while (!to.empty()) {
    const auto piece =
        to.first(std::min<std::uint64_t>(index_block_bytes - first % index_block_bytes, to.size()));
    with_fallback(file, [&] { read_part_block(part, file, first, piece, sample); });
    to = to.subspan(piece.size());
    first += piece.size();
  }
}

void BlockChecks::read_part_block(const Part& part, const DataFile& file, std::uint64_t first,
                                  std::span<std::byte> to, std::optional<std::int64_t> sample) {
  const std::uint64_t number = first / index_block_bytes, start = number * index_block_bytes;
  const std::uint64_t block = part.first_block + number;
  if (is_verified(block)) return file.read(part.offset + first, to);
  std::array<std::byte, index_block_bytes> bytes;  // NOLINT: filled by read
  const auto whole =
      std::span(bytes).first(std::min<std::uint64_t>(index_block_bytes, part.bytes - start));
  file.read(part.offset + start, whole);
  check(block, whole, sample);
  std::memcpy(to.data(), whole.data() + (first - start), to.size());
}

void BlockChecks::read_once(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
                            std::optional<std::int64_t> sample) {
  if (to.empty()) return;
  const bool verified = are_verified(first, to.size());
  if (!verified && cut_) return read_cut(file, first, to, sample);
  file.read(shard_.data_offset + first, to);
  if (verified) return;
  TRIREME_EXPECTS(first % block_bytes_ == 0 && to.size() % block_bytes_ == 0,
                  "{} bytes from byte {} are not whole images", to.size(), first);
  for (std::uint64_t at = 0; at < to.size(); at += block_bytes_)
    check(block_of(first + at), to.subspan(at, block_bytes_), sample);
}

bool BlockChecks::are_verified(std::uint64_t first, std::uint64_t bytes) const {
  const std::uint64_t last = block_of(first + bytes - 1);
  std::uint64_t block = block_of(first);
  while (block <= last && is_verified(block))
    ++block;
  return block > last;
}

// Blocks to be checked are read whole, and `to` gets its part, so one read serves both. Of checked
// blocks at the ends only the requested part is read.
void BlockChecks::read_cut(const DataFile& file, std::uint64_t first, std::span<std::byte> to,
                           std::optional<std::int64_t> sample) {
  std::array<std::byte, longest_cut_block> blocks;  // NOLINT: filled by read
  const std::uint64_t past = first + to.size();
  const std::uint64_t until = is_verified(block_of(past - 1)) ? past : end_of(block_of(past - 1));
  while (!to.empty()) {
    const std::uint64_t begin_block = block_of(first);
    const std::uint64_t begin = is_verified(begin_block) ? first : begin_block << shift_;
    const std::uint64_t end = std::min((begin_block << shift_) + blocks.size(), until);
    const auto bytes = std::span(blocks).first(end - begin);
    file.read(shard_.data_offset + begin, bytes);
    // Partly read blocks are already checked, so they are skipped.
    for (std::uint64_t block = begin_block; block << shift_ < end; ++block) {
      if (is_verified(block)) continue;
      const std::uint64_t at = (block << shift_) - begin;
      check(block, bytes.subspan(at, end_of(block) - (block << shift_)), sample);
    }
    const auto part = bytes.subspan(first - begin, std::min<std::uint64_t>(to.size(), end - first));
    std::memcpy(to.data(), part.data(), part.size());
    to = to.subspan(part.size());
    first += part.size();
  }
}

void BlockChecks::check(std::uint64_t block, std::span<const std::byte> bytes,
                        std::optional<std::int64_t> sample) {
  if (is_verified(block)) return;
  if (!matches(block, bytes)) refuse(block, bytes, sample, std::nullopt);
  verified_[block / 64].fetch_or(std::uint64_t{1} << (block % 64), std::memory_order_relaxed);
}

void BlockChecks::check_whole(const Part& part, std::span<const std::byte> bytes) const {
  for (std::uint64_t block = part.first_block; !bytes.empty(); ++block) {
    const auto piece = bytes.first(std::min<std::uint64_t>(index_block_bytes, bytes.size()));
    if (!matches(block, piece)) refuse(block, piece, std::nullopt, std::nullopt);
    bytes = bytes.subspan(piece.size());
  }
}

std::string BlockChecks::elements_of(std::uint64_t block, std::uint64_t bytes) const {
  const bool tokens = shard_.header.kind == DataKind::tokens;
  const auto named = [&](const char* name, std::uint64_t first, std::uint64_t last) {
    return first == last ? fmt::format("{} {}", name, first)
                         : fmt::format("{}s {} to {}", name, first, last);
  };
  if (block >= mask_.first_block) {
    const std::uint64_t start = (block - mask_.first_block) * index_block_bytes;
    return "loss mask of " +
           named("token", 8 * start, std::min(8 * (start + bytes), shard_.header.count) - 1);
  }
  if (block >= data_blocks_) {
    const std::uint64_t size = tokens ? sizeof(std::uint64_t) : sizeof(std::int32_t);
    const std::uint64_t start = (block - data_blocks_) * index_block_bytes;
    return named(tokens ? "document offset" : "label", start / size, (start + bytes) / size - 1);
  }
  const std::uint64_t start = block * block_bytes_, size = shard_.element_bytes();
  return named(tokens ? "token" : "image", start / size, (start + bytes) / size - 1);
}

void BlockChecks::refuse(std::uint64_t block, std::span<const std::byte> bytes,
                         std::optional<std::int64_t> sample,
                         const std::optional<std::string>& others) const {
  fail(ExitCode::data,
       "{}: block {} ({} of this shard{}) does not match its checksum ({:08x}, computed {:08x}){}: "
       "the file was damaged; restore it, copy it again or re-pack the data set{}",
       shard_.path, block, elements_of(block, bytes.size()),
       sample ? fmt::format(", read for sample {}", *sample) : "", table_[block],
       block_checksum(bytes), others.value_or(""),
       others ? ""
              : fmt::format("; `trireme data inspect --verify {}` lists all damaged blocks",
                            shard_.path));
}

}  // namespace trireme
