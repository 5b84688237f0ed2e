// SPDX-License-Identifier: Apache-2.0
#include "data/verify.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <iterator>
#include <optional>

#include "data/hdf5/child.h"
#include "data/sets/image_dataset.h"
#include "data/sets/token_dataset.h"
#include "data/shard/block_checks.h"
#include "data/shard/shard_set.h"
#include "runtime/base/checksum.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

constexpr std::uint64_t bytes_of_a_read = std::uint64_t{4} << 20;

// Streams the two data sets of a shard through their checksums, and each correct part through a
// check of its values.
class PayloadScan {
 public:
  PayloadScan(const Shard& shard, const ByteProgress& progress)
      : shard_(shard), file_(shard.path), progress_(progress) {
    if (shard.block_bytes > 0) blocks_.emplace(shard, file_);
  }

  template <typename Element, typename Check>
  void data(Check&& check) {
    scan<Element>(shard_.data_offset, shard_.data_bytes(), shard_.block_bytes, 0, check);
  }
  template <typename Element, typename Check>
  void index(Check&& check) {
    scan<Element>(shard_.index_offset, shard_.index_bytes(), index_block_bytes,
                  shard_.data_blocks(), check);
  }
  template <typename Check>
  void mask(Check&& check) {
    scan<std::uint8_t>(shard_.mask_offset, shard_.mask_bytes(), index_block_bytes,
                       shard_.data_blocks() + shard_.index_blocks(), check);
  }

  // At the end: raises if a checksum does not match.
  void finish() const {
    if (!damaged_.empty()) refuse_damaged();
    if (checksum_.value() == shard_.header.payload_checksum) return;
    fail(ExitCode::data,
         "{}: the payload does not match its checksum payload_xxh3 ({:016x}, computed {:016x}): "
         "the file was damaged; restore it or re-pack the data set",
         shard_.path, shard_.header.payload_checksum, checksum_.value());
  }

 private:
  template <typename Element, typename Check>
  void scan(std::uint64_t offset, std::uint64_t bytes, std::uint64_t block_bytes,
            std::uint64_t first_block, Check&& check) {
    // Whole blocks.
    const std::uint64_t max_bytes =
        block_bytes == 0 ? bytes_of_a_read
                         : std::max(bytes_of_a_read / block_bytes, std::uint64_t{1}) * block_bytes;
    std::vector<Element> buffer(std::min(max_bytes, bytes) / sizeof(Element));
    for (std::uint64_t done = 0; done < bytes;) {
      const std::uint64_t size = std::min(max_bytes, bytes - done);
      const auto part = std::span(buffer).first(size / sizeof(Element));
      file_.read(offset + done, std::as_writable_bytes(part));
      checksum_.update(std::as_bytes(part));
      if (blocks_are_right(std::as_bytes(part), block_bytes,
                           first_block + (block_bytes == 0 ? 0 : done / block_bytes)))
        check(done / sizeof(Element), std::span<const Element>(part));
      done += size;
      if (progress_) progress_(size);
    }
  }

  bool blocks_are_right(std::span<const std::byte> bytes, std::uint64_t block_bytes,
                        std::uint64_t block) {
    if (!blocks_) return true;
    const std::size_t before = damaged_.size();
    for (; !bytes.empty(); ++block) {
      const auto part = bytes.first(std::min<std::uint64_t>(block_bytes, bytes.size()));
      bytes = bytes.subspan(part.size());
      if (blocks_->matches(block, part)) continue;
      if (damaged_.empty()) first_damaged_.assign(part.begin(), part.end());
      damaged_.push_back(block);
    }
    return damaged_.size() == before;
  }

  [[noreturn]] void refuse_damaged() const {
    constexpr std::size_t limit = 16;
    std::string others;
    if (damaged_.size() > 1) {
      const auto rest = std::span(damaged_).subspan(1, std::min(limit, damaged_.size() - 1));
      others = fmt::format(", nor do{} {} more: {}{}", damaged_.size() == 2 ? "es" : "",
                           damaged_.size() - 1, fmt::join(rest, ", "),
                           damaged_.size() - 1 > limit ? ", ..." : "");
    }
    blocks_->refuse(damaged_.front(), first_damaged_, {}, others);
  }

  const Shard& shard_;
  InputFile file_;
  const ByteProgress& progress_;
  std::optional<BlockChecks> blocks_;
  Checksum checksum_;
  std::vector<std::uint64_t> damaged_;
  std::vector<std::byte> first_damaged_;
};

template <typename Token>
void scan_tokens(const Shard& shard, PayloadScan& payload) {
  payload.data<Token>([&](std::uint64_t first, std::span<const Token> ids) {
    if (largest(ids) >= shard.header.vocabulary) refuse_ids(shard, first, ids);
  });
}

