// SPDX-License-Identifier: Apache-2.0
#include "launch/study/ablate/study_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/config/suggest.h"
#include "runtime/config/yaml/document.h"
#include "runtime/config/yaml/scalar.h"

namespace trireme::ablate {
namespace {

using config::Node;
using config::Parse;

constexpr std::int64_t most_steps = 1'000'000'000'000;
constexpr std::size_t most_cells_of_a_list = 1000;

// A node with the file and the path of keys that lead to it.
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
};

using Reader = std::function<void(const Place&)>;

// Each key of a map to its reader; others are refused with what is near.
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
    fail(ExitCode::config, "{}: is no key of {}{}; its keys are {}", place.item(i).text(), what,
         near.empty() ? "" : fmt::format(", did you mean {}?", near), fmt::join(names, ", "));
  }
}

std::string text_of(const Place& place) {
  if (place.node->kind != Node::Kind::scalar || place.node->text.empty())
    place.refuse("give a text");
  return place.node->text;
}

std::int64_t whole_of(const Place& place, std::int64_t low, std::int64_t high) {
  const auto value = place.node->kind == Node::Kind::scalar
                         ? config::parse_integer(place.node->text)
                         : config::Parsed<std::int64_t>{};
  if (value.state != Parse::ok || value.value < low || value.value > high)
    place.refuse(fmt::format("give a whole number from {} to {}", low, high));
  return value.value;
}

double number_of(const Place& place, double low, double high) {
  const auto value = place.node->kind == Node::Kind::scalar ? config::parse_number(place.node->text)
                                                            : config::Parsed<double>{};
  if (value.state != Parse::ok || !(value.value >= low && value.value <= high))
    place.refuse(fmt::format("give a number from {:g} to {:g}", low, high));
  return value.value;
}

bool boolean_of(const Place& place) {
  const auto value = place.node->kind == Node::Kind::scalar
                         ? config::parse_boolean(place.node->text)
                         : std::nullopt;
  if (!value) place.refuse("give true or false");
  return *value;
}

// As --set takes it: a list in brackets and without spaces, which Slurm's arrays could not pass on.
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

Setting setting_of(const Place& place, const std::string& key) {
  refuse_own_key(place, key);
  return {.key = key, .value = value_of(place), .place = place.text()};
}

// Keys with a value each.
std::vector<Setting> settings_of(const Place& place) {
  if (place.node->kind != Node::Kind::map)
    place.refuse("give keys with their values: {train.clip_norm: 0}");
  std::vector<Setting> settings;
  for (std::size_t i = 0; i < place.node->items.size(); ++i)
    settings.push_back(setting_of(place.item(i), place.node->keys[i]));
  return settings;
}

void read_grid(const Place& place, StudyFile& study) {
  if (place.node->kind != Node::Kind::map || place.node->items.empty())
    place.refuse("give keys with lists of values: {optimizer.learning_rate: [1e-3, 2e-3]}");
  for (std::size_t i = 0; i < place.node->items.size(); ++i) {
    const Place key = place.item(i);
    if (key.node->kind != Node::Kind::list || key.node->items.empty())
      key.refuse("give a list of its values: [a, b]");
    auto& values = study.grid.emplace_back(place.node->keys[i], std::vector<Setting>{}).second;
    for (std::size_t j = 0; j < key.node->items.size(); ++j)
      values.push_back(setting_of(key.item(j), place.node->keys[i]));
  }
}

void read_list(const Place& place, StudyFile& study) {
  if (place.node->kind != Node::Kind::map || place.node->items.empty())
    place.refuse("give names with their keys: {no_clipping: {train.clip_norm: 0}}");
  for (std::size_t i = 0; i < place.node->items.size(); ++i) {
    const Place named = place.item(i);
    const std::string& name = place.node->keys[i];
    if (name == "base")
      fail(ExitCode::config, "{}: that is what the base is called; choose another name",
           named.text());
    std::vector<Setting> settings = settings_of(named);
    if (settings.empty()) named.refuse("give it a key that differs from the base");
    study.list.push_back({.name = name, .place = named.text(), .settings = std::move(settings)});
  }
}

Range range_of(const Place& place, const std::string& key) {
  refuse_own_key(place, key);
  Range range{.key = key, .place = place.text()};
  constexpr double most = 1e300;
  bool low = false, high = false;
  read_map(
      place,
      {{"low", [&](const Place& at) { range.low = number_of(at, -most, most), low = true; }},
       {"high", [&](const Place& at) { range.high = number_of(at, -most, most), high = true; }},
       {"scale",
        [&](const Place& at) {
          const std::string scale = text_of(at);
          if (scale != "log" && scale != "linear") at.refuse("give log or linear");
          range.logarithmic = scale == "log";
        }},
       {"whole", [&](const Place& at) { range.whole = boolean_of(at); }}},
      "a range");
  if (!low || !high)
    fail(ExitCode::config, "{}: has no {}; give {{low: 1e-4, high: 1e-2, scale: log}}", range.place,
         low ? "high" : "low");
  if (!(range.low < range.high))
    fail(ExitCode::config, "{}: low = {:g} is not below high = {:g}; no value lies between them",
         range.place, range.low, range.high);
  if (range.logarithmic && range.low <= 0)
    fail(ExitCode::config, "{}: low = {:g} has no logarithm; give one above 0, or scale: linear",
         range.place, range.low);
  if (range.whole && std::ceil(range.low) > std::floor(range.high))
    fail(ExitCode::config, "{}: no whole number lies from {:g} to {:g}", range.place, range.low,
         range.high);
  return range;
}

