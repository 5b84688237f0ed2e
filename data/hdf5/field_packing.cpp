// SPDX-License-Identifier: Apache-2.0
// Packing attributes of netCDF and CF, interpreted like Python's netCDF4:
// https://docs.unidata.ucar.edu/netcdf-c/current/attribute_conventions.html
#include <algorithm>
#include <cmath>
#include <optional>

#include "data/hdf5/field_storage.h"
#include "runtime/base/dtype.h"

namespace trireme {
namespace {

bool has_attribute(const ObjectPlace& place, const std::string& path, const std::string& name) {
  return hdf5::checked(H5Aexists_by_name(place.file->file, path.c_str(), name.c_str(), H5P_DEFAULT),
                       "H5Aexists_by_name", path) > 0;
}

bool is_floating(const ElementType& type) {
  return type.kind == ElementKind::floating || type.kind == ElementKind::brain_float;
}

// Whether numpy computes with these types in float32, i.e. if it holds all values of both.
bool is_single(const ElementType& a, const ElementType& b) {
  const auto fits = [](const ElementType& type) {
    return type.bytes < 4 || (type.bytes == 4 && is_floating(type));
  };
  return fits(a) && fits(b) && (is_floating(a) || is_floating(b));
}

// netCDF's default fill value. Bytes have none: images would lose their white.
std::optional<double> default_fill(const ElementType& type) {
  constexpr double floating = 9.9692099683868690e+36;  // exact in float32 too
  if (type.bytes == 1 || type.kind == ElementKind::brain_float) return std::nullopt;
  if (is_floating(type)) return type.bytes == 2 ? std::nullopt : std::optional(floating);
  const double values = std::ldexp(1.0, 8 * type.bytes);
  if (type.kind == ElementKind::unsigned_integer)
    return type.bytes == 8 ? values : values - 1;         // 2^64 - 2 is not a double
  return type.bytes == 8 ? -values / 2 : 1 - values / 2;  // nor is 2 - 2^63
}

class PackingScan {
 public:
  PackingScan(const ObjectPlace& place, const ScanRequest& request, StoredField& field)
      : place_(place), request_(request), field_(field), stored_(field.type) {}

  void run() {
    take_sign();
    take_missing();
    take_range();
    const auto product = one_number("scale_factor"), sum = one_number("add_offset");
    ElementType now = stored_;
    if (product) {
      field_.packing.scale = product->values.front();
      field_.packing.single_product = is_single(now, product->type);
      const bool widens = is_floating(now) || is_floating(product->type);
      if (widens)
        now = {ElementKind::floating,
               field_.packing.single_product ? std::uint8_t{4} : std::uint8_t{8}};
    }
    if (sum) {
      field_.packing.offset = sum->values.front();
      field_.packing.single_sum = is_single(now, sum->type);
    }
  }

 private:
  struct Numbers {
    std::vector<double> values;
    ElementType type;
  };

  [[noreturn]] void refuse(const std::string& name, const std::string& why) const {
    fail(ExitCode::data,
         "{}: {}: attribute {}: {}; with data.mask_and_scale: false the numbers are read as stored",
         place_.file->path, field_.name, name, why);
  }

  [[nodiscard]] std::optional<StoredField> attribute(const std::string& name) const {
    if (!has_attribute(place_, place_.path, name)) return std::nullopt;
    try {
      return scan_attribute(place_, name, request_);
    } catch (const Error& error) {
      refuse(name, error.what());
    }
  }

  [[nodiscard]] std::optional<Numbers> numbers(const std::string& name) const {
    constexpr std::uint64_t most = 64;
    const auto found = attribute(name);
    if (!found) return std::nullopt;
    if (found->is_text()) refuse(name, "holds text, not numbers");
    if (found->elements() > most) refuse(name, "holds more than 64 numbers");
    Numbers result{{}, found->type};
    for (std::size_t at = 0; at < found->content.size(); at += found->type.bytes)
      result.values.push_back(to_double(found->type, found->content.data() + at));
    return result;
  }

  [[nodiscard]] std::optional<Numbers> one_number(const std::string& name) const {
    auto found = numbers(name);
    if (found && found->values.size() != 1)
      refuse(name, fmt::format("holds {} numbers, expected one", found->values.size()));
    return found;
  }