void scan_mask(const Shard& shard, PayloadScan& payload) {
  if (shard.header.targets != TextTargets::none)
    return payload.mask([](std::uint64_t /*first*/, std::span<const std::uint8_t> /*bytes*/) {});
  if (!shard.header.counted) return;
  std::uint64_t counted = 0;
  bool complete = true;
  std::uint64_t seen = 0;
  payload.mask([&](std::uint64_t first, std::span<const std::uint8_t> bytes) {
    complete = complete && first == seen;
    seen = first + bytes.size();
    for (const std::uint8_t byte : bytes)
      counted += static_cast<std::uint64_t>(std::popcount(byte));
  });
  // Damaged blocks are left out, and named by finish().
  if (!complete || seen != shard.mask_bytes() || counted == *shard.header.counted) return;
  fail(ExitCode::data,
       "{}: /loss_mask has {} bits set, and attribute 'counted' says {}; re-pack the data set",
       shard.path, counted, *shard.header.counted);
}

void scan_offsets(const Shard& shard, PayloadScan& payload) {
  std::uint64_t last = 0;
  payload.index<std::uint64_t>([&](std::uint64_t first, std::span<const std::uint64_t> offsets) {
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const bool good = first + i == 0 ? offsets[i] == 0 : offsets[i] > last;
      if (!good) {
        fail(ExitCode::data, "{}: document offset {} is {}, after {}; re-pack the data set",
             shard.path, first + i, offsets[i], last);
      }
      last = offsets[i];
    }
  });
  scan_mask(shard, payload);
  payload.finish();
  if (last != shard.header.count) {
    fail(ExitCode::data, "{}: the last document ends at {}, the tokens at {}; re-pack the data set",
         shard.path, last, shard.header.count);
  }
}

}  // namespace

void verify_payload(const Shard& shard, const ByteProgress& progress) {
  PayloadScan payload(shard, progress);
  // Without block checksums a damaged byte shows as a wrong checksum of all, or, named more
  // exactly, as an id or label out of range.
  if (shard.header.kind == DataKind::tokens) {
    shard.header.dtype == DType::u16 ? scan_tokens<std::uint16_t>(shard, payload)
                                     : scan_tokens<std::uint32_t>(shard, payload);
    scan_offsets(shard, payload);
  } else {
    payload.data<std::byte>([](auto, auto) {});
    payload.index<std::int32_t>(
        [&](std::uint64_t first, auto labels) { check_labels(shard, first, labels); });
    payload.finish();
  }
}

void verify_rest(const Shard& shard, const ByteProgress& progress) {
  if (!shard.blocks) return verify_payload(shard, progress);
  BlockChecks& blocks = *shard.blocks;
  const DataFile file(shard.path);
  const std::uint64_t in_a_read =
      std::max(bytes_of_a_read / shard.block_bytes, std::uint64_t{1}) * shard.block_bytes;
  std::vector<std::byte> buffer(std::min(in_a_read, shard.data_bytes()));
  for (std::uint64_t first = 0; first < shard.data_bytes(); first += in_a_read) {
    const auto part = std::span(buffer).first(std::min(in_a_read, shard.data_bytes() - first));
    if (!blocks.are_verified(first, part.size())) blocks.read(file, first, part, {});
    progress(part.size());
  }
  std::vector<std::byte> index(shard.index_bytes());
  file.source().read(shard.index_offset, index);
  blocks.check_index(index);
  progress(index.size());
  std::vector<std::byte> mask(shard.mask_bytes());
  if (!mask.empty()) file.source().read(shard.mask_offset, mask);
  blocks.check_mask(mask);
  progress(mask.size());
}

std::vector<ShardReport> verify_dataset(const std::string& path, const ByteProgress& progress) {
  const ShardList list = list_shards(path, "");
  std::vector<ShardReport> reports;
  bool sound = true;
  const auto child = Hdf5Child::shared();  // one for all shards
  for (const std::string& file : list.paths) {
    ShardReport report{.path = file};
    try {
      const Shard shard = open_shard(file);
      report.bytes = shard.file_bytes;
      verify_payload(shard, progress);
    } catch (const Error& error) {
      report.problem = error.what();
      sound = false;
    }
    reports.push_back(std::move(report));
  }
  if (!sound) return reports;
  try {
    const ShardSet together(list);
  } catch (const Error& error) {
    reports.push_back({.path = path, .problem = error.what()});
  }
  return reports;
}

std::vector<ShardReport> verify_packed(const DataPlace& place, const StartProgress& start) {
  std::vector<ShardReport> all;
  for (const std::string& name : place.names) {
    for (const std::string& path : find_datasets(name)) {
      std::uint64_t bytes = 0;
      for (const std::string& file : list_shards(path, "").paths) {
        std::error_code unknown;
        const auto size = std::filesystem::file_size(file, unknown);
        if (!unknown) bytes += size;
      }
      std::ranges::move(verify_dataset(path, start("verifying", bytes)), std::back_inserter(all));
    }
  }
  return all;
}

}  // namespace trireme
