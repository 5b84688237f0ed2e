// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5/field_storage.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "data/hdf5/chunk_places.h"
#include "data/hdf5/shard_facts.h"

namespace trireme {

using hdf5::checked;
using hdf5::Handle;

namespace {

constexpr std::uint64_t most_content = 1 << 20;  // bytes of a compact data set or attribute
constexpr std::uint64_t most_bytes_inside = 64;
constexpr std::uint64_t most_chunks = std::uint64_t{1} << 24;

[[noreturn]] void refuse(const ObjectPlace& place, const std::string& why) {
  fail(ExitCode::data, "{}: {}: {}", place.file->path, place.path, why);
}

std::vector<std::uint64_t> extents_of(const ObjectPlace& place, hid_t space) {
  if (checked(H5Sget_simple_extent_type(space), "H5Sget_simple_extent_type", place.path) ==
      H5S_NULL)
    refuse(place, "holds nothing (a null data space)");
  const int axes =
      checked(H5Sget_simple_extent_ndims(space), "H5Sget_simple_extent_ndims", place.path);
  if (static_cast<std::size_t>(axes) > most_axes) refuse(place, "has more than 8 axes");
  std::array<hsize_t, H5S_MAX_RANK> extents{}, most{};
  checked(H5Sget_simple_extent_dims(space, extents.data(), most.data()),
          "H5Sget_simple_extent_dims", place.path);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] > most[i])  // H5S_UNLIMITED is the largest number
      refuse(place, fmt::format("has extent {} along axis {}, above its maximum of {}: the file is "
                                "damaged",
                                extents[i], i, most[i]));
  }
  return {extents.begin(), extents.begin() + axes};
}

std::vector<FilterStep> filters_of(const ObjectPlace& place, hid_t properties) {
  constexpr std::size_t most_values = 64;
  std::vector<FilterStep> filters;
  const int count = checked(H5Pget_nfilters(properties), "H5Pget_nfilters", place.path);
  for (int i = 0; i < count; ++i) {
    std::array<unsigned, most_values> values{};
    std::array<char, 64> name{};
    std::size_t used = values.size();
    unsigned flags = 0, config = 0;
    const H5Z_filter_t id =
        checked(H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &used, values.data(),
                               name.size() - 1, name.data(), &config),
                "H5Pget_filter2", place.path);
    used = std::min(used, values.size());
    filters.push_back({static_cast<std::uint32_t>(id),
                       name.data(),
                       {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(used)}});
  }
  return filters;
}

void scan_fill(const ObjectPlace& place, hid_t properties, hid_t type, StoredField& field) {
  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  checked(H5Pfill_value_defined(properties, &defined), "H5Pfill_value_defined", place.path);
  if (defined == H5D_FILL_VALUE_UNDEFINED) return;
  field.fill.resize(field.type.bytes);
  checked(H5Pget_fill_value(properties, type, field.fill.data()), "H5Pget_fill_value", place.path);
}

// Whether any data was written.
bool is_allocated(const ObjectPlace& place, hid_t data) {
  H5D_space_status_t status = H5D_SPACE_STATUS_ERROR;
  checked(H5Dget_space_status(data, &status), "H5Dget_space_status", place.path);
  return status != H5D_SPACE_STATUS_NOT_ALLOCATED;
}

void scan_contiguous(const ObjectPlace& place, hid_t data, hid_t type, StoredField& field) {
  field.chunk_extents = field.extents;
  StoredChunk chunk;
  chunk.bytes = field.elements() * field.type.bytes;
  // Not by H5Dget_offset: with a user block it returns an offset for data without storage.
  constexpr std::array<hsize_t, most_axes> first{};
  if (is_allocated(place, data))
    chunk.offset = place_of_element(data, type, first.data(), place.path);
  field.chunks = {chunk};
}

