// SPDX-License-Identifier: Apache-2.0
#include "data/fields/guess.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <sstream>
#include <unordered_map>
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
  explicit FileListing(const std::vector<StoredField>& fields) {
    for (const StoredField& field : fields) {
      if (!field.is_attribute() || !field.is_text()) continue;
      texts_.emplace(field.name, field.names.front());
      if (!has_word(naming_attributes, attribute_name(field))) continue;
      std::istringstream words(field.names.front());
      for (std::string word; words >> word;)
        described_by_.insert(word);
    }
  }

  // The single text of an object's attribute; "" if there is none.
  [[nodiscard]] std::string text(const std::string& object, std::string_view name) const {
    const auto found = texts_.find(fmt::format("{}@{}", object, name));
    return found == texts_.end() ? "" : found->second;
  }

  // MATLAB stores arrays with reversed axes.
  [[nodiscard]] bool is_reversed(const StoredField& field) const {
    return !text(field.name, "MATLAB_class").empty();
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

  std::unordered_map<std::string, std::string> texts_;  // of attributes
  std::set<std::string, std::less<>> described_by_;
};

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

bool is_float(const StoredField& field) {
  return !field.is_text() && !is_integer(field);
}

// An order of a sample's axes, and what speaks against it.
struct AxesOrder {
  std::string axes;
  int against = 0;
};

constexpr std::uint64_t few = 16;  // channels, and fewer than rows and columns

std::vector<AxesOrder> orders_of(std::span<const std::uint64_t> extents) {
  constexpr std::uint64_t many_times = 8, most_columns = 512;
  const auto cube = [&](std::size_t first) {
    return extents[first] == extents[first + 1] && extents[first] == extents[first + 2];
  };
  const auto fewest = [&](std::size_t at) {
    return extents[at] <= few && extents[at] == *std::ranges::min_element(extents);
  };
  switch (extents.size()) {
    case 1:
      return {{"C", extents[0] <= most_columns ? 0 : 3}, {"W", extents[0] <= most_columns ? 3 : 0}};
    case 2: {
      const bool last = fewest(1) && extents[0] >= many_times * extents[1];
      const bool first = fewest(0) && extents[1] >= many_times * extents[0];
      return {{"HW", last || first ? 3 : 0}, {"WC", last ? 0 : 4}, {"CW", first ? 0 : 4}};
    }
    case 3: {
      const bool last = fewest(2) && !cube(0), first = fewest(0) && !cube(0) && !last;
      return {{"HWC", last ? 0 : 3}, {"CHW", first ? 0 : 4}, {"DHW", last || first ? 5 : 0}};
    }
    case 4: {
      const bool last = fewest(3) || cube(0), first = (fewest(0) || cube(1)) && !last;
      const int colours = extents[3] == 3 && !cube(0) ? 1 : 0;  // of images, most often
      return {{"DHWC", last ? colours : 3},
              {"CDHW", first ? 0 : 3},
              {"TCHW", fewest(1) && !last && !first ? 0 : 5}};
    }
    default:
      return {};
  }
}

// The same with an axis of samples in front, or at the end.
std::vector<AxesOrder> orders_along(std::span<const std::uint64_t> extents) {
  if (extents.size() < 2) return {};
  // Sides of volumes are often equal, and then not a number of samples.
  const bool side = extents.size() > 2 && extents.back() != 3 &&
                    (extents[0] == extents[1] || extents[0] == extents[2]);
  std::vector<AxesOrder> orders;
  for (const AxesOrder& order : orders_of(extents.subspan(1)))
    orders.push_back({"N" + order.axes, order.against + (side ? 5 : 0)});
  for (const AxesOrder& order : orders_of(extents.first(extents.size() - 1)))
    orders.push_back({order.axes + "N", order.against + 7});
  return orders;
}

// All of a file, or of the first of many groups that are alike; and what its readings share.
struct Scope {
  std::vector<StoredField> fields;
  Guess like{};
};

// All readings of a scope, with scores: the sum of what speaks for and against each part.
class Readings {
 public:
  Readings(const Scope& scope, std::size_t files)
      : scope_(scope), listing_(scope.fields), files_(files) {}

