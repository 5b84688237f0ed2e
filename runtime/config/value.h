// SPDX-License-Identifier: Apache-2.0
// Converts one value from a YAML node to its member, and back to YAML text.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/config/fields.h"
#include "runtime/config/yaml/document.h"

namespace trireme::config {

// Checks `node` against `limits` and the type of the member behind `slot`, and stores it there; for
// the readers of other files. Raises as below.
void read_value(const Node& node, const Slot& slot, const Limits& limits, const std::string& place);

// Checks `node` against the type and limits of `field` and stores it in `config`, for every family
// that shares the key. Raises ExitCode::config, prefixed with `place` ("a.yaml:3: train.steps").
// For a shared key the errors are returned by family instead, because the family may be read later.
using Refusals = std::map<std::string_view, Error>;
[[nodiscard]] Refusals assign(const Field& field, const Node& node, Config& config,
                              const std::string& place);

// The value of `field` as YAML that assign reads back to the same value.
[[nodiscard]] std::string format_value(const Field& field, const Config& config);
// Whether both have the same value of `field`.
[[nodiscard]] bool same_value(const Field& field, const Config& a, const Config& b);

// "integer", "number", "boolean", "text", "list of integers", "list of numbers",
// "list of texts".
[[nodiscard]] std::string type_of(const Field& field);
// "cpu | cuda | auto", "1 to 1024", "2 values >= 0 and < 1"; "" when free.
[[nodiscard]] std::string allowed_by(const Field& field, std::string_view family = {});

}  // namespace trireme::config