// Checks offsets before the library reads at them, because the file may be damaged.
void check_inside(const ObjectPlace& place, const StoredField& field) {
  const StoredChunk& chunk = field.chunks.front();
  const std::uint64_t end = state_of_file(place.file->path).size;
  if (chunk.offset > end || chunk.bytes > end - chunk.offset)
    refuse(place, fmt::format("its data is at byte {}, past the end of the file ({} bytes): the "
                              "file is truncated or damaged",
                              chunk.offset, end));
}

// Two ways through the library must agree on data offsets: the one that builds the index, and
// H5Dread's.
void check_place(const ObjectPlace& place, hid_t data, hid_t type, const hsize_t* at,
                 const StoredChunk& chunk) {
  const std::uint64_t read = place_of_element(data, type, at, place.path);
  if (read == chunk.offset) return;
  const auto name = [](std::uint64_t offset) {
    return offset == never_written ? "no place" : fmt::format("byte {}", offset);
  };
  refuse(place, fmt::format("the HDF5 library ({}) finds the data at {}, but reads it from {}",
                            hdf5_version(), name(chunk.offset), name(read)));
}

void scan_chunks(const ObjectPlace& place, hid_t data, hid_t type, hid_t properties,
                 StoredField& field) {
  const std::size_t axes = field.extents.size();
  std::array<hsize_t, H5S_MAX_RANK> chunk{}, at{};
  const int chunk_axes =
      checked(H5Pget_chunk(properties, H5S_MAX_RANK, chunk.data()), "H5Pget_chunk", place.path);
  if (static_cast<std::size_t>(chunk_axes) != axes)
    refuse(place, "its chunks have another number of axes");
  unsigned options = 0;
  checked(H5Pget_chunk_opts(properties, &options), "H5Pget_chunk_opts", place.path);
  field.chunk_extents.assign(chunk.begin(), chunk.begin() + chunk_axes);
  field.filters = filters_of(place, properties);
  std::uint64_t count = 1;
  for (std::size_t i = 0; i < axes; ++i) {
    if (chunk[i] == 0) refuse(place, "its chunks are empty");
    count *= (field.extents[i] + chunk[i] - 1) / chunk[i];
    if (count > most_chunks) refuse(place, "has more than 2^24 chunks");
  }
  field.chunks.resize(static_cast<std::size_t>(count));
  if (!is_allocated(place, data)) return;
  hsize_t held = 0, found = 0;
  const Handle space(checked(H5Dget_space(data), "H5Dget_space", place.path), H5Sclose);
  checked(H5Dget_num_chunks(data, space, &held), "H5Dget_num_chunks", place.path);
  for (std::size_t number = 0; number < field.chunks.size(); ++number) {
    StoredChunk& stored = field.chunks[number];
    stored = place_of_chunk(data, type, at.data(), place.path);
    found += stored.offset == never_written ? 0 : 1;
    bool whole = true;  // no part of it is outside the data set
    for (std::size_t i = 0; i < axes; ++i)
      whole = whole && field.extents[i] - at[i] >= chunk[i];
    if (!whole && (options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0) stored.skipped = ~0U;
    // Only a few of many, because the library searches each again.
    if (number % (field.chunks.size() / 4 + 1) == 0)
      check_place(place, data, type, at.data(), stored);
    for (std::size_t i = axes; i-- > 0;) {
      at[i] += chunk[i];
      if (at[i] < field.extents[i]) break;
      at[i] = 0;
    }
  }
  // Old indexes have no checksum; a chunk under a wrong key would be read as fill values.
  if (found != held)
    refuse(place, fmt::format("its index holds {} chunks, but {} are where the data set has "
                              "chunks: the file is damaged",
                              held, found));
}

void scan_content(const ObjectPlace& place, hid_t data, hid_t type, StoredField& field) {
  const std::uint64_t bytes = field.elements() * field.type.bytes;
  if (bytes > most_content) refuse(place, "is compact and larger than 1 MiB");
  field.content.resize(static_cast<std::size_t>(bytes));
  if (bytes == 0) return;
  checked(H5Dread(data, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, field.content.data()), "H5Dread",
          place.path);
}

// Texts of one object; the library allocates variable-length ones, and frees them.
template <typename Read>
void scan_texts(const ObjectPlace& place, hid_t type, hid_t space, Read&& read,
                StoredField& field) {
  constexpr std::uint64_t most_texts = std::uint64_t{1} << 22;
  constexpr std::size_t most_bytes = 4096;
  const bool varying = checked(H5Tis_variable_str(type), "H5Tis_variable_str", place.path) > 0;
  const std::size_t size = varying ? sizeof(char*) : H5Tget_size(type);
  const std::uint64_t count = field.elements();
  if (count > most_texts || size > most_bytes)
    refuse(place, "holds more than 2^22 texts, or texts of more than 4096 bytes");
  std::vector<char> stored(static_cast<std::size_t>(count) * size);
  read(type, stored.data());
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < stored.size(); at += size) {
    const char* text = stored.data() + at;
    std::size_t most = size;
    if (varying) {
      std::memcpy(&text, stored.data() + at, sizeof(text));
      most = most_bytes + 1;
    }
    texts.emplace_back(text == nullptr ? "" : std::string(text, ::strnlen(text, most)));
    if (texts.back().size() > most_bytes) refuse(place, "holds texts of more than 4096 bytes");
    // Fixed-length texts may be padded with spaces, as in Fortran.
    texts.back().erase(texts.back().find_last_not_of(' ') + 1);
  }
  if (varying && count > 0)
    checked(H5Dvlen_reclaim(type, space, H5P_DEFAULT, stored.data()), "H5Dvlen_reclaim",
            place.path);
  set_texts(field, texts);
}

}  // namespace