  // Data sets with at least rows and columns: the largest first, those named like labels last.
  [[nodiscard]] std::vector<std::pair<int, const StoredField*>> inputs() {
    std::uint64_t largest = 0;
    std::vector<std::pair<int, const StoredField*>> found;
    targets_.clear();
    for (const StoredField& field : scope_.fields) {
      if (field.elements() == 0 || listing_.is_reserved(field)) continue;
      targets_.push_back(&field);
      if (field.is_attribute() || field.is_text() || true_extents(field).size() < 2) continue;
      const bool of_training = !twin_of(scope_.fields, field.name).empty();
      found.emplace_back((sounds_like_label(field.name) ? -6 : 0) + (of_training ? 4 : 0), &field);
      largest = std::max(largest, field.elements());
    }
    for (auto& [score, field] : found)
      score += field->elements() == largest ? 4 : field->elements() >= largest / 4 ? 1 : -2;
    std::ranges::stable_sort(found, std::greater{}, [](const auto& each) { return each.first; });
    found.resize(std::min<std::size_t>(6, found.size()));
    return found;
  }

  [[nodiscard]] std::vector<Guess> all() {
    const bool grouped = scope_.like.unit == SampleUnit::group;
    // One file with one sample is no set of samples.
    const int of_whole = grouped ? 5 : files_ > 1 ? 4 : 1;
    for (const auto& [score, input] : inputs()) {
      for (const AxesOrder& order : orders_along(input->extents))
        add_reading(*input, order, grouped ? SampleUnit::group : SampleUnit::axis, score + 3);
      for (const AxesOrder& order : orders_of(input->extents))
        add_reading(*input, order, scope_.like.unit, score + of_whole);
    }
    return std::move(found_);
  }

 private:
  void add_reading(const StoredField& input, const AxesOrder& order, SampleUnit unit, int score) {
    Guess guess = scope_.like;
    guess.unit = unit;
    guess.input = input.name;
    std::string& axes = guess.axes = order.axes;
    const std::size_t row = axes.find('H');
    const bool reversed = listing_.is_reversed(input);
    if (reversed && row != axes.npos) std::swap(axes[row], axes[axes.find('W')]);
    if (axes.size() < 2) return;
    guess.score = score - (reversed && axes == "CN" ? 0 : order.against);
    const bool of_training = !twin_of(scope_.fields, input.name).empty();
    for (const StoredField* const field : targets_) {
      if (field == &input) continue;
      guess.target = field->name;
      const int against = (group_of(field->name) == group_of(input.name) ? 0 : 1) +
                          (of_training && twin_of(scope_.fields, field->name).empty() ? 8 : 0) +
                          (field->is_attribute() ? 2 : 0);
      guess.score -= against;
      add_numbers(input, *field, guess);
      add_maps(input, *field, guess);
      guess.score += against;
    }
  }

  static std::string group_of(const std::string& name) {
    return name.substr(0, std::min(name.size(), name.rfind('/') + 1));
  }

  void add(Guess guess, TargetKind kind, int score, bool volume, bool maps = false) {
    guess.predicted = kind;
    guess.score += score;
    guess.volume = volume;
    guess.maps = maps;
    found_.push_back(std::move(guess));
  }

  // A class, or numbers, of each sample: integers, and whatever has a telling name.
  void add_numbers(const StoredField& input, const StoredField& field, const Guess& guess) {
    constexpr std::uint64_t most_classes = 1000, most_numbers = 64;
    const std::size_t samples = guess.axes.find('N'), depth = guess.axes.find('D');
    const std::uint64_t count = samples == guess.axes.npos ? 1 : input.extents[samples];
    if (samples != guess.axes.npos && count < 2) return;
    const std::vector<std::uint64_t> extents = true_extents(field);
    const bool sounds = sounds_like_label(field.name);
    const bool one =
        count == 1 ? extents.empty() : extents == std::vector{count} && !field.is_attribute();
    // A row of 0 and one 1 for each sample.
    const bool row = sounds && count > 1 && extents.size() == 2 && extents.front() == count &&
                     extents.back() <= most_classes;
    if ((one || row) && (is_integer(field) || sounds))
      add(guess, TargetKind::label, !sounds ? 2 : is_float(field) ? 7 : 8, false);
    const bool cube = depth != guess.axes.npos &&
                      input.extents[depth] == input.extents[depth + 1] &&
                      input.extents[depth] == input.extents[depth + 2];
    const std::uint64_t numbers = field.elements() / count;
    const bool fits = is_float(field) && numbers <= most_numbers &&
                      numbers * count == field.elements() &&
                      (count == 1 || (!extents.empty() && extents.front() == count));
    const bool telling = sounds || field.name.find("action") != std::string::npos ||
                         field.name.find("param") != std::string::npos;
    if (fits && (telling || (cube && numbers > 1)))
      add(guess, TargetKind::values, (telling ? 6 : 3) + (cube ? 2 : 0), cube);
  }

