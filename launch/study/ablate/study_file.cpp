// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/study_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/config/suggest.h"
#include "runtime/config/value.h"
#include "runtime/config/yaml/scalar.h"

namespace trireme::ablate {
namespace {

using config::Choices;
using config::IntegerRange;
using config::Node;
using config::NumberRange;

constexpr std::int64_t most_steps = 1'000'000'000'000;
constexpr std::size_t longest_list = 1000;

// A node with its file and its path of keys.
struct Place {
  const std::string* file = nullptr;
  std::string key;
  const Node* node = nullptr;

  [[nodiscard]] std::string text() const {
    return fmt::format("{}:{}{}{}", *file, node->line, key.empty() ? "" : ": ", key);
  }
  [[nodiscard]] Place item(std::size_t i) const {
    const bool map = node->kind == Node::Kind::map;
    const std::string name = map ? node->keys[i] : fmt::format("[{}]", i);
    const char* const dot = key.empty() || !map ? "" : ".";
    return {.file = file, .key = fmt::format("{}{}{}", key, dot, name), .node = &node->items[i]};
  }
  [[noreturn]] void refuse(std::string_view wanted) const {
    fail(ExitCode::config, "{}: is {}; {}", text(), config::describe(*node), wanted);
  }
  // A map or list of at least one entry.
  void require(Node::Kind kind, std::string_view wanted) const {
    if (node->kind != kind || node->items.empty()) refuse(wanted);
  }
};

using Reader = std::function<void(const Place&)>;

// Gives each key of a map to its reader; refuses others.
void read_map(const Place& place, const std::vector<std::pair<std::string_view, Reader>>& keys,
              std::string_view what) {
  std::vector<std::string_view> names;
  for (const auto& [name, reader] : keys)
    names.push_back(name);
  if (place.node->kind != Node::Kind::map)
    place.refuse(fmt::format("give a map with the keys of {}: {}", what, fmt::join(names, ", ")));
  for (std::size_t i = 0; i < place.node->items.size(); ++i) {
    const std::string& name = place.node->keys[i];
    const auto found =
        std::ranges::find_if(keys, [&](const auto& one) { return one.first == name; });
    if (found != keys.end()) {
      found->second(place.item(i));
      continue;
    }
    const auto near = config::closest(name, names);
    fail(ExitCode::config, "{}: is not a key of {}{}; the keys are {}", place.item(i).text(), what,
         near.empty() ? "" : fmt::format(", did you mean {}?", near), fmt::join(names, ", "));
  }
}

// Stores a value of the limits.
Reader into(config::Slot slot, config::Limits limits) {
  return [slot, limits = std::move(limits)](const Place& place) {
    config::read_value(*place.node, slot, limits, place.text());
  };
}

// For --set; lists without spaces, which job arrays do not support.
std::string value_of(const Place& place) {
  const Node& node = *place.node;
  if (node.kind == Node::Kind::scalar) return node.text;
  if (node.kind != Node::Kind::list) place.refuse("give a value of that key, or a list of values");
  std::string text;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    if (node.items[i].kind != Node::Kind::scalar) place.item(i).refuse("give a single value");
    const std::string& item = node.items[i].text;
    text +=
        (text.empty() ? "" : ",") + (node.items[i].quoted ? config::quote_if_needed(item) : item);
  }
  return "[" + text + "]";
}

void refuse_own_key(const Place& place, const std::string& key) {
  if (key != "run.seed" && key != "run.directory") return;
  fail(ExitCode::config, "{}: {} is set by the study itself; {}", place.text(), key,
       key == "run.seed" ? "list the seeds under `seeds`" : "give --out");
}

// "key=value" for each key of a map.
std::vector<std::string> settings_of(const Place& place) {
  place.require(Node::Kind::map, "give keys with their values: {train.clip_norm: 0}");
  std::vector<std::string> settings;
  for (std::size_t i = 0; i < place.node->items.size(); ++i) {
    refuse_own_key(place.item(i), place.node->keys[i]);
    settings.push_back(fmt::format("{}={}", place.node->keys[i], value_of(place.item(i))));
  }
  return settings;
}

void read_grid(const Place& place, StudyFile& study) {
  place.require(Node::Kind::map,
                "give keys with lists of values: {optimizer.learning_rate: [1e-3, 2e-3]}");
  for (std::size_t i = 0; i < place.node->items.size(); ++i) {
    const Place key = place.item(i);
    key.require(Node::Kind::list, "give a list of its values: [a, b]");
    auto& [name, values] = study.grid.emplace_back(place.node->keys[i], std::vector<std::string>{});
    refuse_own_key(key, name);
    for (std::size_t j = 0; j < key.node->items.size(); ++j)
      values.push_back(value_of(key.item(j)));
  }
}

void read_list(const Place& place, StudyFile& study) {
  place.require(Node::Kind::map, "give names with their keys: {no_clipping: {train.clip_norm: 0}}");
  for (std::size_t i = 0; i < place.node->items.size(); ++i) {
    const Place named = place.item(i);
    const std::string& name = place.node->keys[i];
    if (name == "base")
      fail(ExitCode::config, "{}: that is the name of the base; choose another", named.text());
    study.list.push_back({.name = name, .settings = settings_of(named), .place = named.text()});
  }
}

Range range_of(const Place& place, const std::string& key) {
  refuse_own_key(place, key);
  Range range{.key = key, .place = place.text()};
  constexpr double most = 1e300;
  constexpr double none = 2 * most;
  range.low = range.high = none;
  read_map(place,
           {{"low", into(&range.low, NumberRange{.low = -most, .high = most})},
            {"high", into(&range.high, NumberRange{.low = -most, .high = most})},
            {"scale", into(&range.logarithmic, Choices{{"linear", "log"}})},
            {"whole", into(&range.whole, config::Free{})}},
           "a range");
  if (range.low == none || range.high == none)
    fail(ExitCode::config, "{}: has no {}; give {{low: 1e-4, high: 1e-2, scale: log}}", range.place,
         range.low == none ? "low" : "high");
  if (!(range.low < range.high))
    fail(ExitCode::config, "{}: low = {:g} is not below high = {:g}", range.place, range.low,
         range.high);
  if (range.logarithmic && range.low <= 0)
    fail(ExitCode::config, "{}: low = {:g} has no logarithm; give one above 0, or scale: linear",
         range.place, range.low);
  if (range.whole && std::ceil(range.low) > std::floor(range.high))
    fail(ExitCode::config, "{}: the range from {:g} to {:g} has no whole number", range.place,
         range.low, range.high);
  return range;
}

void read_ranges(const Place& place, std::vector<Range>& ranges) {
  place.require(Node::Kind::map, "give keys with a range each");
  for (std::size_t i = 0; i < place.node->items.size(); ++i)
    ranges.push_back(range_of(place.item(i), place.node->keys[i]));
}

void read_random(const Place& place, StudyFile& study) {
  StudyFile::Random random;
  random.place = place.text();
  read_map(place,
           {{"draws", into(&random.draws, IntegerRange{.low = 1, .high = longest_list})},
            {"seed", into(&random.seed, config::Free{})},
            {"keys", [&](const Place& at) { read_ranges(at, random.ranges); }}},
           "variants.random");
  if (random.draws == 0 || random.ranges.empty())
    fail(ExitCode::config, "{}: has no {}; give draws: 8 and keys: {{KEY: {{low: A, high: B}}}}",
         random.place, random.draws == 0 ? "draws" : "keys");
  study.random = std::move(random);
}

void read_seeds(const Place& place, StudyFile& study) {
  std::vector<std::int64_t> seeds;
  into(&seeds, IntegerRange{.low = 0, .high = most_steps, .items = {1, longest_list}})(place);
  for (const std::int64_t seed : seeds) {
    study.study.seeds.push_back(static_cast<std::uint64_t>(seed));
    if (std::ranges::count(seeds, seed) > 1)
      fail(ExitCode::config, "{}: seed {} is given twice; give each seed once", place.text(), seed);
  }
}

void read_halving(const Place& place, StudyFile& study) {
  const IntegerRange steps{.low = 1, .high = most_steps, .items = {1, longest_list}};
  read_map(place,
           {{"at", into(&study.study.halving.at, steps)},
            {"keep", into(&study.study.halving.keep, NumberRange{.low = 0.01, .high = 0.99})}},
           "halving");
  if (study.study.halving.at.empty())
    place.refuse("give at: the steps after which variants are stopped");
  if (!std::ranges::is_sorted(study.study.halving.at, std::less_equal()))
    place.refuse("give the steps in ascending order");
}

}  // namespace