StoredField scan_data_set(const ObjectPlace& place, const ScanRequest& request, int depth) {
  if (is_group(place)) refuse(place, "is a group; give the path of a data set in it");
  const Handle data(checked(H5Dopen2(place.file->file, place.path.c_str(), H5P_DEFAULT), "H5Dopen2",
                            place.file->path + ": " + place.path),
                    H5Dclose);
  const Handle type(checked(H5Dget_type(data), "H5Dget_type", place.path), H5Tclose);
  const Handle space(checked(H5Dget_space(data), "H5Dget_space", place.path), H5Sclose);
  const Handle properties(checked(H5Dget_create_plist(data), "H5Dget_create_plist", place.path),
                          H5Pclose);
  // Before anything is read: the library opens these files itself, also pipes.
  if (checked(H5Pget_external_count(properties), "H5Pget_external_count", place.path) > 0)
    refuse(place, "its data is outside the file (external storage), which is not supported");
  StoredField field;
  field.name = place.path.substr(1);
  std::string why;
  const bool text = H5Tget_class(type) == H5T_STRING && H5Pget_layout(properties) != H5D_VIRTUAL;
  if (!text && !element_type_of(type, request.bfloat16, field.type, why)) refuse(place, why);
  field.extents = extents_of(place, space);
  if (text) {
    scan_texts(
        place, type, space,
        [&](hid_t wanted, void* to) {
          checked(H5Dread(data, wanted, H5S_ALL, H5S_ALL, H5P_DEFAULT, to), "H5Dread", place.path);
        },
        field);
    return field;
  }
  if (std::ranges::find(field.extents, 0U) != field.extents.end()) return field;
  scan_fill(place, properties, type, field);
  switch (H5Pget_layout(properties)) {
    case H5D_COMPACT:
      scan_content(place, data, type, field);
      break;
    case H5D_CONTIGUOUS:
      // A few numbers, such as a file's label, are stored in the index, to save a pread.
      scan_contiguous(place, data, type, field);
      if (field.elements() * field.type.bytes <= most_bytes_inside &&
          field.chunks.front().offset != never_written) {
        check_inside(place, field);
        scan_content(place, data, type, field);
      }
      break;
    case H5D_CHUNKED:
      scan_chunks(place, data, type, properties, field);
      break;
    case H5D_VIRTUAL:
      scan_parts(place, properties, field, request, depth);
      break;
    default:
      refuse(place, "has an unknown layout");
  }
  return field;
}

