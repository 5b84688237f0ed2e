// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/key_table.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/config/value.h"

namespace trireme::config {
namespace {

constexpr std::string_view family_key = "model.family";

bool has(const ModelFamily& family, Needs needs) {
  switch (needs) {
    case Needs::any_model:
      return true;
    case Needs::tensor_split:
      return family.splits_tensor;
    case Needs::fields:
      return family.input == Input::fields;
    case Needs::channels:
    case Needs::hdf5_files:
    case Needs::in_place:
      return family.input != Input::tokens;
    default:
      return family.input == Input::images;
  }
}

Condition families_of(std::span<const ModelFamily> families, Needs needs) {
  Condition condition{family_key, {}};
  for (const ModelFamily& family : families) {
    if (has(family, needs)) condition.values.push_back(family.name);
  }
  return condition;
}

}  // namespace

KeyTable::KeyTable(std::vector<ModelFamily> families)
    : families_(std::move(families)), fields_(common_fields()) {
  TRIREME_EXPECTS(!families_.empty(), "a table of keys without a model family");
  for (Field& field : fields_) {
    if (field.needs != Needs::any_model) field.only_with = families_of(families_, field.needs);
    if (field.key == family_key)
      std::get<Choices>(field.limits).words = families_of(families_, Needs::any_model).values;
  }
  for (const ModelFamily& family : families_)
    add_family(family);
  by_key_.resize(fields_.size());
  std::iota(by_key_.begin(), by_key_.end(), std::size_t{0});
  std::ranges::sort(by_key_, {},
                    [this](std::size_t i) { return std::string_view(fields_[i].key); });
  defaults_.model.family = families_.front().name;
}

void KeyTable::add_family(const ModelFamily& family) {
  for (Field& row : family.fields()) {
    const auto twin = std::ranges::find(fields_, row.key, &Field::key);
    if (twin == fields_.end()) {
      row.only_with = {family_key, {family.name}};
      const auto after = std::ranges::find(fields_.rbegin(), fields_.rend(), row.section(),
                                           [](const Field& field) { return field.section(); });
      fields_.insert(after.base(), std::move(row));
      continue;
    }
    twin->only_with.values.push_back(family.name);
    twin->shared.push_back({family.name, row.slot, row.limits, row.description});
  }
}

const Field* KeyTable::find(std::string_view key) const {
  const auto key_at = [this](std::size_t i) { return std::string_view(fields_[i].key); };
  const auto found = std::ranges::lower_bound(by_key_, key, {}, key_at);
  return found == by_key_.end() || key_at(*found) != key ? nullptr : &fields_[*found];
}

const Field* KeyTable::find_former(std::string_view key) const {
  const auto found = std::ranges::find(fields_, key, &Field::formerly);
  return key.empty() || found == fields_.end() ? nullptr : &*found;
}

bool KeyTable::is_section(std::string_view name) const {
  return !name.empty() && std::ranges::find(fields_, name, &Field::section) != fields_.end();
}

std::vector<std::string_view> KeyTable::names_in(std::string_view section) const {
  std::vector<std::string_view> names;
  for (const Field& field : fields_) {
    if (field.section() == section) {
      names.push_back(field.name());
    } else if (section.empty() && (names.empty() || names.back() != field.section())) {
      names.push_back(field.section());
    }
  }
  return names;
}

const ModelFamily& KeyTable::family_of(const Config& config) const {
  if (config.model.family.empty()) return families_.front();
  const auto found = std::ranges::find(families_, config.model.family, &ModelFamily::name);
  TRIREME_EXPECTS(found != families_.end(), "model.family {} is not in the table",
                  config.model.family);
  return *found;
}

std::string KeyTable::families_with(Needs needs) const {
  return families_of(families_, needs).any();
}

std::string unmet_condition(const KeyTable& keys, const Field& field, const Config& config) {
  const Condition& condition = field.only_with;
  if (condition.key.empty()) return "";
  std::string actual = format_value(*keys.find(condition.key), config);
  const bool open = condition.key == "device.type" && actual == "auto";  // resolved on the host
  return open || condition.allows(actual) ? "" : actual;
}

namespace {

constexpr std::array removed{
    RemovedKey{"telemetry.wandb", "false", "scripts/export_run.py wandb RUN"},
    RemovedKey{"telemetry.mlflow", "false", "scripts/export_run.py mlflow RUN"}};

}  // namespace

std::span<const RemovedKey> removed_keys() {
  return removed;
}

const RemovedKey* find_removed(std::string_view key) {
  const auto found = std::ranges::find(removed, key, &RemovedKey::key);
  return found == removed.end() ? nullptr : &*found;
}

bool is_removed_section(std::string_view name) {
  return std::ranges::any_of(removed, [&](const RemovedKey& gone) {
    return gone.key.starts_with(name) && gone.key.substr(name.size()).starts_with('.');
  });
}

}  // namespace trireme::config
