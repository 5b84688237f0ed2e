// SPDX-License-Identifier: Apache-2.0
#include "data/shard/shard_writer.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "data/hdf5/shard_parts.h"
#include "data/shard/block_checks.h"
#include "data/shard/data_file.h"
#include "runtime/base/checksum.h"
#include "runtime/base/output_directory.h"
#include "runtime/hdf5/handle.h"

namespace trireme {
namespace {

using hdf5::Handle;

// Room for attributes and object headers beside the payload.
constexpr std::uint64_t metadata_reserve = std::uint64_t{1} << 16;

template <typename Result>
Result written(Result result, std::string_view call, std::string_view subject,
               std::source_location where = std::source_location::current()) {
  return hdf5::checked(result, call, subject, ExitCode::internal, where);
}

Handle create_file(const std::string& path) {
  const Handle access = hdf5::access_properties(path);
  // See Note [Superblock] in shard_open.cpp.
  written(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18), "H5Pset_libver_bounds",
          path);
  constexpr hsize_t page = 4096;
  written(H5Pset_alignment(access, page, page), "H5Pset_alignment", path);
  const Handle plan(written(H5Pcreate(H5P_FILE_CREATE), "H5Pcreate", path), H5Pclose);
  written(H5Pset_obj_track_times(plan, false), "H5Pset_obj_track_times", path);
  const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, plan, access);
  return {written(id, "H5Fcreate", path), H5Fclose};
}

