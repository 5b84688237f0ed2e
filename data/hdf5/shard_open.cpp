// SPDX-License-Identifier: Apache-2.0
// Validates the HDF5 library's description of a shard, and the data sets' offsets.
#include <array>
#include <cstring>

#include "data/hdf5/child.h"
#include "data/hdf5/shard_parts.h"
#include "data/shard/data_file.h"
#include "data/shard/shard.h"
#include "runtime/base/file_kind.h"

namespace trireme {
namespace {

using hdf5::find_named;
using hdf5::refuse;

// Note [Superblock]: only superblock versions 2 and 3 are accepted (HDF5 1.8 or later, libver
// 'v108'). In that format every metadata block carries a checksum; older files have none.
void check_superblock(const InputFile& file) {
  constexpr std::array<unsigned char, 8> signature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  constexpr std::uint64_t superblock_bytes = 48;
  const std::string& path = file.path();
  std::array<unsigned char, signature.size() + 1> head{};
  file.read(0, std::as_writable_bytes(std::span(head).first(
                   static_cast<std::size_t>(std::min<std::uint64_t>(head.size(), file.size())))));
  if (std::memcmp(head.data(), signature.data(), signature.size()) != 0)
    refuse(path,
           fmt::format("is not an HDF5 file; it is {}", describe_file_kind(path, ExitCode::data)));
  if (file.size() < superblock_bytes)
    refuse(path, fmt::format("is {} bytes long, too short for a shard", file.size()));
  if (const unsigned version = head.back(); version != 2 && version != 3) {
    refuse(path,
           fmt::format("has HDF5 superblock version {}; a shard has 2 or 3, whose metadata is "
                       "checksummed (HDF5 1.8 or later, h5py: libver='v108')",
                       version));
  }
}

ShardFacts facts_of(const std::string& path) {
  try {
    return Hdf5Child::shared()->shard(path);
  } catch (const Error& error) {
    refuse(error);
  }
}

// One dataset: hard link, expected type, rank, contiguous storage inside the file.
class DatasetCheck {
 public:
  DatasetCheck(const InputFile& file, const ShardFacts& facts, const char* name)
      : path_(file.path()),
        name_(name),
        file_bytes_(file.size()),
        set_(find_named(facts.datasets, name)) {
    if (set_ == nullptr) refuse(path_, fmt::format("has no dataset /{}", name));
    if (set_->storage == "link") {
      refuse(path_,
             fmt::format("/{} is a soft or external link; it must be stored in the shard itself",
                         name));
    }
    if (set_->storage.empty()) refuse(path_, fmt::format("is damaged: /{} is not a dataset", name));
    storage_is_plain();
  }

  void type_is(std::string_view wanted) const {
    if (set_->type == wanted) return;
    const bool swapped = set_->type.starts_with("big-endian ") && set_->type.ends_with(wanted);
    refuse(path_, fmt::format("/{} does not hold {}{}", name_, wanted,
                              swapped ? " in this machine's byte order" : ""));
  }

  void shape_is(const std::vector<std::uint64_t>& expected) const {
    if (set_->extents == expected) return;
    refuse(path_, fmt::format("/{} has shape ({}), its attributes say ({})", name_,
                              fmt::join(set_->extents, ", "), fmt::join(expected, ", ")));
  }

  // Byte offset of the data, after checking that [offset, offset + bytes) is inside the file.
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t bytes) const {
    const std::uint64_t offset = set_->address;
    if (offset == ShardDataset::no_address)
      refuse(path_, fmt::format("/{} has no bytes in this file", name_));
    std::uint64_t end = 0;
    if (__builtin_add_overflow(offset, bytes, &end) || end > file_bytes_) {
      refuse(path_,
             fmt::format(
                 "/{} ({} bytes at byte {}) reaches beyond the end of the file at byte {}: the "
                 "file is truncated",
                 name_, bytes, offset, file_bytes_));
    }
    if (set_->bytes != bytes) {
      refuse(path_, fmt::format("is damaged: /{} has {} bytes, not {}", name_, set_->bytes, bytes));
    }
    return offset;
  }

