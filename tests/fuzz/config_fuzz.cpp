// SPDX-License-Identifier: Apache-2.0
// Text of a config file, and after a zero byte one --set override: a config that prints to itself
// and resolves, or an error in the config.
#include <vector>

#include "runtime/config/config.h"
#include "tests/fuzz/fuzz_target.h"

using namespace trireme;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t cut = input.find('\0');
  std::vector<std::string> overrides;
  if (cut != std::string_view::npos) overrides.emplace_back(input.substr(cut + 1));

  Config config;
  const bool parsed = fuzz::accepts(ExitCode::config, [&] {
    config = parse_config(std::string(input.substr(0, cut)), "fuzz.yaml", overrides);
  });
  if (!parsed) return 0;
  fuzz::require(parse_config(to_yaml(config), "printed.yaml", {}) == config,
                "a printed config reads back as another");
  for (const int ranks : {1, 8}) {
    fuzz::accepts(ExitCode::config, [&] {
      const Config resolved = resolve_config(config, {.ranks = ranks});
      fuzz::require(parse_config(to_yaml(resolved), "resolved.yaml", {}) == resolved,
                    "a resolved config reads back as another");
    });
  }
  return 0;
}
