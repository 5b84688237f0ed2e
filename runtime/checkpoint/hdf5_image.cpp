// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/hdf5_image.h"

#include <algorithm>

namespace trireme::hdf5 {
namespace {

// Values begin on pages.
constexpr hsize_t page = 4096;
constexpr std::size_t superblock_bytes = 48;  // version 2

}  // namespace

Handle intermediate_groups(const std::string& path) {
  const auto check = internal_check(path);
  Handle links(check(H5Pcreate(H5P_LINK_CREATE), "H5Pcreate"), H5Pclose);
  check(H5Pset_create_intermediate_group(links, 1), "H5Pset_create_intermediate_group");
  return links;
}

ImageFile::ImageFile(const std::string& path) : path_(path) {
  const auto check = internal_check(path_);
  access_ = access_properties(path_);
  check(H5Pset_fapl_core(access_, 2 * metadata_bytes, false), "H5Pset_fapl_core");
  // One block for all metadata at the beginning, so that it is contiguous. The newest superblock
  // that has no "open for writing" mark, which an image taken before the close would carry.
  check(H5Pset_meta_block_size(access_, metadata_bytes), "H5Pset_meta_block_size");
  check(H5Pset_alignment(access_, page, page), "H5Pset_alignment");
  check(H5Pset_libver_bounds(access_, H5F_LIBVER_V18, H5F_LIBVER_V110), "H5Pset_libver_bounds");
  const Handle plan(check(H5Pcreate(H5P_FILE_CREATE), "H5Pcreate"), H5Pclose);
  check(H5Pset_obj_track_times(plan, false), "H5Pset_obj_track_times");
  file_ =
      Handle(check(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, plan, access_), "H5Fcreate"), H5Fclose);
}

std::uint64_t ImageFile::size() const {
  hsize_t size = 0;
  internal_check(path_)(H5Fget_filesize(file_, &size), "H5Fget_filesize");
  return size;
}

std::vector<std::byte> ImageFile::beginning(std::size_t count) const {
  TRIREME_EXPECTS(count <= 2 * metadata_bytes, "{}: {} bytes before the values", path_, count);
  const auto check = internal_check(path_);
  check(H5Fflush(file_, H5F_SCOPE_GLOBAL), "H5Fflush");
  void* memory = nullptr;
  check(H5Fget_vfd_handle(file_, access_, &memory), "H5Fget_vfd_handle");
  // The core driver's memory grows by this much at once.
  const auto* const data = *static_cast<const std::byte* const*>(memory);
  return {data, data + count};
}

std::vector<std::byte> ImageFile::bytes() const {
  const auto check = internal_check(path_);
  check(H5Fflush(file_, H5F_SCOPE_GLOBAL), "H5Fflush");
  std::vector<std::byte> image(
      static_cast<std::size_t>(check(H5Fget_file_image(file_, nullptr, 0), "H5Fget_file_image")));
  check(H5Fget_file_image(file_, image.data(), image.size()), "H5Fget_file_image");
  // The library clears a flag in the image and leaves the superblock's checksum as it was.
  std::ranges::copy(beginning(superblock_bytes), image.begin());
  return image;
}

}  // namespace trireme::hdf5