std::string StudyFile::place_of(const std::string& key) const {
  const auto found =
      std::ranges::find_if(places, [&](const auto& one) { return one.first == key; });
  return found == places.end() ? fmt::format("{}: {}", study.file, key) : found->second;
}

StudyFile read_study_file(const std::string& path) {
  const Node root = config::parse_document(config::read_text_file(path), path);
  StudyFile study;
  study.study.file = path;
  const Place top{.file = &path, .key = "", .node = &root};
  const auto steps = [](std::int64_t low) { return IntegerRange{.low = low, .high = most_steps}; };
  const auto read = [&study](void (*reader)(const Place&, StudyFile&)) {
    return [&study, reader](const Place& place) { reader(place, study); };
  };
  const auto read_variants = [&](const Place& at) {
    read_map(at,
             {{"grid", read(read_grid)}, {"list", read(read_list)}, {"random", read(read_random)}},
             "variants");
  };
  read_map(top,
           {{"base", into(&study.base, config::Text{.may_be_empty = false})},
            {"ranks", into(&study.ranks, IntegerRange{.low = 1, .high = 1'000'000})},
            {"set", [&](const Place& at) { study.study.overrides = settings_of(at); }},
            {"seeds", read(read_seeds)},
            {"variants", read_variants},
            {"fork_step", into(&study.study.fork_step, steps(1))},
            {"share_from", into(&study.study.share_from, steps(0))},
            {"halving", read(read_halving)},
            {"metric", into(&study.metric, Choices{{"validation_loss", "training_loss"}})},
            {"last_losses", into(&study.study.last_losses, steps(1))},
            {"price_per_rank_hour",
             into(&study.study.price_per_rank_hour, NumberRange{.low = 0, .high = 1e9})}},
           "a study");
  for (std::size_t i = 0; i < root.items.size(); ++i)
    study.places.emplace_back(root.keys[i], top.item(i).text());
  const char* const missing = study.base.empty() ? "base: FILE, the config that variants change"
                              : study.study.seeds.empty() ? "seeds: [1, 2, 3]"
                              : study.grid.empty() && study.list.empty() && !study.random
                                  ? "variants: with grid, list or random"
                                  : nullptr;
  if (missing != nullptr) fail(ExitCode::config, "{}: is incomplete; add {}", path, missing);
  return study;
}

}  // namespace trireme::ablate
