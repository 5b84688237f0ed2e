// SPDX-License-Identifier: Apache-2.0
// Validation of a shard. Order matters: cheap checks in our own code come first, so that a damaged
// file rarely reaches the library, and no data is ever read through it (no filter, external file or
// virtual source is touched).
#include <algorithm>
#include <array>
#include <cstring>

#include "data/file.h"
#include "data/hdf5/shard_parts.h"
#include "data/shard.h"
#include "runtime/hdf5/handle.h"

namespace trireme {
namespace {

using hdf5::checked;
using hdf5::Handle;
using hdf5::refuse;

// Note [Superblock]: only superblock versions 2 and 3 are accepted (HDF5 1.8 or later, libver
// 'v108'). In that format every metadata block carries a checksum, which the library verifies
// before it parses the block; older files have none, and random damage could reach the parser.
void check_superblock(const InputFile& file) {
  constexpr std::array<unsigned char, 8> signature = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
  constexpr std::size_t superblock_bytes = 48;
  if (file.size() == 0) refuse(file.path(), "is empty");
  if (file.size() < superblock_bytes) {
    refuse(file.path(), fmt::format("is {} bytes long, too short for a shard", file.size()));
  }
  std::array<std::byte, superblock_bytes> head{};
  file.read(0, head);
  if (std::memcmp(head.data(), signature.data(), signature.size()) != 0) {
    refuse(file.path(), "is not an HDF5 file (no HDF5 signature at byte 0)");
  }
  const auto version = static_cast<unsigned>(head[8]);
  if (version != 2 && version != 3) {
    refuse(file.path(),
           fmt::format("has HDF5 superblock version {}; a shard has 2 or 3, whose metadata is "
                       "checksummed (HDF5 1.8 or later, h5py: libver='v108')",
                       version));
  }
}

// One dataset: hard link, expected type, rank, contiguous storage inside the file. Returns its
// extents.
class DatasetCheck {
 public:
  DatasetCheck(const std::string& path, hid_t file, const char* name) : path_(path), name_(name) {
    const std::string subject = fmt::format("{}/{}", path, name);
    if (checked(H5Lexists(file, name, H5P_DEFAULT), "H5Lexists", subject) == 0) {
      refuse(path, fmt::format("has no dataset /{}", name));
    }
    H5L_info_t link{};
    checked(H5Lget_info(file, name, &link, H5P_DEFAULT), "H5Lget_info", subject);
    if (link.type != H5L_TYPE_HARD) {
      refuse(path,
             fmt::format("/{} is a soft or external link; it must be stored in the shard itself",
                         name));
    }
    dataset_ = Handle(checked(H5Dopen2(file, name, H5P_DEFAULT), "H5Dopen2", subject), H5Dclose);
  }

  void type_is(hid_t expected, std::string_view text) const {
    const Handle type(checked(H5Dget_type(dataset_), "H5Dget_type", path_), H5Tclose);
    if (checked(H5Tequal(type, expected), "H5Tequal", path_) > 0) return;
    const bool swapped = H5Tget_class(type) == H5T_INTEGER &&
                         H5Tget_size(type) == H5Tget_size(expected) &&
                         H5Tget_order(type) != H5Tget_order(expected);
    refuse(path_, fmt::format("/{} does not hold {}{}", name_, text,
                              swapped ? " in this machine's byte order" : ""));
  }

  void storage_is_plain() const {
    const Handle plan(checked(H5Dget_create_plist(dataset_), "H5Dget_create_plist", path_),
                      H5Pclose);
    const H5D_layout_t layout = H5Pget_layout(plan);
    if (layout != H5D_CONTIGUOUS) {
      const char* const found = layout == H5D_CHUNKED   ? "chunked"
                                : layout == H5D_COMPACT ? "compact"
                                : layout == H5D_VIRTUAL ? "virtual"
                                                        : "unknown";
      const bool filtered = layout == H5D_CHUNKED && H5Pget_nfilters(plan) > 0;
      refuse(path_, fmt::format("/{} has {}{} storage; it must be contiguous and unfiltered", name_,
                                found, filtered ? ", compressed or filtered" : ""));
    }
    if (checked(H5Pget_external_count(plan), "H5Pget_external_count", path_) != 0) {
      refuse(
          path_,
          fmt::format("/{} keeps its bytes in an external file; they must be in the shard", name_));
    }
  }