  // A class, or numbers, of each pixel: data sets with the input's rows and columns.
  void add_maps(const StoredField& input, const StoredField& field, const Guess& guess) {
    if (guess.axes.find('H') == guess.axes.npos || guess.axes.find('T') != guess.axes.npos) return;
    if (field.is_attribute() || field.is_text()) return;
    std::vector<std::uint64_t> wanted = input.extents, extents = field.extents;
    const std::size_t last = wanted.size() - 1;
    const auto channel = std::min(guess.axes.find('C'), guess.axes.size());
    if (channel <= last) wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(channel));
    std::uint64_t channels = 1;
    if (extents.size() == wanted.size() + 1) {
      channels = extents[channel];
      extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(channel));
    }
    if (extents != wanted) return;
    const bool sounds = sounds_like_label(field.name);
    const std::size_t depth = guess.axes.find('D');
    const bool volume = depth != guess.axes.npos;
    // Slices of a map are no channels, however few.
    const int slices = volume && input.extents[depth] <= few ? 4 : 0;
    if ((is_integer(field) || sounds) && channels == 1)
      add(guess, TargetKind::pixels, slices + (sounds ? 9 : 6), volume);
    if (is_float(field) || (sounds && channels > 1))
      add(guess, TargetKind::values, sounds ? 5 : 2, volume, true);
  }

  const Scope& scope_;
  const FileListing listing_;
  const std::size_t files_;
  std::vector<const StoredField*> targets_;  // that are not reserved
  std::vector<Guess> found_;
};

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

// Groups like that of the input which are samples, or hold some: s0, s1; data/demo_0 of robomimic.
std::vector<Scope> scopes_of(const std::vector<StoredField>& fields, const StoredField& input) {
  const std::vector<std::string> path = path_parts(input.name);
  std::vector<Scope> scopes;
  std::string group, groups;
  const auto lists = [&](const std::string& list) {
    const auto found = std::ranges::find(fields, list, &StoredField::name);
    return found != fields.end() && found->is_text();
  };
  Guess like;
  like.unit = SampleUnit::group;
  if (lists("mask/train") && lists("mask/valid")) {
    like.group_list = "mask/train";
    like.validation_group_list = "mask/valid";
  }
  for (std::size_t where = 0; where + 1 < path.size(); ++where) {
    const std::string stem = stem_of(path[where]);
    const auto alike = siblings(fields, input, where);
    const bool same = std::ranges::any_of(
        alike, [&](const StoredField* other) { return other->extents == input.extents; });
    group += (where == 0 ? "" : "/") + path[where];
    groups += where == 0 ? "" : "/";
    like.groups = groups + (stem.empty() ? "*" : stem);
    if (!alike.empty() && twin_of(fields, input.name).empty() && (same || !stem.empty()))
      scopes.push_back({below(fields, group), like});
    groups += stem.empty() ? path[where] : stem;
  }
  return scopes;
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

Guesses guess_samples(const std::vector<StoredField>& fields, std::size_t files) {
  const Scope whole{fields};
  Readings of_file(whole, files);
  const auto inputs = of_file.inputs();
  Guesses result;
  if (inputs.empty()) return result;
  const StoredField& input = *inputs.front().second;
  for (const Scope& scope : scopes_of(fields, input)) {
    for (Guess& guess : Readings(scope, files).all())
      result.likely.push_back(std::move(guess));
  }
  const bool grouped = !result.likely.empty();
  for (Guess& guess : of_file.all()) {
    guess.score -= grouped ? 5 : 0;
    result.likely.push_back(std::move(guess));
  }
  std::ranges::stable_sort(result.likely, std::greater{}, &Guess::score);
  if (result.likely.empty())
    result.likely.push_back({SampleUnit::file, input.name,
                             input.extents.size() > 4 ? "NDHWC" : orders_of(input.extents)[0].axes,
                             ""});
  const Guess& best = result.likely.front();
  if (best.unit != SampleUnit::group) add_beside(fields, input, result);
  const auto parts_of = [&](const std::string& name) {
    return std::ranges::count(fields, stem_of(name), [](const StoredField& field) {
      return field.is_attribute() ? "@" : stem_of(field.name);
    });
  };
  result.scattered = !stem_of(best.input).empty() && !stem_of(best.target).empty() &&
                     parts_of(best.input) > 2 && parts_of(best.target) > 2;
  add_twins(fields, result);
  return result;
}

}  // namespace trireme
