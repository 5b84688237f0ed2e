// SPDX-License-Identifier: Apache-2.0
// Config -> YAML, and the documentation of the keys.
#include "runtime/base/error.h"
#include "runtime/config/config.h"
#include "runtime/config/fields.h"
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

// The fields for which `wanted` holds.
template <typename Wanted>
std::string yaml_of(const Config& config, Wanted&& wanted) {
  std::string text;
  std::string_view section;
  for (const config::Field& field : config::all_fields()) {
    if (!wanted(field)) continue;
    if (field.section() != section) {
      section = field.section();
      if (!section.empty()) text += fmt::format("{}:\n", section);
    }
    text += fmt::format("{}{}: {}\n", section.empty() ? "" : "  ", field.name(),
                        format_value(field, config));
  }
  return text;
}

}  // namespace

std::string to_yaml(const Config& config) {
  return yaml_of(config, [](const config::Field&) { return true; });
}

std::string requested_yaml(const Config& config, const Provenance& where) {
  return yaml_of(with_absolute_paths(config), [&](const config::Field& field) {
    return field.key == "run.directory" || where.places.contains(field.key);
  });
}

std::vector<std::pair<std::string, std::string>> values_by_key(const Config& config) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const config::Field& field : config::all_fields())
    values.emplace_back(field.key, format_value(field, config));
  return values;
}

std::vector<FieldDoc> field_docs() {
  const Config defaults;
  std::vector<FieldDoc> docs;
  for (const config::Field& field : config::all_fields()) {
    std::string description(field.description);
    if (!field.only_with.key.empty())
      description += fmt::format(" ({} only)", field.only_with.value);
    if (!field.unbuilt.only.empty()) {
      description += fmt::format(" (this version: {} only)", field.unbuilt.only);
    }
    docs.push_back({.key = std::string(field.key),
                    .type = type_of(field),
                    .default_value = format_value(field, defaults),
                    .allowed = allowed_by(field),
                    .description = std::move(description)});
  }
  return docs;
}

std::string field_table_markdown() {
  std::string table = "| Key | Type | Default | Allowed | Meaning |\n|---|---|---|---|---|\n";
  for (const FieldDoc& doc : field_docs()) {
    table += fmt::format("| `{}` | {} | `{}` | {} | {} |\n", doc.key, doc.type, doc.default_value,
                         cell(doc.allowed), cell(doc.description));
  }
  return table;
}

}  // namespace trireme
