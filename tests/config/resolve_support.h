// SPDX-License-Identifier: Apache-2.0
// Texts through resolve_config.
#pragma once

#include "tests/config/support.h"

namespace trireme {

inline const std::string gpt = "data: {path: shards}\n";
inline const std::string resnet = "model: {family: resnet}\ndata: {path: shards}\n";

inline Config resolved(const std::string& text, const std::vector<std::string>& overrides = {},
                       const Environment& place = {}, Purpose purpose = Purpose::train) {
  Provenance where;
  const Config config = parse_config(text, "a.yaml", overrides, &where);
  return resolve_config(config, place, &where, purpose);
}

inline std::string refusal(const std::string& text, const std::vector<std::string>& overrides = {},
                           const Environment& place = {}, Purpose purpose = Purpose::train) {
  return config_error([&] { return resolved(text, overrides, place, purpose); });
}

inline Environment ranks(int count) {
  return {.ranks = count};
}

}  // namespace trireme
