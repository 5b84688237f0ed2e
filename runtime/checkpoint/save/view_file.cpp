// SPDX-License-Identifier: Apache-2.0
#include "runtime/checkpoint/files/names.h"
#include "runtime/checkpoint/save/hdf5_image.h"
#include "runtime/checkpoint/save/rank_file.h"

namespace trireme {

using hdf5::Handle;

namespace {

// A regular part of a tensor: per axis `count` blocks of `block` elements, `stride` apart.
struct Box {
  std::vector<hsize_t> start, stride, count, block;
  std::int64_t elements = 0;
};

Box box_of(std::size_t rank) {
  return {std::vector<hsize_t>(rank, 0), std::vector<hsize_t>(rank, 1),
          std::vector<hsize_t>(rank, 1), std::vector<hsize_t>(rank, 1), 1};
}

// The elements [from, to) of a row-major tensor as boxes, in order: at most 2 rank - 1.
void add_interval(std::vector<Box>& boxes, const Shape& shape, std::size_t axis, const Box& outer,
                  std::int64_t from, std::int64_t to) {
  if (from >= to) return;
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < shape.rank(); ++i)
    inner *= shape[i];
  const std::int64_t first = (from + inner - 1) / inner, last = to / inner;
  const auto within = [&](std::int64_t index, std::int64_t begin, std::int64_t end) {
    Box box = outer;
    box.start[axis] = static_cast<hsize_t>(index);
    add_interval(boxes, shape, axis + 1, box, begin, end);
  };
  if (from / inner < first) {
    const std::int64_t index = from / inner;
    within(index, from - index * inner, std::min(to - index * inner, inner));
  }
  if (first < last) {
    Box box = outer;
    box.start[axis] = static_cast<hsize_t>(first);
    box.block[axis] = static_cast<hsize_t>(last - first);
    for (std::size_t i = axis + 1; i < shape.rank(); ++i)
      box.block[i] = static_cast<hsize_t>(shape[i]);
    box.elements = (last - first) * inner;
    boxes.push_back(std::move(box));
  }
  if (last >= first && last * inner < to) within(last, 0, to - last * inner);
}

void add_interval(std::vector<Box>& boxes, const Shape& shape, std::int64_t from, std::int64_t to) {
  add_interval(boxes, shape, 0, box_of(shape.rank()), from, to);
}

// Whole runs [from, to) of a block of a matrix split along its second axis: a strided box per
// partial row, one for all whole rows.
void add_matrix_runs(std::vector<Box>& boxes, const ManifestTensor& tensor, std::int64_t block,
                     std::int64_t from, std::int64_t to) {
  const std::int64_t blocks = tensor.blocking.blocks, run = tensor.blocking.run;
  const std::int64_t parts = tensor.shape[1] / (blocks * run);
  while (from < to) {
    const std::int64_t row = from / parts, part = from % parts;
    const bool whole = part == 0 && to - from >= parts;
    const std::int64_t rows = whole ? (to - from) / parts : 1;
    const std::int64_t columns = whole ? parts : std::min(parts - part, to - from);
    Box box = box_of(2);
    box.start = {static_cast<hsize_t>(row), static_cast<hsize_t>((part * blocks + block) * run)};
    box.stride = {1, static_cast<hsize_t>(blocks * run)};
    box.count = {static_cast<hsize_t>(rows), static_cast<hsize_t>(columns)};
    box.block = {1, static_cast<hsize_t>(run)};
    box.elements = rows * columns * run;
    boxes.push_back(std::move(box));
    from += rows * columns;
  }
}

// The places of a slice's elements in the whole tensor, in slice order.
std::vector<Box> boxes_of(const ManifestTensor& tensor, const ManifestSlice& slice) {
  const std::int64_t blocks = tensor.blocking.blocks, run = tensor.blocking.run;
  const Shape& shape = tensor.shape;
  std::vector<Box> boxes;
  const bool cut_rows = blocks > 1 && shape.rank() == 2 && shape[1] % (blocks * run) == 0;
  const std::int64_t end = slice.first + slice.count;
  for (std::int64_t i = slice.first; i < end;) {
    const std::int64_t runs = i % run == 0 ? (end - i) / run : 0;
    if (cut_rows && runs > 0) {
      add_matrix_runs(boxes, tensor, slice.block, i / run, i / run + runs);
      i += runs * run;
      continue;
    }
    const std::int64_t count = std::min(tensor.blocking.neighbours(i), end - i);
    const std::int64_t at = tensor.blocking.logical(slice.block, i);
    add_interval(boxes, shape, at, at + count);
    i += count;
  }
  return boxes;
}

class ViewBuilder {
 public:
  ViewBuilder(const Manifest& manifest, const std::string& path)
      : manifest_(manifest), path_(path), image_(path_), links_(hdf5::intermediate_groups(path_)) {
    of_tensor_.resize(manifest.tensors.size());
    for (std::size_t f = 0; f < manifest.files.size(); ++f) {
      std::int64_t at = 0;
      for (const ManifestSlice& slice : manifest.files[f].slices) {
        of_tensor_[static_cast<std::size_t>(slice.tensor)].push_back({f, at, &slice});
        at += slice.count;
      }
      elements_.push_back(at);
      weights_.push_back(0);
      for (const ManifestSlice& slice : manifest.files[f].slices) {
        if (manifest.tensors[static_cast<std::size_t>(slice.tensor)].kind == ParamKind::weight)
          weights_.back() += slice.count;
      }
    }
  }

