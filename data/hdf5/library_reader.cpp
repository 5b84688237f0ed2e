// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5/library_reader.h"

#include <vector>

#include "runtime/hdf5/handle.h"

namespace trireme {

using hdf5::checked;
using hdf5::Handle;

struct LibraryReader::State {
  std::string path;
  std::uint64_t element_bytes = 0;
  Handle file;
  Handle dataset;
  Handle type;
  Handle space;
  std::vector<hsize_t> block;  // extents, the first replaced by the count read
};

LibraryReader::LibraryReader(const Shard& shard) : state_(std::make_unique<State>()) {
  const hdf5::Session session;
  State& it = *state_;
  it.path = shard.path;
  it.element_bytes = shard.element_bytes();
  const Handle access = hdf5::access_properties(it.path);
  it.file = Handle(checked(H5Fopen(it.path.c_str(), H5F_ACC_RDONLY, access), "H5Fopen", it.path),
                   H5Fclose);
  const char* const name = shard.header.kind == DataKind::tokens ? "tokens" : "images";
  it.dataset = Handle(checked(H5Dopen2(it.file, name, H5P_DEFAULT), "H5Dopen2", it.path), H5Dclose);
  it.type = Handle(checked(H5Dget_type(it.dataset), "H5Dget_type", it.path), H5Tclose);
  it.space = Handle(checked(H5Dget_space(it.dataset), "H5Dget_space", it.path), H5Sclose);
  const int rank =
      checked(H5Sget_simple_extent_ndims(it.space), "H5Sget_simple_extent_ndims", it.path);
  it.block.resize(static_cast<std::size_t>(rank));
  checked(H5Sget_simple_extent_dims(it.space, it.block.data(), nullptr),
          "H5Sget_simple_extent_dims", it.path);
}

LibraryReader::~LibraryReader() {
  const hdf5::Session session;
  state_.reset();
}

void LibraryReader::read(std::uint64_t first, std::uint64_t count, std::span<std::byte> to) {
  const hdf5::Session session;
  State& it = *state_;
  TRIREME_EXPECTS(to.size() == count * it.element_bytes, "{} elements into {} bytes", count,
                  to.size());
  std::vector<hsize_t> start(it.block.size(), 0);
  start[0] = first;
  it.block[0] = count;
  checked(H5Sselect_hyperslab(it.space, H5S_SELECT_SET, start.data(), nullptr, it.block.data(),
                              nullptr),
          "H5Sselect_hyperslab", it.path);
  const Handle memory(
      checked(H5Screate_simple(static_cast<int>(it.block.size()), it.block.data(), nullptr),
              "H5Screate_simple", it.path),
      H5Sclose);
  checked(H5Dread(it.dataset, it.type, memory, it.space, H5P_DEFAULT, to.data()), "H5Dread",
          it.path);
}

}  // namespace trireme
