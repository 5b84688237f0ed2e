// SPDX-License-Identifier: Apache-2.0
// All keys of a program: this module's rows and those of its model families.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/config.h"
#include "runtime/config/fields.h"
#include "runtime/config/model_limits.h"
#include "runtime/config/target_spec.h"

namespace trireme::config {

struct Subject;

// A model family, as the module of the models describes it; this module knows nothing else of
// models.
struct ModelFamily {
  std::string_view name{};  // a value of model.family
  Input input = Input::tokens;
  bool splits_tensor = false;  // tensor ranks can split its layers
  // Whether its samples are volumes (D, H, W, C); null: never.
  bool (*volumes)(const ModelConfig& model) = nullptr;
  // Rows of the model section, made with TRIREME_MODEL_FIELD. Families may share a key: it is then
  // one row, that of the first family, and the defaults must be equal.
  std::vector<Field> (*fields)() = nullptr;
  // Checks rules between the family's own keys. Raises ExitCode::config through refuse().
  void (*check)(const Subject& subject) = nullptr;
  // Limits of the declared chain, after `check`. Allocates nothing.
  ModelLimits (*limits)(const Config& config) = nullptr;
  TargetSpec (*targets)(const ModelConfig& model) = nullptr;
};

class KeyTable {
 public:
  // The first family is the default of model.family.
  explicit KeyTable(std::vector<ModelFamily> families);

  // All rows, in the order of the structs; the rows of a section are adjacent.
  [[nodiscard]] std::span<const Field> fields() const { return fields_; }
  // The row of `key`, or null.
  [[nodiscard]] const Field* find(std::string_view key) const;
  // The row with this former key, or null.
  [[nodiscard]] const Field* find_former(std::string_view key) const;
  [[nodiscard]] bool is_section(std::string_view name) const;
  // Names allowed in `section` ("" = top level, with the section names).
  [[nodiscard]] std::vector<std::string_view> names_in(std::string_view section) const;

  [[nodiscard]] const ModelFamily& family_of(const Config& config) const;
  // "gpt2 or llama": the families in which such a row has a meaning.
  [[nodiscard]] std::string families_with(Needs needs) const;
  [[nodiscard]] const Config& defaults() const { return defaults_; }

 private:
  void add_family(const ModelFamily& family);

  std::vector<ModelFamily> families_;
  std::vector<Field> fields_;
  std::vector<std::size_t> by_key_;  // positions in fields_, by their keys
  Config defaults_;
};

// The value of the key that takes `field`'s meaning away in `config` ("cpu" of device.type); "" if
// none does, or if it is still open.
[[nodiscard]] std::string unmet_condition(const KeyTable& keys, const Field& field,
                                          const Config& config);

// Keys of earlier versions, so that old files, run directories and command lines can be read.
// Renamed keys are in their rows of the table (formerly_named() in fields.h); removed keys are
// here.
struct RemovedKey {
  std::string_view key;
  std::string_view only;     // the value that had no effect, as a scalar's text
  std::string_view instead;  // the replacement, which a notice names for other values
};

[[nodiscard]] std::span<const RemovedKey> removed_keys();
[[nodiscard]] const RemovedKey* find_removed(std::string_view key);
// Whether an earlier version had this section.
[[nodiscard]] bool is_removed_section(std::string_view name);

// The effect of command line overrides on other keys of the file.

// If an override leaves another key of the file without meaning (betas under --set
// optimizer.name=sgd, a warm-up longer than --set train.steps), that key is reset to its default or
// shortened, with a notice in `where`. Contradictions within the file or within the command line
// are left for the rules to refuse.
void settle_overridden(const KeyTable& keys, Config& config, Provenance& where);

}  // namespace trireme::config