void read_random(const Place& place, StudyFile& study) {
  StudyFile::Random random;
  random.place = place.text();
  read_map(
      place,
      {{"draws", [&](const Place& at) { random.draws = whole_of(at, 1, most_cells_of_a_list); }},
       {"seed",
        [&](const Place& at) {
          random.seed = static_cast<std::uint64_t>(whole_of(at, 0, most_steps));
        }},
       {"keys",
        [&](const Place& at) {
          if (at.node->kind != Node::Kind::map || at.node->items.empty())
            at.refuse("give keys with a range each");
          for (std::size_t i = 0; i < at.node->items.size(); ++i) {
            const Place range = at.item(i);
            if (range.node->kind != Node::Kind::map || range.node->items.empty())
              range.refuse("give a range: {low: 1e-4, high: 1e-2, scale: log}");
            random.ranges.push_back(range_of(range, at.node->keys[i]));
          }
        }}},
      "variants.random");
  if (random.draws == 0 || random.ranges.empty())
    fail(ExitCode::config, "{}: has no {}; give draws: 8 and keys: {{KEY: {{low: A, high: B}}}}",
         random.place, random.draws == 0 ? "draws" : "keys");
  study.random = std::move(random);
}

void read_seeds(const Place& place, StudyFile& study) {
  if (place.node->kind != Node::Kind::list || place.node->items.empty())
    place.refuse("give a list of whole numbers: [1, 2, 3]");
  for (std::size_t i = 0; i < place.node->items.size(); ++i) {
    const auto seed = static_cast<std::uint64_t>(whole_of(place.item(i), 0, most_steps));
    if (std::ranges::find(study.seeds, seed) != study.seeds.end())
      fail(ExitCode::config, "{}: seed {} stands there twice; give each once", place.item(i).text(),
           seed);
    study.seeds.push_back(seed);
  }
}

void read_halving(const Place& place, StudyFile& study) {
  read_map(place,
           {{"at",
             [&](const Place& at) {
               if (at.node->kind != Node::Kind::list || at.node->items.empty())
                 at.refuse("give a list of steps: [100, 200]");
               for (std::size_t i = 0; i < at.node->items.size(); ++i) {
                 const std::int64_t step = whole_of(at.item(i), 1, most_steps);
                 if (!study.halving_at.empty() && step <= study.halving_at.back())
                   at.item(i).refuse("give the steps in ascending order");
                 study.halving_at.push_back(step);
               }
             }},
            {"keep", [&](const Place& at) { study.halving_keep = number_of(at, 0.01, 0.99); }}},
           "halving");
  if (study.halving_at.empty()) place.refuse("give at: the steps after which variants are stopped");
}

}  // namespace

std::string StudyFile::place_of(const std::string& key) const {
  const auto found =
      std::ranges::find_if(places, [&](const auto& one) { return one.first == key; });
  return found == places.end() ? fmt::format("{}: {}", path, key) : found->second;
}

StudyFile read_study_file(const std::string& path) {
  const Node root = config::parse_document(config::read_text_file(path), path);
  StudyFile study;
  study.path = path;
  const Place top{.file = &path, .key = "", .node = &root};
  read_map(
      top,
      {{"base", [&](const Place& at) { study.base = text_of(at); }},
       {"ranks", [&](const Place& at) { study.ranks = whole_of(at, 1, 1'000'000); }},
       {"set", [&](const Place& at) { study.set = settings_of(at); }},
       {"seeds", [&](const Place& at) { read_seeds(at, study); }},
       {"variants",
        [&](const Place& at) {
          read_map(at,
                   {{"grid", [&](const Place& below) { read_grid(below, study); }},
                    {"list", [&](const Place& below) { read_list(below, study); }},
                    {"random", [&](const Place& below) { read_random(below, study); }}},
                   "variants");
        }},
       {"fork_step", [&](const Place& at) { study.fork_step = whole_of(at, 1, most_steps); }},
       {"share_from", [&](const Place& at) { study.share_from = whole_of(at, 0, most_steps); }},
       {"halving", [&](const Place& at) { read_halving(at, study); }},
       {"metric",
        [&](const Place& at) {
          study.metric = text_of(at);
          if (study.metric != "validation_loss" && study.metric != "training_loss")
            at.refuse("give validation_loss or training_loss");
        }},
       {"last_losses", [&](const Place& at) { study.last_losses = whole_of(at, 1, most_steps); }},
       {"price_per_rank_hour",
        [&](const Place& at) { study.price_per_rank_hour = number_of(at, 0, 1e9); }}},
      "a study");
  for (std::size_t i = 0; i < root.items.size(); ++i)
    study.places.emplace_back(root.keys[i], top.item(i).text());
  const char* const missing = study.base.empty()    ? "base: FILE, the config that variants change"
                              : study.seeds.empty() ? "seeds: [1, 2, 3]"
                              : study.grid.empty() && study.list.empty() && !study.random
                                  ? "variants: with grid, list or random"
                                  : nullptr;
  if (missing != nullptr) fail(ExitCode::config, "{}: is no whole study; add {}", path, missing);
  return study;
}

}  // namespace trireme::ablate