  void shape_is(const std::vector<std::uint64_t>& expected) const {
    const Handle space(checked(H5Dget_space(dataset_), "H5Dget_space", path_), H5Sclose);
    const int rank =
        checked(H5Sget_simple_extent_ndims(space), "H5Sget_simple_extent_ndims", path_);
    std::vector<hsize_t> extents(static_cast<std::size_t>(rank));
    checked(H5Sget_simple_extent_dims(space, extents.data(), nullptr), "H5Sget_simple_extent_dims",
            path_);
    if (std::equal(extents.begin(), extents.end(), expected.begin(), expected.end())) return;
    refuse(path_, fmt::format("/{} has shape ({}), its attributes say ({})", name_,
                              fmt::join(extents, ", "), fmt::join(expected, ", ")));
  }

  // Byte offset of the data, after proof that [offset, offset + bytes) lies inside the file.
  [[nodiscard]] std::uint64_t offset_in(std::uint64_t file_bytes, std::uint64_t bytes) const {
    const haddr_t offset = H5Dget_offset(dataset_);
    if (offset == HADDR_UNDEF) refuse(path_, fmt::format("/{} has no bytes in this file", name_));
    std::uint64_t end = 0;
    if (__builtin_add_overflow(offset, bytes, &end) || end > file_bytes) {
      refuse(path_,
             fmt::format(
                 "/{} ({} bytes at byte {}) reaches beyond the end of the file at byte {}: the "
                 "file is truncated",
                 name_, bytes, offset, file_bytes));
    }
    return offset;
  }

 private:
  const std::string& path_;
  const char* name_;
  Handle dataset_;
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

void locate_tokens(Shard& shard, hid_t file) {
  const ShardHeader& header = shard.header;
  const bool wide = header.dtype == DType::u32;
  const DatasetCheck tokens(shard.path, file, "tokens");
  tokens.storage_is_plain();
  tokens.type_is(wide ? H5T_NATIVE_UINT32 : H5T_NATIVE_UINT16, stored_name(header.dtype));
  tokens.shape_is({header.count});
  shard.data_offset = tokens.offset_in(
      shard.file_bytes, checked_bytes(shard.path, {header.count, size_of(header.dtype)}));
  const DatasetCheck offsets(shard.path, file, "document_offsets");
  offsets.storage_is_plain();
  offsets.type_is(H5T_NATIVE_UINT64, "uint64");
  offsets.shape_is({header.documents + 1});
  shard.index_offset =
      offsets.offset_in(shard.file_bytes, checked_bytes(shard.path, {header.documents + 1, 8}));
}

void locate_images(Shard& shard, hid_t file) {
  const ShardHeader& header = shard.header;
  const DatasetCheck images(shard.path, file, "images");
  images.storage_is_plain();
  images.type_is(H5T_NATIVE_UINT8, "uint8");
  images.shape_is({header.count, header.height, header.width, header.channels});
  shard.data_offset = images.offset_in(
      shard.file_bytes,
      checked_bytes(shard.path, {header.count, header.height, header.width, header.channels}));
  const DatasetCheck labels(shard.path, file, "labels");
  labels.storage_is_plain();
  labels.type_is(H5T_NATIVE_INT32, "int32");
  labels.shape_is({header.count});
  shard.index_offset =
      labels.offset_in(shard.file_bytes, checked_bytes(shard.path, {header.count, 4}));
}

Shard open_checked(const std::string& path) {
  const InputFile plain(path);
  check_superblock(plain);
  Shard shard;
  shard.path = path;
  shard.file_bytes = plain.size();
  const hdf5::Session session;
  const Handle access = hdf5::access_properties(path);
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, access);
  if (id < 0) refuse(path, fmt::format("is damaged or truncated (HDF5: {})", hdf5::last_error()));
  const Handle file(id, H5Fclose);
  try {
    shard.header = hdf5::read_header(path, file, shard.header_checksum);
    shard.header.kind == DataKind::tokens ? locate_tokens(shard, file) : locate_images(shard, file);
  } catch (const Error& error) {
    // A library call that fails on metadata means damage, too; the user needs the file and the fix.
    if (std::string_view(error.what()).starts_with(path)) throw;
    refuse(path, fmt::format("is damaged ({})", error.what()));
  }
  return shard;
}

}  // namespace

Shard open_shard(const std::string& path) {
  return open_checked(path);
}

}  // namespace trireme