  std::vector<std::byte> build() {
    for (const ValueKind kind : manifest_.kinds) {
      for (std::size_t t = 0; t < manifest_.tensors.size(); ++t) {
        if (has_value(manifest_.tensors[t].kind, kind)) add_tensor(kind, t);
      }
    }
    return image_.finish(static_cast<std::size_t>(image_.size()));
  }

 private:
  struct Part {
    std::size_t file;
    std::int64_t at;  // preceding elements in the file's datasets
    const ManifestSlice* slice;
  };

  Handle space_of(const std::vector<hsize_t>& extents) const {
    return {check_(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
                   "H5Screate_simple"),
            H5Sclose};
  }

  void add_tensor(ValueKind kind, std::size_t index) {
    const ManifestTensor& tensor = manifest_.tensors[index];
    const auto extents = tensor.shape.extents();
    const Handle whole = space_of({extents.begin(), extents.end()});
    const Handle plan(check_(H5Pcreate(H5P_DATASET_CREATE), "H5Pcreate"), H5Pclose);
    check_(H5Pset_obj_track_times(plan, false), "H5Pset_obj_track_times");
    const std::string source(name_of(kind));
    for (const Part& part : of_tensor_[index]) {
      const Handle values = space_of(
          {static_cast<hsize_t>(is_moment(kind) ? weights_[part.file] : elements_[part.file])});
      auto first = static_cast<hsize_t>(part.at);
      for (const Box& box : boxes_of(tensor, *part.slice)) {
        const auto count = static_cast<hsize_t>(box.elements);
        check_(H5Sselect_hyperslab(values, H5S_SELECT_SET, &first, nullptr, &count, nullptr),
               "H5Sselect_hyperslab");
        check_(H5Sselect_hyperslab(whole, H5S_SELECT_SET, box.start.data(), box.stride.data(),
                                   box.count.data(), box.block.data()),
               "H5Sselect_hyperslab");
        check_(H5Pset_virtual(plan, whole, manifest_.files[part.file].name.c_str(), source.c_str(),
                              values),
               "H5Pset_virtual");
        first += count;
      }
    }
    check_(H5Sselect_all(whole), "H5Sselect_all");
    const Handle dataset(check_(H5Dcreate2(image_.id(), (source + "/" + tensor.name).c_str(),
                                           H5T_IEEE_F32LE, whole, links_, plan, H5P_DEFAULT),
                                "H5Dcreate2"),
                         H5Dclose);
  }

  const Manifest& manifest_;
  const std::string path_;
  decltype(hdf5::internal_check(std::declval<const std::string&>())) check_ =
      hdf5::internal_check(path_);
  hdf5::ImageFile image_;
  Handle links_;
  std::vector<std::vector<Part>> of_tensor_;
  std::vector<std::int64_t> elements_, weights_;  // by file
};

}  // namespace

std::vector<std::byte> view_file(const Manifest& manifest, const std::string& path) {
  const hdf5::Session session;
  return ViewBuilder(manifest, path).build();
}

}  // namespace trireme