StoredField scan_attribute(const ObjectPlace& place, const std::string& name,
                           const ScanRequest& request) {
  const htri_t exists =
      H5Aexists_by_name(place.file->file, place.path.c_str(), name.c_str(), H5P_DEFAULT);
  if (exists <= 0) refuse(place, fmt::format("has no attribute {}", name));
  const Handle attribute(checked(H5Aopen_by_name(place.file->file, place.path.c_str(), name.c_str(),
                                                 H5P_DEFAULT, H5P_DEFAULT),
                                 "H5Aopen_by_name", name),
                         H5Aclose);
  const Handle type(checked(H5Aget_type(attribute), "H5Aget_type", name), H5Tclose);
  const Handle space(checked(H5Aget_space(attribute), "H5Aget_space", name), H5Sclose);
  StoredField field;
  field.name = place.path.substr(1) + "@" + name;
  std::string why;
  const bool text = H5Tget_class(type) == H5T_STRING;
  if (!text && !element_type_of(type, request.bfloat16, field.type, why))
    refuse(place, fmt::format("attribute {}: {}", name, why));
  field.extents = extents_of(place, space);
  if (text) {
    scan_texts(
        place, type, space,
        [&](hid_t wanted, void* to) { checked(H5Aread(attribute, wanted, to), "H5Aread", name); },
        field);
    return field;
  }
  const std::uint64_t bytes = field.elements() * field.type.bytes;
  if (bytes > most_content) refuse(place, fmt::format("attribute {}: larger than 1 MiB", name));
  field.content.resize(static_cast<std::size_t>(bytes));
  if (bytes > 0) checked(H5Aread(attribute, type, field.content.data()), "H5Aread", name);
  return field;
}

bool is_group(const ObjectPlace& place) {
  if (place.path == "/") return true;
  const Handle object(checked(H5Oopen(place.file->file, place.path.c_str(), H5P_DEFAULT), "H5Oopen",
                              place.file->path + ": " + place.path),
                      H5Oclose);
  const H5I_type_t type = H5Iget_type(object);
  if (type != H5I_GROUP && type != H5I_DATASET) refuse(place, "is neither a group nor a data set");
  return type == H5I_GROUP;
}

std::vector<std::string> members_of(const OpenHdf5& file, const std::string& group) {
  constexpr hsize_t most_members = 1 << 20;
  const Handle opened(checked(H5Gopen2(file.file, group.c_str(), H5P_DEFAULT), "H5Gopen2", group),
                      H5Gclose);
  H5G_info_t info;
  checked(H5Gget_info(opened, &info), "H5Gget_info", group);
  if (info.nlinks > most_members)
    fail(ExitCode::data, "{}: {}: has more than 2^20 members", file.path, group);
  std::vector<std::string> names;
  for (hsize_t i = 0; i < info.nlinks; ++i) {
    std::array<char, 1024> name{};
    const ssize_t length = checked(H5Lget_name_by_idx(opened, ".", H5_INDEX_NAME, H5_ITER_INC, i,
                                                      name.data(), name.size(), H5P_DEFAULT),
                                   "H5Lget_name_by_idx", group);
    if (static_cast<std::size_t>(length) >= name.size())
      fail(ExitCode::data, "{}: {}: a name of {} bytes", file.path, group, length);
    names.emplace_back(name.data());
  }
  return names;
}

std::vector<std::string> attributes_of(const ObjectPlace& place) {
  std::vector<std::string> names;
  const auto keep = [](hid_t, const char* name, const H5A_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  checked(H5Aiterate_by_name(place.file->file, place.path.c_str(), H5_INDEX_NAME, H5_ITER_INC,
                             nullptr, keep, &names, H5P_DEFAULT),
          "H5Aiterate_by_name", place.path);
  return names;
}

}  // namespace trireme
