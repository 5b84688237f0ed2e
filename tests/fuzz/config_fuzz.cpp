// SPDX-License-Identifier: Apache-2.0
// A config file's text, and after a zero byte one --set override: either an error in the config, or
// a config that reads back equal and resolves.
#include <vector>

#include "runtime/config/config.h"
#include "runtime/config/key_table.h"
#include "tests/fuzz/fuzz_target.h"

using namespace trireme;

namespace {

// Replaces the models: this target is built from the config module alone.
struct Options {
  std::int64_t layers = 4, heads = 4, hidden = 256, context = 256;
  double init_std = 0.02;
  std::vector<std::int64_t> stages = {1, 1};
  friend bool operator==(const Options&, const Options&) = default;
};

std::vector<config::Field> fields() {
  using config::IntegerRange;
  return {TRIREME_MODEL_FIELD(Options, layers, (IntegerRange{1, 1024}), "layers"),
          TRIREME_MODEL_FIELD(Options, heads, (IntegerRange{1, 1024}), "heads"),
          TRIREME_MODEL_FIELD(Options, hidden, (IntegerRange{1, 65536}), "width"),
          TRIREME_MODEL_FIELD(Options, context, (IntegerRange{1, 1 << 20}), "tokens"),
          TRIREME_MODEL_FIELD(Options, init_std, (config::NumberRange{.low = 0, .high = 10}), "std")
              .formerly_named("model.init_deviation"),
          TRIREME_MODEL_FIELD(Options, stages, (IntegerRange{1, 1000, {1, 8}}), "stages")};
}

ModelLimits limits(const Config& config) {
  const auto& model = config.model.as<Options>();
  ModelLimits limits;
  limits.layers = model.layers + 2;
  limits.tensor = {{model.heads, "model.heads"}};
  limits.rows = {model.context, "model.context"};
  limits.gelu = {4 * model.hidden, "4 x model.hidden"};
  return limits;
}

const config::KeyTable& keys() {
  static const config::KeyTable table(
      {{.name = "gpt2",
        .splits_tensor = true,
        .fields = fields,
        .check = [](const config::Subject&) {},
        .limits = limits,
        .targets =
            [](const ModelConfig& model) {
              return TargetSpec{TargetKind::tokens, Shape{model.as<Options>().context}, 2};
            }},
       {.name = "resnet",
        .input = config::Input::images,
        .fields = fields,
        .check = [](const config::Subject&) {},
        .limits = limits,
        .targets =
            [](const ModelConfig&) {
              return TargetSpec{TargetKind::label, Shape{}, 2};
            }}});
  return table;
}

Config parse(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return parse_config(keys(), text, "fuzz.yaml", overrides, nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t cut = input.find('\0');
  std::vector<std::string> overrides;
  if (cut != std::string_view::npos) overrides.emplace_back(input.substr(cut + 1));

  Config config;
  const bool parsed = fuzz::accepts(
      ExitCode::config, [&] { config = parse(std::string(input.substr(0, cut)), overrides); });
  if (!parsed) return 0;
  fuzz::require(parse(to_yaml(keys(), config)) == config, "a printed config reads back as another");
  for (const int ranks : {1, 8}) {
    fuzz::accepts(ExitCode::config, [&] {
      const Config resolved =
          resolve_config(keys(), config, {.ranks = ranks}, nullptr, Purpose::train);
      fuzz::require(parse(to_yaml(keys(), resolved)) == resolved,
                    "a resolved config reads back as another");
    });
  }
  return 0;
}
