// SPDX-License-Identifier: Apache-2.0
// Validation of a shard, without the HDF5 library: what it parses may be crafted (metadata.h).
#include <algorithm>

#include "data/hdf5/metadata.h"
#include "data/hdf5/shard_parts.h"
#include "data/shard/file.h"
#include "data/shard/shard.h"

namespace trireme {
namespace {

using hdf5::damaged;
using hdf5::refuse;
using hdf5::RootGroup;

// One dataset: hard link, expected type, rank, contiguous storage inside the file.
class DatasetCheck {
 public:
  DatasetCheck(const InputFile& file, const RootGroup& root, const char* name)
      : path_(file.path()), name_(name), file_bytes_(file.size()) {
    const auto at = root.links.find(name);
    if (at == root.links.end()) refuse(path_, fmt::format("has no dataset /{}", name));
    if (!at->second) {
      refuse(path_,
             fmt::format("/{} is a soft or external link; it must be stored in the shard itself",
                         name));
    }
    set_ = hdf5::read_dataset(file, *at->second);
  }

  void type_is(std::uint64_t bytes, bool is_signed, std::string_view text) const {
    const hdf5::DataType& type = set_.type;
    const bool alike = type.kind == hdf5::DataType::Kind::integer && type.bytes == bytes &&
                       type.is_signed == is_signed;
    const bool swapped = bytes > 1 && !type.little_endian;
    if (alike && !swapped) return;
    refuse(path_, fmt::format("/{} does not hold {}{}", name_, text,
                              alike ? " in this machine's byte order" : ""));
  }

  void storage_is_plain() const {
    if (set_.storage != "contiguous") {
      refuse(path_, fmt::format("/{} has {}{} storage; it must be contiguous and unfiltered", name_,
                                set_.storage, set_.filtered ? ", compressed or filtered" : ""));
    }
    if (set_.external) {
      refuse(
          path_,
          fmt::format("/{} keeps its bytes in an external file; they must be in the shard", name_));
    }
  }

  void shape_is(const std::vector<std::uint64_t>& expected) const {
    if (set_.space.extents == expected) return;
    refuse(path_, fmt::format("/{} has shape ({}), its attributes say ({})", name_,
                              fmt::join(set_.space.extents, ", "), fmt::join(expected, ", ")));
  }

  // Byte offset of the data, after proof that [offset, offset + bytes) lies inside the file.
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t bytes) const {
    const std::uint64_t offset = set_.address;
    if (offset == hdf5::undefined_address)
      refuse(path_, fmt::format("/{} has no bytes in this file", name_));
    std::uint64_t end = 0;
    if (__builtin_add_overflow(offset, bytes, &end) || end > file_bytes_) {
      refuse(path_,
             fmt::format(
                 "/{} ({} bytes at byte {}) reaches beyond the end of the file at byte {}: the "
                 "file is truncated",
                 name_, bytes, offset, file_bytes_));
    }
    if (set_.bytes != bytes)
      damaged(path_, fmt::format("/{} has {} bytes, not {}", name_, set_.bytes, bytes));
    return offset;
  }

 private:
  const std::string& path_;
  const char* name_;
  std::uint64_t file_bytes_;
  hdf5::StoredDataset set_;
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

void locate_tokens(Shard& shard, const InputFile& file, const RootGroup& root) {
  const ShardHeader& header = shard.header;
  const DatasetCheck tokens(file, root, "tokens");
  tokens.storage_is_plain();
  tokens.type_is(size_of(header.dtype), false, stored_name(header.dtype));
  tokens.shape_is({header.count});
  shard.data_offset =
      tokens.offset_of(checked_bytes(shard.path, {header.count, size_of(header.dtype)}));
  const DatasetCheck offsets(file, root, "document_offsets");
  offsets.storage_is_plain();
  offsets.type_is(8, false, "uint64");
  offsets.shape_is({header.documents + 1});
  shard.index_offset = offsets.offset_of(checked_bytes(shard.path, {header.documents + 1, 8}));
  if (!header.counted) return;
  const DatasetCheck mask(file, root, "loss_mask");
  mask.storage_is_plain();
  mask.type_is(1, false, "uint8");
  mask.shape_is({shard.mask_bytes()});
  shard.mask_offset = mask.offset_of(shard.mask_bytes());
}

void locate_images(Shard& shard, const InputFile& file, const RootGroup& root) {
  const ShardHeader& header = shard.header;
  const DatasetCheck images(file, root, "images");
  images.storage_is_plain();
  images.type_is(1, false, "uint8");
  images.shape_is({header.count, header.height, header.width, header.channels});
  shard.data_offset = images.offset_of(
      checked_bytes(shard.path, {header.count, header.height, header.width, header.channels}));
  const DatasetCheck labels(file, root, "labels");
  labels.storage_is_plain();
  labels.type_is(4, true, "int32");
  labels.shape_is({header.count});
  shard.index_offset = labels.offset_of(checked_bytes(shard.path, {header.count, 4}));
}

void locate_blocks(Shard& shard, const InputFile& file, const RootGroup& root) {
  if (!hdf5::read_block_attributes(root, shard)) return;
  const std::uint64_t blocks = shard.blocks_in_all();
  const DatasetCheck table(file, root, "block_checksums");
  table.storage_is_plain();
  table.type_is(4, false, "uint32");
  table.shape_is({blocks});
  shard.table_offset = table.offset_of(checked_bytes(shard.path, {blocks, 4}));
}

}  // namespace

Shard open_shard(const std::string& path) {
  const InputFile file(path);
  const RootGroup root = hdf5::read_root(file);
  Shard shard;
  shard.path = path;
  shard.file_bytes = file.size();
  shard.header = hdf5::read_header(path, root, shard.header_checksum);
  shard.header.kind == DataKind::tokens ? locate_tokens(shard, file, root)
                                        : locate_images(shard, file, root);
  locate_blocks(shard, file, root);
  return shard;
}

}  // namespace trireme
