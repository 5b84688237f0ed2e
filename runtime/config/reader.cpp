// SPDX-License-Identifier: Apache-2.0
// YAML tree and --set overrides -> Config.
#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "runtime/base/error.h"
#include "runtime/base/log.h"
#include "runtime/config/base_files.h"
#include "runtime/config/config.h"
#include "runtime/config/key_table.h"
#include "runtime/config/paths.h"
#include "runtime/config/rules/error_list.h"
#include "runtime/config/suggest.h"
#include "runtime/config/value.h"
#include "runtime/config/yaml/document.h"
#include "runtime/config/yaml/scalar.h"
#include "runtime/config/yaml/text_check.h"

namespace trireme {
namespace config {
namespace {

std::string place_in_file(std::string_view name, int line, std::string_view key) {
  return fmt::format("{}:{}: {}", name, line, printable(key));
}

// The shell has removed its quoting, so a value is taken literally; only lists and quoted text are
// YAML.
Node override_value(std::string_view text, bool is_text, const std::string& place) {
  const bool is_yaml =
      !text.empty() && (text[0] == '[' || text[0] == '{' || text[0] == '"' || text[0] == '\'');
  if (is_yaml) return parse_document(text, place);
  check_text(text, place);
  if (text.empty() && !is_text) return Node{};
  return Node{.kind = Node::Kind::scalar, .text = std::string(text)};
}

class ConfigReader {
 public:
  explicit ConfigReader(const KeyTable& keys) : keys_(keys), config_(keys.defaults()) {}

  void read(const ConfigFile& file);
  void apply(const std::vector<std::string>& overrides);
  // Resolves input paths relative to `directory` if they are not in the current one.
  void find_paths(const std::filesystem::path& directory) {
    for (std::string* const input : input_paths(config_))
      resolve_path(*input, directory);
  }
  // Returns the config, and the places of its keys in `where`.
  Config finish(Provenance& where);

 private:
  // A key as typed, with its place.
  struct Given {
    std::string key;
    std::string place;  // "a.yaml:3: train.steps" | "--set train.steps=5"
  };

  void read_root(const Node& root);
  void apply_override(const std::string& text);
  void read_section(const std::string& section, const Node& node, int line);
  void read_key(const std::string& key, const Node& node, int line);
  void refuse_dotted_key(const std::string& key, int line) const;
  // Runs `read`, which reads `key`, and keeps its error.
  template <typename Read>
  void attempt(std::string_view key, Read&& read) {
    const bool good = errors_.attempt(std::forward<Read>(read));
    knows_family_ = knows_family_ && (good || key != "model.family");
  }
  // The row of a key, by its present or former name; null for none.
  const Field* find(const Given& given);
  void refuse_twice(const Field& field, const Given& given);
  // Whether the key was removed; notes it if so.
  bool is_removed(const Given& given, const Node& value);

