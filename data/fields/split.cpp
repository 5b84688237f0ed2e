// SPDX-License-Identifier: Apache-2.0
#include "data/fields/split.h"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "runtime/base/error.h"

namespace trireme {
namespace {

struct Wanted {
  std::string text;
  Subset part = Subset::validation;  // all: test
  bool met = false;
};

std::string_view key_of(const Wanted& wanted) {
  return wanted.part == Subset::validation ? "data.validation_values" : "data.test_values";
}

// Maps each key value to its part.
class Parts {
 public:
  explicit Parts(const FieldOptions& options) : key_(options.split_key) {
    for (const std::string& text : options.validation_values)
      wanted_.push_back({text, Subset::validation});
    for (const std::string& text : options.test_values)
      wanted_.push_back({text, Subset::all});
  }

  Subset of_text(const std::string& text) {
    return part_of(text, [&](const Wanted& wanted) {
      return ::fnmatch(wanted.text.c_str(), text.c_str(), 0) == 0;
    });
  }

  Subset of_number(double number) {
    return part_of(fmt::format("{}", number), [&](const Wanted& wanted) {
      char* end = nullptr;
      const double value = std::strtod(wanted.text.c_str(), &end);
      if (end == wanted.text.c_str() || *end != '\0')
        fail(ExitCode::data, "{}: {} is not a number, but {} holds numbers", key_of(wanted),
             wanted.text, key_);
      return value == number;
    });
  }

  void require_all_met() const {
    for (const Wanted& wanted : wanted_) {
      if (wanted.met) continue;
      fail(ExitCode::data, "{}: no sample has {} as {}; there are {}{}", key_of(wanted),
           wanted.text, key_, fmt::join(seen_, ", "), seen_.size() < most_seen ? "" : ", ...");
    }
  }

 private:
  template <typename Matches>
  Subset part_of(const std::string& shown, Matches&& matches) {
    if (seen_.size() < most_seen) seen_.insert(shown);
    Wanted* found = nullptr;
    for (Wanted& wanted : wanted_) {
      if (!matches(wanted)) continue;
      if (found != nullptr && found->part != wanted.part)
        fail(ExitCode::data,
             "data.test_values: {} is {}, which data.validation_values also has: {}", key_, shown,
             found->text);
      wanted.met = true;
      found = &wanted;
    }
    return found == nullptr ? Subset::training : found->part;
  }

  static constexpr std::size_t most_seen = 16;
  std::string key_;
  std::vector<Wanted> wanted_;
  std::set<std::string> seen_;
};

// The part of each element of the key.
std::vector<Subset> parts_of(const FieldReader& reader, const UnitFields& unit,
                             const StoredField& key, Parts& parts) {
  constexpr std::uint64_t most = std::uint64_t{1} << 28;
  if (key.elements() > most)
    fail(ExitCode::data, "{}: {}: more than 2^28 values", unit.name(), key.name);
  Box box;
  std::ranges::copy(key.extents, box.count.begin());
  std::vector<std::byte> stored(static_cast<std::size_t>(key.elements()) * key.type.bytes);
  reader.read(unit.file(), key, box, stored);
  std::vector<Subset> result;
  std::vector<Subset> of_names;
  for (const std::string& name : key.names)
    of_names.push_back(parts.of_text(name));
  for (std::size_t at = 0; at < stored.size(); at += key.type.bytes) {
    const double value = to_double(key.type, key.packing, stored.data() + at);
    result.push_back(key.is_text() ? of_names[static_cast<std::size_t>(value)]
                                   : parts.of_number(value));
  }
  return result;
}

// For one unit: a part for all its samples, or for each element of its key.
std::vector<Subset> parts_of_unit(const FieldReader& reader, const UnitFields& unit,
                                  const SampleShape& shape, const FieldOptions& options,
                                  Parts& parts) {
  if (options.split_key == split_by_name) {
    const std::string& group = unit.group();
    return {parts.of_text(group.empty()
                              ? std::filesystem::path(unit.file().path).filename().string()
                              : group.substr(1))};
  }
  const StoredField& key = unit.split_key();
  if (key.elements() != 1) require_numbers(unit, key, shape, "a key of parts");
  return parts_of(reader, unit, key, parts);
}

}  // namespace

std::vector<std::uint64_t> samples_by_key(const FieldReader& reader,
                                          std::span<const UnitFields> units,
                                          const SampleShape& shape, const FieldOptions& options) {
  Parts parts(options);
  std::vector<std::uint64_t> chosen;
  std::uint64_t first = 0;
  for (const UnitFields& unit : units) {
    const std::vector<Subset> of_unit = parts_of_unit(reader, unit, shape, options, parts);
    const std::uint64_t samples = shape.samples(unit.inputs());
    for (std::uint64_t i = 0; i < samples; ++i) {
      const std::uint64_t element =
          of_unit.size() == 1 ? 0 : element_of(unit, unit.split_key(), shape, i);
      if (of_unit[static_cast<std::size_t>(element)] == options.subset) chosen.push_back(first + i);
    }
    first += samples;
  }
  parts.require_all_met();
  if (chosen.empty())
    fail(ExitCode::data,
         "data.split_key: {}: all samples are for validation or test; none is left to train on",
         options.split_key);
  return chosen;
}

}  // namespace trireme
