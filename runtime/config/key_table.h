// SPDX-License-Identifier: Apache-2.0
// The table of all keys of a program: this room's rows and those of the model families that it was
// built with.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/fields.h"
#include "runtime/config/model_limits.h"

namespace trireme::config {

struct Subject;

// What the room of the models tells of a family; all that this room knows of models.
struct ModelFamily {
  std::string_view name{};  // a value of model.family
  Input input = Input::tokens;
  bool splits_tensor = false;  // its layers can be split over tensor ranks
  // Rows of the model section, made with TRIREME_MODEL_FIELD. Families may share a key: it is one
  // row then, that of the first, and their defaults are equal.
  std::vector<Field> (*fields)() = nullptr;
  // The rules between the family's own keys. Raises ExitCode::config through refuse().
  void (*check)(const Subject& subject) = nullptr;
  // Of the declared chain; the keys have passed `check`. Nothing is allocated.
  ModelLimits (*limits)(const Config& config) = nullptr;
  std::int64_t (*targets_per_sample)(const ModelConfig& model) = nullptr;
};

class KeyTable {
 public:
  // The first family is the default of model.family.
  explicit KeyTable(std::vector<ModelFamily> families);

  // All rows, in the order of the structs; the rows of a section are adjacent.
  [[nodiscard]] std::span<const Field> fields() const { return fields_; }
  // The row of `key`, or null.
  [[nodiscard]] const Field* find(std::string_view key) const;
  // The row that `key` was the name of in earlier versions, or null.
  [[nodiscard]] const Field* find_former(std::string_view key) const;
  [[nodiscard]] bool is_section(std::string_view name) const;
  // Names that may stand inside `section` ("" = top level, which includes the sections).
  [[nodiscard]] std::vector<std::string_view> names_in(std::string_view section) const;

  [[nodiscard]] const ModelFamily& family_of(const Config& config) const;
  // "gpt2 or llama": the families for which such a row means something.
  [[nodiscard]] std::string families_with(Needs needs) const;
  [[nodiscard]] Config defaults() const;

 private:
  void add_family(const ModelFamily& family);

  std::vector<ModelFamily> families_;
  std::vector<Field> fields_;
};

}  // namespace trireme::config
