// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/save/rank_file.h"

#include <algorithm>
#include <cstring>

#include "runtime/checkpoint/save/hdf5_image.h"

namespace trireme {

using hdf5::Handle;

namespace {

Handle one_dimension(std::uint64_t elements, const std::string& path) {
  const hsize_t extent = elements;
  return {hdf5::checked(H5Screate_simple(1, &extent, nullptr), "H5Screate_simple", path,
                        ExitCode::internal),
          H5Sclose};
}

// Contiguous, allocated early; only our own writes fill its values.
std::uint64_t place_dataset(hid_t file, const char* name, std::uint64_t elements,
                            const std::string& path) {
  const auto checked = hdf5::internal_check(path);
  const Handle plan(checked(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate"), H5Pclose);
  checked(H5Pset_layout(plan, H5D_CONTIGUOUS), "H5Pset_layout");
  checked(H5Pset_alloc_time(plan, H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
  checked(H5Pset_fill_time(plan, H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  checked(H5Pset_obj_track_times(plan, false), "H5Pset_obj_track_times");
  const Handle space = one_dimension(elements, path);
  const Handle links = hdf5::intermediate_groups(path);
  const Handle dataset(
      checked(H5Dcreate2(file, name, H5T_IEEE_F32LE, space, links, plan, H5P_DEFAULT),
              "H5Dcreate2"),
      H5Dclose);
  const haddr_t offset = H5Dget_offset(dataset);
  TRIREME_EXPECTS(offset != HADDR_UNDEF, "{}: dataset {} has no place", path, name);
  return offset;
}

}  // namespace

RankFilePlan plan_rank_file(const std::array<std::uint64_t, value_kinds.size()>& elements,
                            const std::string& path) {
  const hdf5::Session session;
  hdf5::ImageFile image(path);
  RankFilePlan plan;
  std::uint64_t first = image.size(), last = 0;
  for (const ValueKind kind : value_kinds) {
    const auto i = static_cast<std::size_t>(kind);
    if (elements[i] == 0) continue;
    const std::uint64_t offset =
        place_dataset(image.id(), std::string(name_of(kind)).c_str(), elements[i], path);
    first = last == 0 ? offset : std::min(first, offset);
    last = std::max(last, offset + elements[i] * sizeof(float));
    plan.offsets[i] = offset;
  }
  plan.bytes = std::max<std::uint64_t>(image.size(), last);
  plan.header = image.finish(first);
  return plan;
}

}  // namespace trireme