  const KeyTable& keys_;
  std::string name_;  // of the file being read
  Config config_;
  Provenance where_;
  int hand_ = -1;                            // files count from 0; the command line comes last
  std::map<std::string, Given> given_;       // this hand's keys by present name
  std::map<std::string, Refusals> refused_;  // by key
  std::string removed_;                      // "telemetry.wandb, telemetry.mlflow"
  ErrorList errors_;
  bool knows_family_ = true;
};

const Field* ConfigReader::find(const Given& given) {
  if (const Field* const field = keys_.find(given.key)) return field;
  const Field* const field = keys_.find_former(given.key);
  if (field != nullptr) {
    where_.notices.push_back(fmt::format("{}: this key is now called {}; the old name still works",
                                         given.place, field->key));
  }
  return field;
}

void ConfigReader::refuse_twice(const Field& field, const Given& given) {
  const auto [before, fresh] = given_.try_emplace(field.key, given);
  if (fresh || before->second.key == given.key) return;
  fail(ExitCode::config, "{}: the same key as {}, under its {} name; keep {}", given.place,
       before->second.place, given.key == field.key ? "old" : "new", field.key);
}

bool ConfigReader::is_removed(const Given& given, const Node& value) {
  const RemovedKey* const gone = find_removed(given.key);
  if (gone == nullptr) return false;
  if (value.kind != Node::Kind::scalar || value.text != gone->only) {
    where_.notices.push_back(
        fmt::format("{}: ignored; this key was removed, use {}", given.place, gone->instead));
    return true;
  }
  removed_ += fmt::format("{}{}", removed_.empty() ? "" : ", ", given.key);
  return true;
}

void ConfigReader::read_key(const std::string& key, const Node& node, int line) {
  const Given given{key, place_in_file(name_, line, key)};
  if (is_removed(given, node)) return;
  const Field* const field = find(given);
  if (field == nullptr)
    fail(ExitCode::config, "{}: unknown key; {}", given.place, advice_for_unknown_key(keys_, key));
  refuse_twice(*field, given);
  refused_[field->key] = assign(*field, node, config_, given.place);
  where_.places[field->key] = given.place;
  where_.hands[field->key] = hand_;
}

void ConfigReader::read_section(const std::string& section, const Node& node, int line) {
  if (node.kind == Node::Kind::null) return;  // every key is commented out
  if (node.kind != Node::Kind::map) {
    const auto names = keys_.names_in(section);
    fail(ExitCode::config, "{}: expected a section of keys{}, found {}",
         place_in_file(name_, line, section),
         names.empty() ? "" : fmt::format(" such as {}", names.front()), describe(node));
  }
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string key = fmt::format("{}.{}", section, node.keys[i]);
    attempt(key, [&] { read_key(key, node.items[i], node.key_lines[i]); });
  }
}

void ConfigReader::refuse_dotted_key(const std::string& key, int line) const {
  const Field* const field = keys_.find(key);
  if (field == nullptr || field->section().empty()) return;
  fail(ExitCode::config, "{}: a key must be inside its section; write {}: {{{}: ...}}",
       place_in_file(name_, line, key), field->section(), field->name());
}

void ConfigReader::read_root(const Node& root) {
  if (root.kind == Node::Kind::null) {
    fail(ExitCode::config,
         "{}: the config is empty; it needs at least data.path, see configs/ for examples", name_);
  }
  if (root.kind != Node::Kind::map) {
    fail(ExitCode::config,
         "{}:{}: expected sections and keys such as \"train: {{steps: 1000}}\", found {}", name_,
         root.line, describe(root));
  }
  for (std::size_t i = 0; i < root.items.size(); ++i) {
    const std::string& key = root.keys[i];
    attempt(key, [&] {
      if (keys_.is_section(key) || is_removed_section(key))
        return read_section(key, root.items[i], root.key_lines[i]);
      refuse_dotted_key(key, root.key_lines[i]);
      read_key(key, root.items[i], root.key_lines[i]);
    });
  }
}

void ConfigReader::read(const ConfigFile& file) {
  name_ = where_.file = file.name;
  ++hand_;
  given_.clear();  // from the previous hand
  read_root(file.root);
}

void ConfigReader::apply(const std::vector<std::string>& overrides) {
  ++hand_;
  given_.clear();
  for (const std::string& item : overrides)
    attempt(item.substr(0, item.find('=')), [&] { apply_override(item); });
}

void ConfigReader::apply_override(const std::string& text) {
  const std::string place = fmt::format("--set {}", printable(text));
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    fail(ExitCode::config, "{}: expected key.path=value, for example --set train.steps=50", place);
  }
  const Given given{text.substr(0, equals), place};
  const std::string_view value = std::string_view(text).substr(equals + 1);
  if (keys_.is_section(given.key)) {
    fail(ExitCode::config, "{}: {} is a section; set one of its keys, for example --set {}.{}=...",
         place, given.key, given.key, keys_.names_in(given.key).front());
  }
  if (find_removed(given.key) != nullptr) {
    static_cast<void>(is_removed(given, override_value(value, /*is_text=*/true, place)));
    return;
  }
  const Field* const field = find(given);
  if (field == nullptr) {
    fail(ExitCode::config, "{}: unknown key {}; {}", place, printable(given.key),
         advice_for_unknown_key(keys_, given.key));
  }
  refuse_twice(*field, given);
  const auto* const limits = std::get_if<Text>(&field->limits);
  const bool is_text = visit_value(*field, config_, [&](const auto& member) {
    return std::is_convertible_v<decltype(member), std::string_view> ||
           (limits != nullptr && limits->plain);
  });
  refused_[field->key] = assign(*field, override_value(value, is_text, place), config_, place);
  where_.places[field->key] = place;
  where_.hands[field->key] = hand_;
  where_.overridden.insert(field->key);
}

Config ConfigReader::finish(Provenance& where) {
  if (!removed_.empty()) {
    where_.notices.push_back(
        fmt::format("{}: {}: ignored; these keys were removed", name_, removed_));
  }
  for (const auto& [key, refused] : refused_) {
    if (!knows_family_) break;
    const bool has_key = keys_.find(key)->only_with.allows(config_.model.family);
    const auto found = has_key ? refused.find(config_.model.family) : refused.begin();
    if (found != refused.end()) errors_.add(found->second);
  }
  errors_.raise();
  settle_overridden(keys_, config_, where_);
  where = std::move(where_);
  return std::move(config_);
}

// Commands that read a file several times log it once.
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

Config parse_config(const config::KeyTable& keys, const std::string& text, const std::string& name,
                    const std::vector<std::string>& overrides, Provenance* where) {
  config::ConfigReader reader(keys);
  const config::ConfigFile file{name, config::parse_document(text, name)};
  config::refuse_base(file.root, name);
  reader.read(file);
  reader.apply(overrides);
  Provenance places;
  Config result = reader.finish(places);
  if (where != nullptr) *where = std::move(places);
  return result;
}

namespace {

// The model section of the run in train.initial_weights, for keys that the config leaves out: the
// same weights with other keys are another model. If that run is gone and this one continues, this
// run's own.
std::optional<config::ConfigFile> model_of_weights(const Config& config) {
  const std::string& weights = config.train.initial_weights;
  std::string path = config_of_weights(weights);
  std::error_code ignored;
  if (path.empty() && !weights.empty() && !std::filesystem::exists(weights, ignored))
    path = config_of_weights(config.run.directory);
  if (path.empty()) return std::nullopt;
  config::ConfigFile file{path, config::parse_document(config::read_text_file(path), path)};
  const auto model = std::ranges::find(file.root.keys, "model");
  if (file.root.kind != config::Node::Kind::map || model == file.root.keys.end())
    return std::nullopt;
  const auto at = static_cast<std::size_t>(model - file.root.keys.begin());
  file.root.items = {file.root.items[at]};
  file.root.key_lines = {file.root.key_lines[at]};
  file.root.keys = {"model"};
  return file;
}

}  // namespace

Config load_config(const config::KeyTable& keys, const std::string& path,
                   const std::vector<std::string>& overrides, Provenance* where) {
  const std::vector<config::ConfigFile> files = config::read_with_bases(path);
  const auto read = [&](const std::optional<config::ConfigFile>& model, Provenance& places) {
    config::ConfigReader reader(keys);
    if (model) reader.read(*model);
    for (const config::ConfigFile& file : files) {
      reader.read(file);
      reader.find_paths(file.directory());
    }
    reader.apply(overrides);
    reader.find_paths(files.back().directory());
    return reader.finish(places);
  };
  Provenance places;
  Config result = read(std::nullopt, places);
  try {
    if (const auto model = model_of_weights(result)) result = read(model, places);
  } catch (const Error&) {  // no reason to refuse the config of a complete run
    if (!places.places.contains("model.family")) throw;
  }
  config::log_once(places.notices);
  if (where != nullptr) *where = std::move(places);
  return result;
}

}  // namespace trireme
