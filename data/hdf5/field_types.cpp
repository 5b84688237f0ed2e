// SPDX-License-Identifier: Apache-2.0
// Number types, and the sources of virtual data sets.
#include <array>

#include "data/hdf5/field_storage.h"

namespace trireme {

using hdf5::checked;
using hdf5::Handle;

namespace {

struct FloatForm {
  std::size_t exponent_bits, fraction_bits, bias;
};

bool is_float_of(hid_t type, const FloatForm& form) {
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, fraction = 0, fraction_bits = 0;
  return H5Tget_fields(type, &sign, &exponent, &exponent_bits, &fraction, &fraction_bits) >= 0 &&
         fraction == 0 && fraction_bits == form.fraction_bits && exponent == form.fraction_bits &&
         exponent_bits == form.exponent_bits && sign == form.fraction_bits + form.exponent_bits &&
         H5Tget_ebias(type) == form.bias && H5Tget_norm(type) == H5T_NORM_IMPLIED;
}

bool float_type_of(hid_t type, ElementType& to) {
  constexpr FloatForm half{5, 10, 15}, brain{8, 7, 127}, single{8, 23, 127}, wide{11, 52, 1023};
  to.kind = ElementKind::floating;
  switch (to.bytes) {
    case 2:
      if (is_float_of(type, half)) return true;
      to.kind = ElementKind::brain_float;
      return is_float_of(type, brain);
    case 4:
      return is_float_of(type, single);
    case 8:
      return is_float_of(type, wide);
    default:
      return false;
  }
}

std::string kind_of(H5T_class_t kind) {
  switch (kind) {
    case H5T_STRING:
      return "text";
    case H5T_COMPOUND:
      return "records of several members (a compound type)";
    case H5T_VLEN:
      return "lists of varying length";
    case H5T_REFERENCE:
      return "references";
    case H5T_ARRAY:
      return "arrays as elements";
    case H5T_OPAQUE:
      return "opaque bytes";
    default:
      return "elements of another kind";
  }
}

// A regular selection: along each axis `count` positions, in blocks that begin `stride` apart.
struct Selection {
  std::vector<hsize_t> start{}, count{}, stride{}, block{};

  [[nodiscard]] hsize_t place(std::size_t axis, hsize_t position) const {
    return start[axis] + position / block[axis] * stride[axis] + position % block[axis];
  }
  void insert(std::size_t axis) {  // of one element
    const auto at = static_cast<std::ptrdiff_t>(axis);
    start.insert(start.begin() + at, 0);
    for (auto* const list : {&count, &stride, &block})
      list->insert(list->begin() + at, 1);
  }
};

// The whole of these extents, if the selection is of a whole space, which the library may not know.
bool selection_of(hid_t space, const std::vector<std::uint64_t>& whole, Selection& to) {
  const H5S_sel_type kind = H5Sget_select_type(space);
  if (kind == H5S_SEL_ALL) {
    to.start.assign(whole.size(), 0);
    to.count.assign(whole.begin(), whole.end());
    to.stride = to.block = to.count;
    return true;
  }
  const int axes = H5Sget_simple_extent_ndims(space);
  if (axes <= 0 || static_cast<std::size_t>(axes) > most_axes) return false;
  for (auto* const list : {&to.start, &to.count, &to.stride, &to.block})
    list->assign(static_cast<std::size_t>(axes), 0);
  if (kind != H5S_SEL_HYPERSLABS || H5Sis_regular_hyperslab(space) <= 0) return false;
  if (H5Sget_regular_hyperslab(space, to.start.data(), to.stride.data(), to.count.data(),
                               to.block.data()) < 0)
    return false;
  for (std::size_t i = 0; i < to.count.size(); ++i) {
    constexpr hsize_t most = hsize_t{1} << 31;  // no product overflows
    if (to.count[i] > most || to.block[i] > most || to.count[i] == 0 || to.block[i] == 0)
      return false;
    if (to.count[i] == 1 || to.stride[i] == to.block[i])
      to.block[i] = to.stride[i] = to.count[i] *= to.block[i];
    else
      to.count[i] *= to.block[i];
  }
  return true;
}

// Appends the boxes that lie together in the target and in the source of `part`. Returns whether
// there are not too many.
bool add_boxes(const Selection& target, const Selection& source, StoredPart&& part,
               std::vector<StoredPart>& to) {
  constexpr std::uint64_t most = std::uint64_t{1} << 22;  // chunks in all copies of the source
  struct Run {
    hsize_t to, from, length;
  };
  std::vector<std::vector<Run>> runs(target.count.size());
  std::uint64_t boxes = 1;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (hsize_t p = 0; p < target.count[i]; p += runs[i].back().length) {
      if (runs[i].size() > most) return false;
      runs[i].push_back({target.place(i, p), source.place(i, p),
                         std::min({target.block[i] - p % target.block[i],
                                   source.block[i] - p % source.block[i], target.count[i] - p})});
    }
    boxes *= runs[i].size();
    if (boxes * (part.field.chunks.size() + 1) > most && boxes > 1) return false;
  }
  for (std::uint64_t box = 0; box < boxes; ++box) {
    std::uint64_t rest = box;
    StoredPart one{.field = boxes == 1 ? std::move(part.field) : part.field};
    for (const std::vector<Run>& axis : runs) {
      const Run& run = axis[static_cast<std::size_t>(rest % axis.size())];
      rest /= axis.size();
      one.start.push_back(run.to);
      one.count.push_back(run.length);
      one.from.push_back(run.from);
    }
    to.push_back(std::move(one));
  }
  return true;
}

// Adds axes of one element to the source until it has as many as the virtual data set.
bool widen(const std::vector<hsize_t>& wanted, Selection& from, StoredField& source) {
  const std::vector<hsize_t>& count = from.count;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const bool fits = i < count.size() && count[i] == wanted[i];
    const bool later = wanted.size() - i > count.size() - std::min(i, count.size());
    if (fits && !(later && wanted[i] == 1)) continue;
    if (wanted[i] != 1 || !later) return false;
    const auto at = static_cast<std::ptrdiff_t>(i);
    from.insert(i);
    source.extents.insert(source.extents.begin() + at, 1);
    if (!source.chunk_extents.empty() || !source.chunks.empty())
      source.chunk_extents.insert(source.chunk_extents.begin() + at, 1);
    for (StoredPart& part : source.parts) {
      part.start.insert(part.start.begin() + at, 0);
      part.count.insert(part.count.begin() + at, 1);
      part.from.insert(part.from.begin() + at, 0);
    }
  }
  return count.size() == wanted.size();
}

