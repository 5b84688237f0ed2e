// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::plan {

// The x below which a standard normal variable lies with this probability, 0 < probability < 1.
[[nodiscard]] double normal_quantile(double probability);
// Expected largest of `count` independent standard normal variables (Blom, 1958: within 1 %).
[[nodiscard]] double expected_largest(double count);

}  // namespace trireme::plan