 private:
  void storage_is_plain() const {
    if (set_->storage != "contiguous") {
      refuse(path_, fmt::format("/{} has {}{} storage; it must be contiguous and unfiltered", name_,
                                set_->storage, set_->filtered ? ", compressed or filtered" : ""));
    }
    if (set_->external) {
      refuse(
          path_,
          fmt::format("/{} keeps its bytes in an external file; they must be in the shard", name_));
    }
  }

  const std::string& path_;
  const char* name_;
  std::uint64_t file_bytes_;
  const ShardDataset* set_;
};

std::uint64_t checked_bytes(const std::string& path, std::initializer_list<std::uint64_t> factors) {
  std::uint64_t bytes = 1;
  for (const std::uint64_t factor : factors) {
    if (__builtin_mul_overflow(bytes, factor, &bytes) || bytes > (std::uint64_t{1} << 62)) {
      refuse(path, "has sizes whose product does not fit 64 bits");
    }
  }
  return bytes;
}

void locate_tokens(Shard& shard, const InputFile& file, const ShardFacts& facts) {
  const ShardHeader& header = shard.header;
  const DatasetCheck tokens(file, facts, "tokens");
  tokens.type_is(stored_name(header.dtype));
  tokens.shape_is({header.count});
  shard.data_offset =
      tokens.offset_of(checked_bytes(shard.path, {header.count, size_of(header.dtype)}));
  const DatasetCheck offsets(file, facts, "document_offsets");
  offsets.type_is("uint64");
  offsets.shape_is({header.documents + 1});
  shard.index_offset = offsets.offset_of(checked_bytes(shard.path, {header.documents + 1, 8}));
  if (header.targets != TextTargets::none) {
    const DatasetCheck targets(file, facts, "targets");
    targets.type_is(header.has_float_targets() ? "float32" : "int32");
    targets.shape_is({checked_bytes(
        shard.path, {header.targets == TextTargets::token_classes ? header.count : header.documents,
                     header.target_width})});
    shard.mask_offset = targets.offset_of(shard.mask_bytes());
  }
  if (!header.counted) return;
  const DatasetCheck mask(file, facts, "loss_mask");
  mask.type_is("uint8");
  mask.shape_is({shard.mask_bytes()});
  shard.mask_offset = mask.offset_of(shard.mask_bytes());
}

void locate_images(Shard& shard, const InputFile& file, const ShardFacts& facts) {
  const ShardHeader& header = shard.header;
  const DatasetCheck images(file, facts, "images");
  images.type_is("uint8");
  images.shape_is({header.count, header.height, header.width, header.channels});
  shard.data_offset = images.offset_of(
      checked_bytes(shard.path, {header.count, header.height, header.width, header.channels}));
  const DatasetCheck labels(file, facts, "labels");
  labels.type_is("int32");
  labels.shape_is({header.count});
  shard.index_offset = labels.offset_of(checked_bytes(shard.path, {header.count, 4}));
}

void locate_blocks(Shard& shard, const InputFile& file, const ShardFacts& facts) {
  if (!hdf5::read_block_attributes(facts, shard)) return;
  const std::uint64_t blocks = shard.blocks_in_all();
  const DatasetCheck table(file, facts, "block_checksums");
  table.type_is("uint32");
  table.shape_is({blocks});
  shard.table_offset = table.offset_of(checked_bytes(shard.path, {blocks, 4}));
}

}  // namespace

Shard open_shard(const std::string& path) {
  const InputFile file(path);
  check_superblock(file);
  const ShardFacts facts = facts_of(path);
  Shard shard;
  shard.path = path;
  shard.file_bytes = file.size();
  shard.header = hdf5::read_header(path, facts, shard.header_checksum);
  shard.header.kind == DataKind::tokens ? locate_tokens(shard, file, facts)
                                        : locate_images(shard, file, facts);
  locate_blocks(shard, file, facts);
  return shard;
}

}  // namespace trireme