// The text of H5Pget_virtual_filename or _dsetname.
template <typename Get>
std::string text_of(Get get, hid_t properties, std::size_t index, const std::string& subject) {
  const ssize_t length =
      checked(get(properties, index, nullptr, 0), "H5Pget_virtual_filename", subject);
  std::string text(static_cast<std::size_t>(length), '\0');
  checked(get(properties, index, text.data(), text.size() + 1), "H5Pget_virtual_filename", subject);
  return text;
}

}  // namespace

bool element_type_of(hid_t type, bool bfloat16, ElementType& to, std::string& why) {
  const H5T_class_t kind = H5Tget_class(type);
  const std::size_t bytes = H5Tget_size(type);
  to.bytes = static_cast<std::uint8_t>(bytes <= 8 ? bytes : 0);
  if (kind == H5T_ENUM) {
    const Handle base(checked(H5Tget_super(type), "H5Tget_super", "an enumeration"), H5Tclose);
    return element_type_of(base, false, to, why);
  }
  to.big_endian = H5Tget_order(type) == H5T_ORDER_BE;
  if (kind == H5T_INTEGER) {
    to.kind = H5Tget_sign(type) == H5T_SGN_NONE ? ElementKind::unsigned_integer
                                                : ElementKind::signed_integer;
    if (bfloat16 && to.kind == ElementKind::unsigned_integer && to.bytes == 2)
      to.kind = ElementKind::brain_float;
    if (to.is_valid() && H5Tget_precision(type) == 8 * bytes) return true;
    why = fmt::format("its integers have {} bits in {} bytes, which is not supported",
                      H5Tget_precision(type), bytes);
    return false;
  }
  if (kind == H5T_FLOAT) {
    if (float_type_of(type, to)) return true;
    why = fmt::format("its floats of {} bytes have a format that is not supported", bytes);
    return false;
  }
  why = fmt::format("holds {}, but only numbers can be read", kind_of(kind));
  return false;
}

void scan_parts(const ObjectPlace& place, hid_t properties, StoredField& field,
                const ScanRequest& request, int depth) {
  constexpr int deepest = 8;
  constexpr std::size_t most_parts = 1 << 20;
  const auto refuse = [&](const std::string& why) {
    fail(ExitCode::data, "{}: {}: {}", place.file->path, place.path, why);
  };
  if (depth >= deepest)
    refuse("virtual data sets refer to each other more than 8 deep, or in a cycle");
  std::size_t parts = 0;
  checked(H5Pget_virtual_count(properties, &parts), "H5Pget_virtual_count", place.path);
  if (parts == 0 || parts > most_parts)
    refuse(fmt::format("a virtual data set of {} sources", parts));
  for (std::size_t i = 0; i < parts; ++i) {
    const std::string name = text_of(H5Pget_virtual_filename, properties, i, place.path);
    const std::string object = text_of(H5Pget_virtual_dsetname, properties, i, place.path);
    const Handle target(
        checked(H5Pget_virtual_vspace(properties, i), "H5Pget_virtual_vspace", place.path),
        H5Sclose);
    const Handle source(
        checked(H5Pget_virtual_srcspace(properties, i), "H5Pget_virtual_srcspace", place.path),
        H5Sclose);
    if (name.find('%') != std::string::npos || object.find('%') != std::string::npos)
      refuse("a virtual data set whose sources are a pattern of names, which is not supported");
    const bool same = name == ".";
    const ObjectPlace from = resolve_object(
        same ? place.file : open_hdf5(linked_file(*place.file, name, request.outside_links)),
        object, request.outside_links);
    StoredPart part{.field = scan_data_set(from, request, depth + 1)};
    if (request.unpack && !field.is_text()) require_same_packing(place, from, request);
    if (part.field.file.empty()) {
      part.field.file = from.file->path;
      part.field.file_bytes = state_of_file(from.file->path).size;
    }
    Selection to, taken;
    if (!selection_of(target, field.extents, to) ||
        !selection_of(source, part.field.extents, taken))
      refuse(
          "a virtual data set whose parts are no regular boxes, or grow, which is not supported");
    if (!widen(to.count, taken, part.field))
      refuse("a source of this virtual data set has another shape than its place in it");
    if (!add_boxes(to, taken, std::move(part), field.parts) || field.parts.size() > most_parts)
      refuse("a virtual data set of more than 2^20 boxes; copy it with h5repack");
  }
}

}  // namespace trireme
