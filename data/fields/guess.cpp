// SPDX-License-Identifier: Apache-2.0
#include "data/fields/guess.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "data/fields/describe.h"

namespace trireme {
namespace {

std::string attribute_name(const StoredField& field) {
  return field.name.substr(field.name.find('@') + 1);
}

// Extents above 1.
std::vector<std::uint64_t> true_extents(const StoredField& field) {
  std::vector<std::uint64_t> extents = field.extents;
  std::erase(extents, 1U);
  return extents;
}

bool is_integer(const StoredField& field) {
  return !field.is_text() && (field.type.kind == ElementKind::signed_integer ||
                              field.type.kind == ElementKind::unsigned_integer);
}

// Attributes with a conventional meaning, besides those with the prefixes below: HDF5 (dimension
// scales, images), PyTables, pandas, CF (its appendix A).
constexpr std::string_view reserved_attributes =
    " NAME REFERENCE_LIST PALETTE INTERLACE_MODE DISPLAY_ORIGIN"
    " VERSION TITLE FLAVOR EXTDIM NROWS FILTERS AUTO_INDEX DIRTY PSEUDOATOM H5PATH"
    " encoding errors ndim nblocks"
    " Conventions title history institution source references comment featureType units"
    " units_metadata long_name standard_name axis calendar coordinates grid_mapping"
    " grid_mapping_name cell_measures cell_methods bounds climatology positive formula_terms"
    " ancillary_variables flag_values flag_masks flag_meanings missing_value valid_range valid_min"
    " valid_max scale_factor add_offset actual_range compress instance_dimension sample_dimension"
    " leap_month leap_year month_lengths external_variables ";
constexpr std::array<std::string_view, 8> reserved_beginnings{
    "_", "MATLAB_", "DIMENSION_", "PYTABLES_", "FIELD_", "IMAGE_", "pandas_", "quantization_"};
// Values of CLASS in objects written by HDF5 or PyTables.
constexpr std::string_view classes_of_objects =
    " DIMENSION_SCALE IMAGE PALETTE GROUP ARRAY CARRAY EARRAY VLARRAY TABLE INDEX CSINDEX "
    "INDEXARRAY"
    " LASTROWS UNKNOWN ";
// Their texts name data sets with coordinates or metadata of another one.
constexpr std::string_view naming_attributes =
    " coordinates bounds climatology grid_mapping ancillary_variables ";

bool has_word(std::string_view words, const std::string& word) {
  return words.find(" " + word + " ") != std::string_view::npos;
}

// A file's objects, and which of them only describe others.
class FileListing {
 public:
  explicit FileListing(const std::vector<StoredField>& fields) : fields_(fields) {
    for (const StoredField& field : fields) {
      if (!field.is_attribute() || !field.is_text()) continue;
      if (!has_word(naming_attributes, attribute_name(field))) continue;
      std::istringstream words(field.names.front());
      for (std::string word; words >> word;)
        described_by_.insert(word);
    }
  }

  // The single text of an object's attribute; "" if there is none.
  [[nodiscard]] std::string text(const std::string& object, std::string_view name) const {
    const auto found =
        std::ranges::find(fields_, fmt::format("{}@{}", object, name), &StoredField::name);
    return found == fields_.end() || !found->is_text() ? "" : found->names.front();
  }

  [[nodiscard]] bool is_reserved(const StoredField& field) const {
    return field.is_attribute() ? is_reserved_attribute(field) : is_bookkeeping(field.name);
  }

 private:
  [[nodiscard]] static bool is_reserved_attribute(const StoredField& field) {
    const std::string name = attribute_name(field);
    if (name == "CLASS") return !field.is_text() || has_word(classes_of_objects, field.names[0]);
    return has_word(reserved_attributes, name) ||
           std::ranges::any_of(reserved_beginnings,
                               [&](std::string_view begin) { return name.starts_with(begin); });
  }
  // Coordinates, PyTables indexes, and MATLAB's internal objects.
  [[nodiscard]] bool is_bookkeeping(const std::string& name) const {
    const std::string kind = text(name, "MATLAB_class");
    const std::string path = "/" + name, leaf = path.substr(path.rfind('/') + 1);
    return text(name, "CLASS") == "DIMENSION_SCALE" || !text(name, "axis").empty() ||
           text(name, "units").find(" since ") != std::string::npos ||
           described_by_.contains(leaf) || path.find("/#") != std::string::npos ||
           path.find("/_i_") != std::string::npos || kind == "char" || kind == "cell" ||
           kind == "function_handle";
  }