  // netCDF-3 has no unsigned types, so signed ones may represent them.
  void take_sign() {
    const auto sign = attribute("_Unsigned");
    unsigned_ = sign && sign->is_text() && stored_.kind == ElementKind::signed_integer &&
                (sign->names.front() == "true" || sign->names.front() == "True");
    if (unsigned_) make_unsigned(field_);
  }
  static void make_unsigned(StoredField& field) {
    field.type.kind = ElementKind::unsigned_integer;
    for (StoredPart& part : field.parts)
      make_unsigned(part.field);
  }

  // The attribute's numbers as the data set stores them; nothing if it cannot store all of them,
  // because their meaning is then unclear.
  [[nodiscard]] std::optional<std::vector<double>> stored_numbers(const std::string& name) {
    auto found = numbers(name);
    if (!found) return std::nullopt;
    for (double& value : found->values) {
      if (is_floating(stored_)) {
        value = rounded(value);
        continue;
      }
      const double values = std::ldexp(1.0, 8 * stored_.bytes);
      const bool sign = stored_.kind == ElementKind::signed_integer;
      const double low = sign ? -values / 2 : 0, high = sign && !unsigned_ ? values / 2 : values;
      if (!(value >= low && value < high) || value != std::floor(value)) {
        field_.packing.unused +=
            fmt::format("{}{} is not used: {} is not of type {}",
                        field_.packing.unused.empty() ? "" : "; ", name, value, name_of(stored_));
        return std::nullopt;
      }
      if (unsigned_ && value < 0) value += values;
    }
    return found->values;
  }
  [[nodiscard]] double rounded(double value) const {
    if (stored_.bytes == 8) return value;
    const auto single = static_cast<float>(value);
    if (stored_.bytes == 4) return static_cast<double>(single);
    return stored_.kind == ElementKind::brain_float
               ? static_cast<double>(static_cast<float>(static_cast<bf16>(single)))
               : static_cast<double>(static_cast<float>(static_cast<f16>(single)));
  }

  void take_missing() {
    std::vector<double>& missing = field_.packing.missing;
    const auto given = stored_numbers("missing_value"), fill = stored_numbers("_FillValue");
    for (const auto* const some : {&given, &fill}) {
      if (*some) missing.insert(missing.end(), (*some)->begin(), (*some)->end());
    }
    if (const auto standard = default_fill(stored_);
        !fill && !unsigned_ && standard && fills_with(*standard))
      missing.push_back(*standard);
    std::erase_if(missing, [](double value) { return std::isnan(value); });  // is missing anyway
    std::ranges::sort(missing);
    const auto doubles = std::ranges::unique(missing);
    missing.erase(doubles.begin(), doubles.end());
  }
  // Whether netCDF made this data set, or another program set netCDF's fill value.
  [[nodiscard]] bool fills_with(double standard) const {
    return has_attribute(place_, "/", "_NCProperties") ||
           (!field_.fill.empty() && to_double(stored_, field_.fill.data()) == standard);
  }

  void take_range() {
    NumberPacking& packing = field_.packing;
    if (const auto range = stored_numbers("valid_range"); range && range->size() == 2) {
      packing.least = range->front();
      packing.most = range->back();
      return;
    }
    const auto least = stored_numbers("valid_min"), most = stored_numbers("valid_max");
    if (least && least->size() == 1) packing.least = least->front();
    if (most && most->size() == 1) packing.most = most->front();
  }

  const ObjectPlace& place_;
  const ScanRequest& request_;
  StoredField& field_;
  const ElementType stored_;
  bool unsigned_ = false;
};

}  // namespace

void require_same_packing(const ObjectPlace& place, const ObjectPlace& source,
                          const ScanRequest& request) {
  for (const char* const name : {"_Unsigned", "missing_value", "_FillValue", "valid_range",
                                 "valid_min", "valid_max", "scale_factor", "add_offset"}) {
    if (!has_attribute(source, source.path, name)) continue;
    const bool here = has_attribute(place, place.path, name);
    if (here) {
      const StoredField own = scan_attribute(place, name, request);
      const StoredField other = scan_attribute(source, name, request);
      if (own.content == other.content && own.names == other.names) continue;
    }
    fail(
        ExitCode::data,
        "{}: {}: its source {} in {} has {} attribute {}; give the virtual data set the attributes "
        "of its sources, or set data.mask_and_scale: false to read the numbers as stored",
        place.file->path, place.path, source.path, source.file->path, here ? "another" : "the",
        name);
  }
}

void scan_packing(const ObjectPlace& place, const ScanRequest& request, StoredField& field) {
  PackingScan(place, request, field).run();
}

}  // namespace trireme
