// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace trireme::report {

// The table of metrics (runtime/telemetry/metric_table.h) for a terminal: name, unit, kind,
// meaning.
[[nodiscard]] std::string metrics_text();

}  // namespace trireme::report
