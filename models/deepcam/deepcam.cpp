// SPDX-License-Identifier: Apache-2.0
#include "models/deepcam/deepcam.h"

#include "models/deepcam/layers.h"
#include "models/fields/pixel_config.h"

namespace trireme {

Chain deepcam_chain(const DeepCamOptions& options, bool dice) {
  Chain chain;
  const auto add = [&](ChainLayer layer) {
    layer.block = true;
    chain.push_back(std::move(layer));
  };
  const auto sequence = [&](const std::string& name, const SequenceLayer::Declare& declare) {
    add(in_scope<SequenceLayer>(name, name, declare));
  };
  auto block = [&, blocks = 0](const XceptionBlockOptions& of) mutable {
    const std::string name = fmt::format("blocks.{}", blocks++);
    add(in_scope<XceptionBlock>(name, name, of));
  };
  const std::int64_t decoded = options.scaled(256), low_level = options.scaled(48);
  // To the extents after this many halvings.
  const auto doubled = [&](const std::string& name, int halvings) {
    const std::int64_t height = ((options.image_size - 1) >> halvings) + 1;
    const std::int64_t width = ((options.width() - 1) >> halvings) + 1;
    sequence(name, [=](Sequence& up) {
      doubling(up, "convolution", {up.output_shape()[0], height, width, decoded}).norm("norm");
    });
  };

  sequence("stem", [=](Sequence& stem) {
    const std::int64_t filters = options.filters;
    stem.of_batch(options.image_size, options.width(), options.channels)
        .convolution("convolution1", filters, 3, 2, {.init = kaiming(9 * options.channels)})
        .norm("norm1")
        .convolution("convolution2", 2 * filters, 3, 1, {.init = kaiming(9 * filters)})
        .norm("norm2");
  });
  block({.outputs = options.scaled(128), .norms = 2, .stride = 2, .low_level = low_level});
  block({.outputs = options.scaled(256), .norms = 2, .stride = 2});
  block({.outputs = options.scaled(728), .norms = 2, .stride = 2});
  for (std::int64_t i = 0; i < options.middle_blocks; ++i)
    block({.outputs = options.scaled(728), .norms = 3});
  block({.outputs = options.scaled(1024), .norms = 2, .grows_first = false, .relu = false});
  int exits = 0;
  for (const std::int64_t channels : {1536, 1536, 2048}) {
    sequence(fmt::format("exit.{}", exits++), [=](Sequence& exit) {
      separable(exit, "separable", options.scaled(channels), 1, /*dilation=*/2).norm("norm");
    });
  }
  add(in_scope<DeepCamPyramid>("pyramid", "pyramid", decoded));
  doubled("up.0", 3);
  doubled("up.1", 2);
  sequence("decoder", [=](Sequence& decoder) {
    decoder
        .with_skip("convolution1", "low_level", decoded,
                   {.init = uniform_over(9 * (decoded + low_level))})
        .norm("norm1")
        .convolution("convolution2", decoded, 3, 1, {.init = uniform_over(9 * decoded)})
        .norm("norm2")
        .convolution("convolution3", decoded, 1, 1,
                     {.init = uniform_over(decoded), .bias = uniform_over(decoded)});
  });
  doubled("up.2", 1);
  chain.push_back(in_scope<DeepCamHead>("", options, dice));
  return chain;
}

namespace {

using config::IntegerRange;

constexpr std::int64_t most_filters = 1024;  // 64 times as many before the pyramid

#define DEEPCAM_FIELD(name, ...) TRIREME_MODEL_FIELD(DeepCamOptions, name, __VA_ARGS__)

std::vector<config::Field> deepcam_fields() {
  return pixel_fields<DeepCamOptions>({
      DEEPCAM_FIELD(filters, IntegerRange{1, 4096},
                    "channels of the first convolution or level; others have multiples"),
      DEEPCAM_FIELD(middle_blocks, IntegerRange{0, 1024},
                    "equal blocks in the middle of the encoder"),
  });
}

void check_deepcam(const config::Subject& subject) {
  const auto& model = subject.config.model.as<DeepCamOptions>();
  check_pixels(subject, model);
  // Two rows, so that no norm sees a single value.
  constexpr std::int64_t least = 17;
  for (const auto& [key, extent] : {std::pair{"model.image_size", model.image_size},
                                    std::pair{"model.image_width", model.width()}}) {
    if (extent < least)
      refuse(subject, key, "{} is one pixel after four halvings; use {} or more", extent, least);
  }
  if (model.filters > most_filters) {
    refuse(subject, "model.filters", "{} grow to {}, more than {}; use {} or less", model.filters,
           64 * model.filters, 64 * most_filters, most_filters);
  }
}

}  // namespace

config::ModelFamily deepcam_family() {
  return {.name = deepcam_name,
          .input = config::Input::fields,
          .fields = deepcam_fields,
          .check = check_deepcam,
          .limits = [](const Config& config) { return limits_of(deepcam_chain(config)); },
          .targets = pixels_of<DeepCamOptions>};
}

Chain deepcam_chain(const Config& config) {
  return deepcam_chain(config.model.as<DeepCamOptions>(),
                       config.train.loss == LossChoice::dice_cross_entropy);
}

}  // namespace trireme