  const std::vector<StoredField>& fields_;
  std::set<std::string, std::less<>> described_by_;
};

// The largest data set with at least rows and columns.
const StoredField* largest_input(const FileListing& listing,
                                 const std::vector<StoredField>& fields) {
  const StoredField* best = nullptr;
  for (const StoredField& field : fields) {
    if (field.is_attribute() || field.is_text() || true_extents(field).size() < 2) continue;
    if (listing.is_reserved(field)) continue;
    if (best == nullptr || field.elements() > best->elements()) best = &field;
  }
  return best;
}

// The data set of validation samples beside "X_train" or "train/x"; "" if there is none.
std::string twin_of(const std::vector<StoredField>& fields, const std::string& name) {
  for (const std::string_view train : {"training", "train", "Train", "TRAIN"}) {
    const std::size_t at = name.find(train);
    if (at == std::string::npos) continue;
    for (const std::string_view part :
         {"validation", "valid", "val", "Val", "VAL", "test", "Test", "TEST"}) {
      std::string twin = name;
      twin.replace(at, train.size(), part);
      if (std::ranges::find(fields, twin, &StoredField::name) != fields.end()) return twin;
    }
  }
  return "";
}

// One number per sample, or a text with a label-like name. Label-like names first, data sets before
// attributes, the input's own group before others.
std::vector<std::string> labels_among(const FileListing& listing,
                                      const std::vector<StoredField>& fields, std::uint64_t count,
                                      const std::string& input) {
  const auto group_of = [](const std::string& name) {
    return name.substr(0, std::min(name.size(), name.rfind('/') + 1));
  };
  std::vector<std::pair<int, std::string>> found;
  constexpr std::uint64_t most_classes = 1000;
  for (const StoredField& field : fields) {
    auto extents = true_extents(field);
    const bool sounds = sounds_like_label(field.name), attribute = field.is_attribute();
    // A row of 0 and one 1 for each sample.
    const bool row = sounds && count > 1 && extents.size() == 2 && extents.back() <= most_classes;
    if (row) extents.pop_back();
    const bool fits =
        count == 1 ? extents.empty() : extents == std::vector<std::uint64_t>{count} && !attribute;
    if (!fits || !(is_integer(field) || sounds) || field.name == input) continue;
    if (listing.is_reserved(field)) continue;
    const bool elsewhere = group_of(field.name) != group_of(input);
    const bool of_training = !twin_of(fields, input).empty() && twin_of(fields, field.name).empty();
    found.emplace_back(
        (of_training ? 8 : 0) + (sounds ? 0 : 4) + (attribute ? 2 : 0) + (elsewhere ? 1 : 0),
        field.name);
  }
  std::ranges::stable_sort(found, {}, [](const auto& each) { return each.first; });
  std::vector<std::string> names;
  for (auto& [rank, name] : found)
    names.push_back(std::move(name));
  return names;
}

// Channels are the shortest of three axes, the last one on ties; of four axes the last or first if
// that is the shortest, otherwise they form a volume.
std::string axes_of(std::span<const std::uint64_t> extents) {
  constexpr std::uint64_t most_channels = 16, many_times = 8;
  if (extents.size() == 2) {
    // Signals with few channels.
    if (extents[1] <= most_channels && extents[0] >= many_times * extents[1]) return "WC";
    if (extents[0] <= most_channels && extents[1] >= many_times * extents[0]) return "CW";
    return "HW";
  }
  if (extents.size() == 4) {
    const auto shortest = std::ranges::min_element(extents);
    if (extents.back() == *shortest) return "DHWC";
    return shortest == extents.begin() ? "CDHW" : "TCHW";
  }
  if (extents.size() != 3) return "HWC";
  return extents.front() < extents.back() ? "CHW" : "HWC";
}

// The axes of a cube of numbers with or without channels; "" if it is none.
std::string axes_of_cube(std::span<const std::uint64_t> extents) {
  const auto is_cube = [&](std::size_t first) {
    return extents[first] == extents[first + 1] && extents[first] == extents[first + 2];
  };
  if (extents.size() == 3) return is_cube(0) ? "DHW" : "";
  if (extents.size() != 4) return "";
  return is_cube(0) ? "DHWC" : is_cube(1) ? "CDHW" : "";
}

bool is_float(const StoredField& field) {
  return !field.is_text() && !is_integer(field);
}

// A cube with numbers to predict for each sample: several floats, or one with a label-like name.
// `samples`: whether the first axis counts them.
void add_cubes(const FileListing& listing, const std::vector<StoredField>& fields,
               const StoredField& input, bool samples, std::vector<Guess>& to) {
  if (input.extents.size() < (samples ? 4U : 3U)) return;
  const std::string axes = axes_of_cube(std::span(input.extents).subspan(samples ? 1 : 0));
  if (axes.empty() || listing.is_reserved(input)) return;
  constexpr std::uint64_t most = 64;
  const std::uint64_t along = samples ? input.extents.front() : 1;
  for (const bool sounds : {true, false}) {
    for (const StoredField& field : fields) {
      const std::uint64_t count = field.elements() / along;
      const bool fits = count * along == field.elements() && count >= (sounds ? 1U : 2U) &&
                        count <= most &&
                        (!samples || (!field.extents.empty() && field.extents.front() == along));
      if (!fits || !is_float(field) || &field == &input || listing.is_reserved(field)) continue;
      if (sounds_like_label(field.name) != sounds) continue;
      to.push_back({samples ? SampleUnit::axis : SampleUnit::file, input.name,
                    (samples ? "N" : "") + axes, field.name, TargetKind::values});
    }
  }
}

// A data set with the input's extents but for channels.
void add_maps(const FileListing& listing, const std::vector<StoredField>& fields,
              const StoredField& input, const std::string& axes, std::vector<Guess>& to) {
  std::vector<std::uint64_t> extents = input.extents;
  const std::size_t channel = axes.find('C');
  if (channel != axes.npos) extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(channel));
  for (const StoredField& field : fields) {
    if (field.extents != extents || field.is_text() || &field == &input) continue;
    if (listing.is_reserved(field) || !(is_integer(field) || sounds_like_label(field.name)))
      continue;
    to.push_back({axes.find('N') == axes.npos ? SampleUnit::file : SampleUnit::axis, input.name,
                  axes, field.name, TargetKind::pixels});
  }
}

// Numbers to predict for each sample of images, signals or tables: floats with a telling name.
void add_values(const FileListing& listing, const std::vector<StoredField>& fields,
                const StoredField& input, const std::string& axes, std::vector<Guess>& to) {
  constexpr std::uint64_t most = 64;
  if (axes.front() != 'N' || listing.is_reserved(input)) return;
  for (const StoredField& field : fields) {
    const bool fits = !field.extents.empty() && field.extents.front() == input.extents.front() &&
                      field.elements() / std::max<std::uint64_t>(field.extents.front(), 1) <= most;
    const bool sounds =
        sounds_like_label(field.name) || field.name.find("action") != field.name.npos;
    if (!fits || !sounds || !is_float(field) || &field == &input || listing.is_reserved(field))
      continue;
    to.push_back({SampleUnit::axis, input.name, axes, field.name, TargetKind::values});
  }
}

std::string without_group(const std::string& name, const std::string& group) {
  return name.substr(group.size() + (name[group.size()] == '/' ? 1 : 0));
}

// Fields below a group of the root, with names relative to it.
std::vector<StoredField> below(const std::vector<StoredField>& fields, const std::string& group) {
  std::vector<StoredField> inside;
  for (const StoredField& field : fields) {
    if (!field.name.starts_with(group + "/") && !field.name.starts_with(group + "@")) continue;
    inside.push_back(field);
    inside.back().name = without_group(field.name, group);
  }
  return inside;
}

std::vector<std::string> path_parts(const std::string& path) {
  std::vector<std::string> parts;
  std::istringstream text(path);
  for (std::string part; std::getline(text, part, '/');)
    parts.push_back(part);
  return parts;
}

// Data sets whose paths differ from the input's in one group name, and which match it except for
// lengths. `where`: index of that group in the path.
std::vector<const StoredField*> siblings(const std::vector<StoredField>& fields,
                                         const StoredField& input, std::size_t where) {
  const std::vector<std::string> path = path_parts(input.name);
  std::vector<const StoredField*> found;
  for (const StoredField& field : fields) {
    if (field.is_attribute() || field.extents.size() != input.extents.size()) continue;
    std::vector<std::string> other = path_parts(field.name);
    if (other.size() != path.size() || other[where] == path[where]) continue;
    other[where] = path[where];
    if (other == path) found.push_back(&field);
  }
  return found;
}

// "demo_*" of "demo_12"; "" for names without a number.
std::string stem_of(const std::string& name) {
  const std::size_t end = name.find_last_not_of("0123456789") + 1;
  return end < name.size() ? name.substr(0, end) + "*" : "";
}

void add_beside(const std::vector<StoredField>& fields, const StoredField& input, Guesses& to) {
  const std::vector<std::string> path = path_parts(input.name);
  for (std::size_t where = 0; where + 1 < path.size(); ++where) {
    for (const StoredField* const sibling : siblings(fields, input, where)) {
      to.beside.push_back(sibling->name);
    }
  }
}

// The likely labels of an input.
Guesses guess_labels(const FileListing& listing, const std::vector<StoredField>& fields,
                     const StoredField* input, bool reversed) {
  const auto axes = [&](std::span<const std::uint64_t> extents) {
    std::string letters = axes_of(extents);
    if (reversed && letters.find('H') != letters.npos)
      std::swap(letters[letters.find('H')], letters[letters.find('W')]);
    return letters;
  };
  const std::span extents(input->extents);
  Guesses result;
  const auto add = [&](SampleUnit unit, const std::string& name, const std::string& letters,
                       const std::vector<std::string>& labels) {
    for (const std::string& label : labels)
      result.likely.push_back({unit, name, letters, label, TargetKind::label});
    return !labels.empty();
  };
  if (extents.size() == 2 && add(SampleUnit::axis, input->name, "NC",
                                 labels_among(listing, fields, extents.front(), input->name)))
    return add_beside(fields, *input, result), result;
  if (extents.size() >= 3) {
    const std::size_t last = extents.size() - 1;
    const bool along = add(SampleUnit::axis, input->name, "N" + axes(extents.subspan(1)),
                           labels_among(listing, fields, extents.front(), input->name)) ||
                       add(SampleUnit::axis, input->name, axes(extents.first(last)) + "N",
                           labels_among(listing, fields, extents[last], input->name));
    if (along) return add_beside(fields, *input, result), result;
  }
  // Equally named data sets of one shape in many groups are one sample each.
  const std::string group = input->name.substr(0, input->name.find('/'));
  if (group != input->name) {
    const auto alike = siblings(fields, *input, 0);
    const bool same = std::ranges::any_of(
        alike, [&](const StoredField* other) { return other->extents == input->extents; });
    const std::vector<StoredField> inside = below(fields, group);
    const std::string name = without_group(input->name, group);
    if (same && add(SampleUnit::group, name, axes(extents),
                    labels_among(FileListing(inside), inside, 1, name)))
      return result;
  }
  add_beside(fields, *input, result);
  add(SampleUnit::file, input->name, axes(extents), labels_among(listing, fields, 1, input->name));
  return result;
}

}  // namespace

