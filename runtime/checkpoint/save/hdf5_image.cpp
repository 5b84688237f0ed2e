// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/save/hdf5_image.h"

#include <cstdlib>
#include <new>

namespace trireme::hdf5 {
namespace {

// Values are page-aligned.
constexpr hsize_t page = 4096;

}  // namespace

Handle intermediate_groups(const std::string& path) {
  const auto check = internal_check(path);
  Handle links(check(H5Pcreate(H5P_LINK_CREATE), "H5Pcreate"), H5Pclose);
  check(H5Pset_create_intermediate_group(links, 1), "H5Pset_create_intermediate_group");
  return links;
}

void* ImageFile::resize(void* memory, std::size_t bytes, H5FD_file_image_op_t, void* to) {
  static_cast<Memory*>(to)->bytes = bytes;
  return std::realloc(memory, bytes);
}

// The library frees the memory after closing the file; this keeps it. A flush would return it
// earlier, but first grows the memory to the size of the file with all its values.
herr_t ImageFile::release(void* memory, H5FD_file_image_op_t, void* to) {
  auto& it = *static_cast<Memory*>(to);
  const auto* const data = static_cast<const std::byte*>(memory);
  herr_t status = 0;
  try {
    it.kept.assign(data, data + it.bytes);
  } catch (const std::bad_alloc&) {
    status = -1;
  }
  std::free(memory);
  return status;
}

ImageFile::ImageFile(const std::string& path) : path_(path), memory_(std::make_unique<Memory>()) {
  const auto check = internal_check(path_);
  const Handle access = access_properties(path_);
  check(H5Pset_fapl_core(access, metadata_bytes, false), "H5Pset_fapl_core");
  H5FD_file_image_callbacks_t callbacks{};
  callbacks.image_malloc = [](std::size_t bytes, H5FD_file_image_op_t op, void* to) {
    return resize(nullptr, bytes, op, to);
  };
  callbacks.image_realloc = resize;
  callbacks.image_free = release;
  callbacks.udata_copy = [](void* to) { return to; };
  callbacks.udata_free = [](void*) { return herr_t{0}; };
  callbacks.udata = memory_.get();
  check(H5Pset_file_image_callbacks(access, &callbacks), "H5Pset_file_image_callbacks");
  // A single block for all metadata, at the start, to make it contiguous.
  check(H5Pset_meta_block_size(access, metadata_bytes), "H5Pset_meta_block_size");
  check(H5Pset_alignment(access, page, page), "H5Pset_alignment");
  check(H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V110), "H5Pset_libver_bounds");
  const Handle plan(check(H5Pcreate(H5P_FILE_CREATE), "H5Pcreate"), H5Pclose);
  check(H5Pset_obj_track_times(plan, false), "H5Pset_obj_track_times");
  file_ =
      Handle(check(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, plan, access), "H5Fcreate"), H5Fclose);
}

std::uint64_t ImageFile::size() const {
  hsize_t size = 0;
  internal_check(path_)(H5Fget_filesize(file_, &size), "H5Fget_filesize");
  return size;
}

std::vector<std::byte> ImageFile::finish(std::size_t count) {
  internal_check(path_)(file_.close(), "H5Fclose");
  std::vector<std::byte> image = std::move(memory_->kept);
  TRIREME_EXPECTS(!image.empty(), "{}: the library kept the file open", path_);
  image.resize(count);  // zeros in gaps left by the library
  return image;
}

}  // namespace trireme::hdf5
