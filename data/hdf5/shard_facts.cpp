// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5/shard_facts.h"

#include <hdf5.h>

#include <algorithm>
#include <array>

#include "data/hdf5/chunk_places.h"
#include "data/hdf5/field_storage.h"
#include "data/hdf5/object_path.h"
#include "data/index_archive.h"
#include "runtime/base/error.h"

namespace trireme {

using hdf5::checked;
using hdf5::Handle;

namespace {

ShardAttribute read_attribute(const OpenHdf5& file, const std::string& name) {
  constexpr std::size_t longest_text = std::size_t{16} << 20;
  using Kind = ShardAttribute::Kind;
  ShardAttribute it{.name = name};
  const Handle attribute(
      checked(H5Aopen(file.file, name.c_str(), H5P_DEFAULT), "H5Aopen", file.path), H5Aclose);
  const Handle type(checked(H5Aget_type(attribute), "H5Aget_type", file.path), H5Tclose);
  const Handle space(checked(H5Aget_space(attribute), "H5Aget_space", file.path), H5Sclose);
  const H5T_class_t kind = H5Tget_class(type);
  const std::size_t bytes = H5Tget_size(type);
  if (H5Sget_simple_extent_type(space) != H5S_SCALAR) {
    it.kind = Kind::not_scalar;
  } else if (kind == H5T_INTEGER && bytes <= sizeof(it.number)) {
    it.kind = Kind::integer;
    checked(H5Aread(attribute, H5T_NATIVE_UINT64, &it.number), "H5Aread", file.path);
  } else if (kind == H5T_STRING && H5Tis_variable_str(type) == 0 && bytes <= longest_text) {
    it.kind = Kind::text;
    it.text.resize(bytes);
    checked(H5Aread(attribute, type, it.text.data()), "H5Aread", file.path);
    it.text.resize(std::min(it.text.find('\0'), bytes));
  }
  return it;
}

std::string name_of_type(hid_t type) {
  const std::size_t bytes = H5Tget_size(type);
  if (H5Tequal(type, H5T_IEEE_F32LE) > 0) return "float32";
  if (H5Tget_class(type) != H5T_INTEGER || bytes > 8 || H5Tget_precision(type) != 8 * bytes)
    return "other";
  return fmt::format("{}{}int{}",
                     bytes > 1 && H5Tget_order(type) != H5T_ORDER_LE ? "big-endian " : "",
                     H5Tget_sign(type) == H5T_SGN_NONE ? "u" : "", 8 * bytes);
}

ShardDataset read_dataset(const OpenHdf5& file, const std::string& name) {
  constexpr std::array layouts = {"compact", "contiguous", "chunked", "virtual"};
  ShardDataset it{.name = name};
  H5L_info_t link;
  checked(H5Lget_info(file.file, name.c_str(), &link, H5P_DEFAULT), "H5Lget_info", file.path);
  if (link.type != H5L_TYPE_HARD) {
    it.storage = "link";
    return it;
  }
  const Handle data(checked(H5Oopen(file.file, name.c_str(), H5P_DEFAULT), "H5Oopen", file.path),
                    H5Oclose);
  if (H5Iget_type(data) != H5I_DATASET) return it;
  const Handle type(checked(H5Dget_type(data), "H5Dget_type", file.path), H5Tclose);
  const Handle plan(checked(H5Dget_create_plist(data), "H5Dget_create_plist", file.path), H5Pclose);
  const auto layout =
      static_cast<std::size_t>(checked(H5Pget_layout(plan), "H5Pget_layout", file.path));
  it.storage = layout < layouts.size() ? layouts[layout] : "unknown";
  it.type = name_of_type(type);
  it.filtered = checked(H5Pget_nfilters(plan), "H5Pget_nfilters", file.path) > 0;
  if (it.storage != "contiguous") return it;
  it.external = checked(H5Pget_external_count(plan), "H5Pget_external_count", file.path) > 0;
  const Handle space(checked(H5Dget_space(data), "H5Dget_space", file.path), H5Sclose);
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  const int axes = checked(H5Sget_simple_extent_dims(space, extents.data(), nullptr),
                           "H5Sget_simple_extent_dims", file.path);
  it.extents.assign(extents.begin(), extents.begin() + axes);
  it.bytes = H5Dget_storage_size(data);
  const bool empty = std::ranges::find(it.extents, 0U) != it.extents.end();
  if (it.external || empty || it.type == "other") return it;
  constexpr std::array<hsize_t, H5S_MAX_RANK> first{};
  it.address = place_of_element(data, type, first.data(), file.path);
  return it;
}

}  // namespace

template <typename Archive>
void transfer(Archive& archive, ShardAttribute& attribute) {
  auto kind = static_cast<std::uint8_t>(attribute.kind);
  archive(kind);
  attribute.kind = static_cast<ShardAttribute::Kind>(kind);
  archive(attribute.name);
  archive(attribute.number);
  archive(attribute.text);
}

template <typename Archive>
void transfer(Archive& archive, ShardDataset& dataset) {
  for (std::string* const text : {&dataset.name, &dataset.storage, &dataset.type})
    archive(*text);
  transfer(archive, dataset.filtered);
  transfer(archive, dataset.external);
  archive(dataset.extents);
  archive(dataset.address);
  archive(dataset.bytes);
}

ShardFacts read_shard_facts(const std::string& path) {
  const hdf5::Session session;
  const auto file = open_hdf5(path);
  ShardFacts facts;
  for (const std::string& name : attributes_of({file, "/"}))
    facts.attributes.push_back(read_attribute(*file, name));
  for (const std::string& name : members_of(*file, "/"))
    facts.datasets.push_back(read_dataset(*file, name));
  return facts;
}

void append_facts(std::string& to, ShardFacts facts) {
  IndexWriter writer(to);
  writer(facts.attributes);
  writer(facts.datasets);
}

ShardFacts parse_facts(std::string_view bytes) {
  ShardFacts facts;
  IndexParser parser(bytes, "what the HDF5 library says of a shard");
  parser(facts.attributes);
  parser(facts.datasets);
  return facts;
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0)
    library_failed("H5get_libversion", "no version");
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace trireme