namespace {

// Guesses for steps of equal numbered groups at any depth, as data/demo_0 of robomimic.
std::vector<Guess> guess_numbered(const std::vector<StoredField>& fields,
                                  const StoredField& input) {
  const std::vector<std::string> path = path_parts(input.name);
  std::string group, groups;
  for (std::size_t where = 0; where + 1 < path.size(); ++where) {
    const std::string stem = stem_of(path[where]);
    group += (where == 0 ? "" : "/") + path[where];
    groups += (where == 0 ? "" : "/") + (stem.empty() ? path[where] : stem);
    if (stem.empty() || siblings(fields, input, where).empty()) continue;
    const std::vector<StoredField> inside = below(fields, group);
    const std::string name = without_group(input.name, group);
    const FileListing listing(inside);
    const StoredField& first = *std::ranges::find(inside, name, &StoredField::name);
    if (first.extents.size() < 2) return {};
    const std::string axes =
        "N" + (first.extents.size() == 2 ? "C" : axes_of(std::span(first.extents).subspan(1)));
    std::vector<Guess> likely;
    add_values(listing, inside, first, axes, likely);
    for (const std::string& label : labels_among(listing, inside, first.extents.front(), name))
      likely.push_back({SampleUnit::axis, name, axes, label, TargetKind::label});
    const auto lists = [&](const std::string& list) {
      return std::ranges::any_of(
          fields, [&](const StoredField& field) { return field.name == list && field.is_text(); });
    };
    for (Guess& guess : likely) {
      guess.unit = SampleUnit::group;
      guess.groups = groups;
      if (!lists("mask/train") || !lists("mask/valid")) continue;
      guess.group_list = "mask/train";
      guess.validation_group_list = "mask/valid";
    }
    return likely;
  }
  return {};
}

// Validation data sets beside those of training.
void add_twins(const std::vector<StoredField>& fields, Guesses& to) {
  for (Guess& guess : to.likely) {
    const std::string input = twin_of(fields, guess.input), target = twin_of(fields, guess.target);
    if (guess.unit != SampleUnit::axis || input.empty() || target.empty()) continue;
    guess.validation_input = input;
    guess.validation_target = target;
    std::erase(to.beside, input);
  }
}

}  // namespace