// Contiguous, allocated early, never filled, without time stamps: equal input gives equal files.
Handle create_dataset(hid_t file, const char* name, hid_t type, const std::vector<hsize_t>& extents,
                      const std::string& path) {
  const Handle space(
      written(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
              "H5Screate_simple", path),
      H5Sclose);
  const Handle plan(written(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate", path), H5Pclose);
  written(H5Pset_layout(plan, H5D_CONTIGUOUS), "H5Pset_layout", path);
  written(H5Pset_alloc_time(plan, H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time", path);
  written(H5Pset_fill_time(plan, H5D_FILL_TIME_NEVER), "H5Pset_fill_time", path);
  written(H5Pset_obj_track_times(plan, false), "H5Pset_obj_track_times", path);
  return {written(H5Dcreate2(file, name, type, space, H5P_DEFAULT, plan, H5P_DEFAULT), "H5Dcreate2",
                  path),
          H5Dclose};
}

// One-dimensional, written in one call.
void write_dataset(hid_t file, const char* name, hid_t type, std::span<const std::byte> bytes,
                   std::uint64_t elements, const std::string& path) {
  Handle dataset = create_dataset(file, name, type, {elements}, path);
  written(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), "H5Dwrite", path);
  written(dataset.close(), "H5Dclose", path);
}

// Reserves disk blocks for the first `bytes` of the file, so that the library's own writes cannot
// run out of space.
void reserve(const FileDescriptor& file, std::uint64_t bytes, const std::string& path) {
  // Reserving past the end of a file ignores `ulimit -f`; writing there does not.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      bytes > limit.rlim_cur) {
    errno = EFBIG;
    write_failed("getrlimit", path);
  }
  if (::fallocate(file.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0) return;
  if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return;
  write_failed("fallocate", path);
}

}  // namespace

struct ShardWriter::State {
  std::string path;
  std::string temporary;
  ShardHeader header;
  hid_t type = -1;
  std::vector<hsize_t> extents;
  FileDescriptor descriptor;
  Handle file;
  Handle payload;
  std::uint64_t written = 0;
  Checksum checksum;
  BlockSums blocks;

  [[nodiscard]] std::uint64_t element_bytes() const {
    return Shard{.path = {}, .header = header}.element_bytes();
  }
  [[nodiscard]] std::uint64_t block_bytes() const {
    return header.kind == DataKind::tokens ? token_block_bytes : element_bytes();
  }
};

ShardWriter::ShardWriter(std::string path, ShardHeader header) : state_(std::make_unique<State>()) {
  State& it = *state_;
  it.temporary = path + ".tmp";
  it.path = std::move(path);
  it.header = std::move(header);
  const ShardHeader& head = it.header;
  TRIREME_EXPECTS(head.count > 0, "a shard of {} elements", head.count);
  it.extents = {head.count};
  if (head.kind == DataKind::images)
    it.extents.insert(it.extents.end(), {head.height, head.width, head.channels});
  const std::uint64_t bytes = head.count * it.element_bytes();

  // The first blocks are reserved before the library writes, because its handling of a full disk is
  // unreliable.
  it.descriptor = OutputDirectory(parent_directory(it.path), ExitCode::internal)
                      .create(std::filesystem::path(it.temporary).filename(), O_RDWR);
  try {
    reserve(it.descriptor, bytes + metadata_reserve, it.path);
    const hdf5::Session session;
    it.type = head.kind == DataKind::images ? H5T_NATIVE_UINT8
              : head.dtype == DType::u32    ? H5T_NATIVE_UINT32
                                            : H5T_NATIVE_UINT16;
    it.file = create_file(it.temporary);
    // Creating truncates, which frees the blocks.
    reserve(it.descriptor, bytes + metadata_reserve, it.path);
    it.payload = create_dataset(it.file, head.kind == DataKind::images ? "images" : "tokens",
                                it.type, it.extents, it.path);
  } catch (...) {
    const hdf5::Session session;
    it.payload = Handle();
    it.file = Handle();
    ::unlink(it.temporary.c_str());
    throw;
  }
}

ShardWriter::~ShardWriter() {
  if (!state_ || state_->temporary.empty()) return;
  const hdf5::Session session;
  state_->payload = Handle();
  state_->file = Handle();
  ::unlink(state_->temporary.c_str());
}

void ShardWriter::write(const void* elements, std::uint64_t count) {
  State& it = *state_;
  TRIREME_EXPECTS(count <= it.header.count - it.written,
                  "{} elements into a shard with room for {}", count, it.header.count - it.written);
  const hdf5::Session session;
  std::vector<hsize_t> start(it.extents.size(), 0), block = it.extents;
  start[0] = it.written;
  block[0] = count;
  const Handle target(written(H5Dget_space(it.payload), "H5Dget_space", it.path), H5Sclose);
  written(H5Sselect_hyperslab(target, H5S_SELECT_SET, start.data(), nullptr, block.data(), nullptr),
          "H5Sselect_hyperslab", it.path);
  const Handle source(
      written(H5Screate_simple(static_cast<int>(block.size()), block.data(), nullptr),
              "H5Screate_simple", it.path),
      H5Sclose);
  written(H5Dwrite(it.payload, it.type, source, target, H5P_DEFAULT, elements), "H5Dwrite",
          it.path);
  const std::span bytes(static_cast<const std::byte*>(elements), count * it.element_bytes());
  it.checksum.update(bytes);
  it.blocks.add(bytes, it.block_bytes());
  it.written += count;
}

void ShardWriter::finish(std::span<const std::uint64_t> document_offsets,
                         std::span<const std::byte> loss_mask) {
  State& it = *state_;
  TRIREME_EXPECTS(it.header.kind == DataKind::tokens && document_offsets.size() >= 2 &&
                      document_offsets.front() == 0 && document_offsets.back() == it.header.count,
                  "document offsets of a shard of {} tokens", it.header.count);
  it.header.documents = document_offsets.size() - 1;
  if (it.header.targets != TextTargets::none) {
    TRIREME_EXPECTS(loss_mask.size() == it.header.target_count() * sizeof(std::int32_t),
                    "targets of {} bytes for {} numbers", loss_mask.size(),
                    it.header.target_count());
  } else if (!loss_mask.empty()) {
    TRIREME_EXPECTS(loss_mask.size() == loss_mask_bytes(it.header.count),
                    "a loss mask of {} bytes for {} tokens", loss_mask.size(), it.header.count);
    it.header.counted = 0;
    for (const std::byte byte : loss_mask)
      *it.header.counted +=
          static_cast<std::uint64_t>(std::popcount(std::to_integer<unsigned>(byte)));
  }
  commit("document_offsets", H5T_NATIVE_UINT64, std::as_bytes(document_offsets),
         document_offsets.size(), loss_mask);
}

void ShardWriter::finish(std::span<const std::int32_t> labels) {
  TRIREME_EXPECTS(state_->header.kind == DataKind::images && labels.size() == state_->header.count,
                  "{} labels for {} images", labels.size(), state_->header.count);
  commit("labels", H5T_NATIVE_INT32, std::as_bytes(labels), labels.size());
}

void ShardWriter::commit(const char* name, std::int64_t type, std::span<const std::byte> index,
                         std::uint64_t elements, std::span<const std::byte> mask) {
  State& it = *state_;
  TRIREME_EXPECTS(it.written == it.header.count, "{} of {} elements written", it.written,
                  it.header.count);
  it.blocks.end_block();
  for (const auto part : {index, mask}) {
    it.blocks.add(part, index_block_bytes);
    it.blocks.end_block();
  }
  std::uint64_t size = 0;
  {
    const hdf5::Session session;
    hsize_t used = 0;
    written(H5Fget_filesize(it.file, &used), "H5Fget_filesize", it.path);
    reserve(it.descriptor,
            used + index.size() + mask.size() + it.blocks.table().size() * sizeof(std::uint32_t) +
                metadata_reserve + 2 * join_classes(it.header.classes).size(),
            it.path);
    write_dataset(it.file, name, type, index, elements, it.path);
    if (it.header.targets != TextTargets::none) {
      write_dataset(it.file, "targets",
                    it.header.has_float_targets() ? H5T_IEEE_F32LE : H5T_NATIVE_INT32, mask,
                    it.header.target_count(), it.path);
    } else if (!mask.empty()) {
      write_dataset(it.file, "loss_mask", H5T_NATIVE_UINT8, mask, mask.size(), it.path);
    }
    write_dataset(it.file, "block_checksums", H5T_NATIVE_UINT32,
                  std::as_bytes(std::span(it.blocks.table())), it.blocks.table().size(), it.path);
    it.checksum.update(index);
    it.checksum.update(mask);
    it.header.payload_checksum = it.checksum.value();
    hdf5::write_header(it.path, it.file, it.header);
    hdf5::write_block_attributes(
        it.path, it.file, it.block_bytes(),
        table_checksum(it.block_bytes(), it.header.payload_checksum, it.blocks.table()));
    written(it.payload.close(), "H5Dclose", it.path);
    written(it.file.close(), "H5Fclose", it.path);
  }
  // Frees the space reserved past the end.
  const off_t end = ::lseek(it.descriptor.get(), 0, SEEK_END);
  if (end < 0) system_failed("lseek", it.path);
  size = static_cast<std::uint64_t>(end);
  if (::ftruncate(it.descriptor.get(), static_cast<off_t>(size)) != 0)
    write_failed("ftruncate", it.path);
  if (::fsync(it.descriptor.get()) != 0) write_failed("fsync", it.path);
  if (::rename(it.temporary.c_str(), it.path.c_str()) != 0) system_failed("rename", it.path);
  it.temporary.clear();
  sync_path(parent_directory(it.path));
}

}  // namespace trireme
