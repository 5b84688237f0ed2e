// SPDX-License-Identifier: Apache-2.0
// Config -> YAML, and the documentation of the keys.
#include <fmt/ranges.h>

#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "runtime/config/key_table.h"
#include "runtime/config/value.h"

namespace trireme {
namespace {

// A bar would end a Markdown table cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char letter : text) {
    if (letter == '|') escaped += '\\';
    escaped += letter;
  }
  return escaped;
}

// "  # configs/a.yaml:3" or "  # --set train.steps=50" for a key that was set.
std::string origin(const config::Field& field, const Provenance& where) {
  const auto found = where.places.find(field.key);
  if (found == where.places.end()) return "";
  const std::string& place = found->second;
  const auto line_end = where.overridden.contains(field.key) ? place.size() : place.rfind(": ");
  return fmt::format("  # {}", place.substr(0, line_end));
}

// The fields for which `wanted` holds.
template <typename Wanted>
std::string yaml_of(const config::KeyTable& keys, const Config& config, const Provenance* where,
                    Wanted&& wanted) {
  std::string text;
  std::string_view section;
  for (const config::Field& field : keys.fields()) {
    if (!wanted(field)) continue;
    if (field.section() != section) {
      section = field.section();
      if (!section.empty()) text += fmt::format("{}:\n", section);
    }
    text += fmt::format("{}{}: {}{}\n", section.empty() ? "" : "  ", field.name(),
                        format_value(field, config), where == nullptr ? "" : origin(field, *where));
  }
  return text;
}

}  // namespace

std::string to_yaml(const config::KeyTable& keys, const Config& config, const Provenance* where) {
  const Config& defaults = keys.defaults();
  return yaml_of(keys, config, where, [&](const config::Field& field) {
    return unmet_condition(keys, field, config).empty() || !same_value(field, config, defaults);
  });
}

std::string requested_yaml(const config::KeyTable& keys, const Config& config,
                           const Provenance& where) {
  return yaml_of(keys, with_absolute_paths(config), nullptr, [&](const config::Field& field) {
    return field.key == "run.directory" || where.places.contains(field.key);
  });
}

KeyValues values_by_key(const config::KeyTable& keys, const Config& config) {
  KeyValues values;
  for (const config::Field& field : keys.fields())
    values.emplace_back(field.key, format_value(field, config));
  return values;
}

KeyValues under_current_keys(const config::KeyTable& keys, const KeyValues& values) {
  KeyValues current;
  for (const auto& [key, value] : values) {
    if (config::find_removed(key) != nullptr) continue;
    const config::Field* const field = keys.find_former(key);
    current.emplace_back(field == nullptr ? key : field->key, value);
  }
  return current;
}

namespace {

// "bert, vit", "images", "files": what a row is for.
std::string models_of(const config::Field& field) {
  switch (field.needs) {
    case config::Needs::images:
    case config::Needs::image_files:
      return "images";
    case config::Needs::hdf5_files:
      return "files";
    case config::Needs::channels:
    case config::Needs::in_place:
      return "images, fields";
    default:
      return fmt::format("{}", fmt::join(field.only_with.values, ", "));
  }
}

}  // namespace

std::vector<FieldDoc> field_docs(const config::KeyTable& keys) {
  const Config& defaults = keys.defaults();
  std::vector<FieldDoc> docs;
  for (const config::Field& field : keys.fields()) {
    std::string description(field.description);
    if (!field.only_with.key.empty()) description += fmt::format(" ({})", models_of(field));
    std::string allowed = allowed_by(field), unset = format_value(field, defaults);
    for (const config::Field::Shared& other : field.shared) {
      const auto add = [&](std::string& text, const std::string& first, const std::string& own) {
        if (own != first) text += fmt::format("; {}: {}", other.family, own);
      };
      Config theirs = defaults;
      theirs.model.family = other.family;
      add(unset, format_value(field, defaults), format_value(field, theirs));
      add(allowed, allowed_by(field), allowed_by(field, other.family));
      add(description, std::string(field.description), std::string(other.description));
    }
    docs.push_back({.key = field.key,
                    .type = type_of(field),
                    .default_value = std::move(unset),
                    .allowed = std::move(allowed),
                    .description = std::move(description)});
  }
  return docs;
}

std::string field_table_markdown(const config::KeyTable& keys) {
  std::string table = "|Key|Default|Allowed|Meaning|\n|---|---|---|---|\n";
  for (const FieldDoc& doc : field_docs(keys)) {
    table += fmt::format("|`{}`|{}|{}|{}|\n", doc.key, cell(doc.default_value), cell(doc.allowed),
                         cell(doc.description));
  }
  return table;
}

}  // namespace trireme