Guesses guess_samples(const std::vector<StoredField>& fields) {
  const FileListing listing(fields);
  const StoredField* const input = largest_input(listing, fields);
  if (input == nullptr) return {};
  // MATLAB stores arrays with reversed axes.
  const bool reversed = !listing.text(input->name, "MATLAB_class").empty();
  Guesses result;
  result.likely = guess_numbered(fields, *input);
  if (!result.likely.empty()) return result;
  result = guess_labels(listing, fields, input, reversed);
  if (!reversed) {
    std::vector<Guess> cubes;
    for (const bool samples : {false, true})
      add_cubes(listing, fields, *input, samples, cubes);
    // Behind integers that are named like labels.
    const auto certain = [&](const Guess& guess) {
      const auto field = std::ranges::find(fields, guess.target, &StoredField::name);
      return sounds_like_label(guess.target) && (field == fields.end() || !is_float(*field));
    };
    result.likely.insert(std::ranges::find_if_not(result.likely, certain), cubes.begin(),
                         cubes.end());
    const std::span extents(input->extents);
    add_maps(listing, fields, *input, axes_of(extents), result.likely);
    if (extents.size() >= 2)
      add_values(listing, fields, *input,
                 "N" + (extents.size() == 2 ? "C" : axes_of(extents.subspan(1))), result.likely);
    if (extents.size() >= 3)
      add_maps(listing, fields, *input, "N" + axes_of(extents.subspan(1)), result.likely);
  }
  if (result.likely.empty()) {
    std::string letters = axes_of(input->extents);
    if (reversed && letters.find('H') != letters.npos)
      std::swap(letters[letters.find('H')], letters[letters.find('W')]);
    result.likely.push_back({SampleUnit::file, input->name, letters, "", TargetKind::label});
  }
  add_twins(fields, result);
  return result;
}

}  // namespace trireme
