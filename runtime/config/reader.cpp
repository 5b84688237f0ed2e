// SPDX-License-Identifier: Apache-2.0
// YAML tree and --set overrides -> Config.
#include <filesystem>
#include <mutex>
#include <set>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/config/config.h"
#include "runtime/config/document.h"
#include "runtime/config/fields.h"
#include "runtime/config/overridden.h"
#include "runtime/config/paths.h"
#include "runtime/config/scalar.h"
#include "runtime/config/suggest.h"
#include "runtime/config/text_check.h"
#include "runtime/config/value.h"

namespace trireme {
namespace config {
namespace {

std::string place_in_file(std::string_view name, int line, std::string_view key) {
  return fmt::format("{}:{}: {}", name, line, printable(key));
}

void read_key(const std::string& key, const Node& node, int line, std::string_view name,
              Config& config, Provenance& where) {
  const std::string place = place_in_file(name, line, key);
  const Field* const field = find_field(key);
  if (field == nullptr)
    fail(ExitCode::config, "{}: unknown key; {}", place, advice_for_unknown_key(key));
  assign(*field, node, config, place);
  where.places[key] = place;
}

void read_section(const std::string& section, const Node& node, int line, std::string_view name,
                  Config& config, Provenance& where) {
  if (node.kind == Node::Kind::null) return;  // every key commented out
  if (node.kind != Node::Kind::map) {
    const std::string_view first = names_in(section).front();
    fail(ExitCode::config, "{}: expected a section of keys such as {}, found {}",
         place_in_file(name, line, section), first, describe(node));
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    read_key(fmt::format("{}.{}", section, node.keys[i]), node.items[i], node.key_lines[i], name,
             config, where);
  }
}

void refuse_dotted_key(const std::string& key, int line, std::string_view name) {
  const Field* const field = find_field(key);
  if (field == nullptr || field->section().empty()) return;
  fail(ExitCode::config, "{}: keys stand inside their section; write {}: {{{}: ...}}",
       place_in_file(name, line, key), field->section(), field->name());
}

void read_root(const Node& root, std::string_view name, Config& config, Provenance& where) {
  if (root.kind == Node::Kind::null) {
    fail(ExitCode::config,
         "{}: the config is empty; it needs at least data.path, see configs/ for examples", name);
  }
  if (root.kind != Node::Kind::map) {
    fail(ExitCode::config,
         "{}:{}: expected sections and keys such as \"train: {{steps: 1000}}\", found {}", name,
         root.line, describe(root));
  }
  for (std::size_t i = 0; i < root.items.size(); ++i) {
    const std::string& key = root.keys[i];
    if (is_section(key)) {
      read_section(key, root.items[i], root.key_lines[i], name, config, where);
    } else {
      refuse_dotted_key(key, root.key_lines[i], name);
      read_key(key, root.items[i], root.key_lines[i], name, config, where);
    }
  }
}

// The shell has already undone its quoting, so a value is taken as typed; only lists and quoted
// text are YAML.
Node override_value(std::string_view text, bool is_text, const std::string& place) {
  const bool is_yaml =
      !text.empty() && (text[0] == '[' || text[0] == '{' || text[0] == '"' || text[0] == '\'');
  if (is_yaml) return parse_document(text, place);
  check_text(text, place);
  if (text.empty() && !is_text) return Node{};
  return Node{.kind = Node::Kind::scalar, .text = std::string(text)};
}

void apply_override(const std::string& text, Config& config, Provenance& where) {
  const std::string place = fmt::format("--set {}", printable(text));
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail(ExitCode::config, "{}: expected key.path=value, for example --set train.steps=50", place);
  }
  const std::string key = text.substr(0, equals);
  if (is_section(key)) {
    fail(ExitCode::config, "{}: {} is a section; set one of its keys, for example --set {}.{}=...",
         place, key, key, names_in(key).front());
  }
  const Field* const field = find_field(key);
  if (field == nullptr) {
    fail(ExitCode::config, "{}: unknown key {}; {}", place, printable(key),
         advice_for_unknown_key(key));
  }
  const bool is_text = visit_value(*field, config, [](const auto& value) {
    return std::is_same_v<std::decay_t<decltype(value)>, std::string>;
  });
  assign(*field, override_value(std::string_view(text).substr(equals + 1), is_text, place), config,
         place);
  where.places[key] = place;
  where.overridden.insert(key);
}

Config read_all(const std::string& text, const std::string& name,
                const std::vector<std::string>& overrides, Provenance& where) {
  Config config;
  where = Provenance{.file = name, .places = {}, .overridden = {}, .notices = {}};
  read_root(parse_document(text, name), name, config, where);
  for (const std::string& item : overrides)
    apply_override(item, config, where);
  settle_overridden(config, where);
  return config;
}

// Commands that read one file for many purposes say it once.
void log_once(const std::vector<std::string>& notices) {
  static std::mutex mutex;
  static std::set<std::string> said;
  const std::lock_guard lock(mutex);
  for (const std::string& notice : notices) {
    if (said.insert(notice).second) log::get("config").info(notice);
  }
}

}  // namespace
}  // namespace config

std::string Provenance::describe(std::string_view key) const {
  if (const auto found = places.find(key); found != places.end()) return found->second;
  return file.empty() ? std::string(key) : fmt::format("{}: {}", file, key);
}

Config parse_config(const std::string& text, const std::string& name,
                    const std::vector<std::string>& overrides, Provenance* where) {
  Provenance places;
  Config result = config::read_all(text, name, overrides, places);
  if (where != nullptr) *where = std::move(places);
  return result;
}

Config load_config(const std::string& path, const std::vector<std::string>& overrides,
                   Provenance* where) {
  Provenance places;
  Config result = parse_config(config::read_text_file(path), path, overrides, &places);
  config::log_once(places.notices);
  if (where != nullptr) *where = std::move(places);
  const auto beside = std::filesystem::path(path).parent_path();
  for (std::string* const input : config::input_paths(result))
    config::resolve_path(*input, beside);
  return result;
}

}  // namespace trireme
