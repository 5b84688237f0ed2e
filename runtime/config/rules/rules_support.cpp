// SPDX-License-Identifier: Apache-2.0
// Options that this build, or the chosen model and optimizer, cannot honour.
#include <utility>

#include "runtime/config/batch_ramp.h"
#include "runtime/config/param_rules.h"
#include "runtime/config/rules/rules.h"
#include "runtime/config/value.h"

namespace trireme::config {
namespace {

void check_fused_epilogues(const Subject& subject) {
  const Config& config = subject.config;
  if (!config.device.fused_epilogues) return;
  constexpr std::string_view key = "device.fused_epilogues";
  if (subject.limits.gelu.value == 0 && !subject.limits.convolutions) {
    refuse(subject, key,
           "on is for the linear layers of transformer blocks and for convolutions, and "
           "model.family: {} has none that can be fused; use off",
           config.model.family);
  }
}

// Generation has no 8-bit matmuls.
void check_fp8_recipe(const Subject& subject) {
  const Config& config = subject.config;
  const int own = subject.environment.capability;
  if (config.device.type != DeviceChoice::cuda || own == 0 || subject.purpose == Purpose::generate)
    return;
  const bool hopper = own == 90, blackwell = own >= 100;
  const bool mxfp8 = config.fp8_recipe == Fp8Recipe::mxfp8;
  if (config.fp8_recipe == Fp8Recipe::tensor || (mxfp8 ? blackwell : hopper)) return;
  refuse(subject, "fp8_recipe",
         "{} needs a GPU of compute capability {}, and this one has {}.{}; use tensor{}",
         name_of(config.fp8_recipe), mxfp8 ? "10.0 or more (Blackwell)" : "9.0 (Hopper)", own / 10,
         own % 10,
         hopper      ? " or blockwise"
         : blackwell ? " or mxfp8"
                     : "");
}

}  // namespace

std::string value_of(const Subject& subject, std::string_view key) {
  const Field* const field = subject.keys.find(key);
  TRIREME_EXPECTS(field != nullptr, "{} is not in the table", key);
  return format_value(*field, subject.config);
}

void check_device(const Subject& subject) {
  const Config& config = subject.config;
  if (config.device.type == DeviceChoice::cuda && !subject.environment.cuda_in_build) {
    refuse(subject, "device.type",
           "cuda is part of the cuda backend, which this build lacks; use cpu or auto");
  }
  const CommConfig& comm = config.comm;
  const std::pair<std::string_view, std::int64_t> most[] = {{"comm.max_ctas", comm.max_ctas},
                                                            {"comm.link_ctas", comm.link_ctas},
                                                            {"comm.data_ctas", comm.data_ctas},
                                                            {"comm.tensor_ctas", comm.tensor_ctas}};
  for (const auto& [key, ctas] : most) {
    if (ctas > 0 && comm.min_ctas > ctas)
      refuse(subject, "comm.min_ctas", "{} is more than {} = {}", comm.min_ctas, key, ctas);
  }
}

// Sequences shorter than a row are separated like documents.
void check_context_ramp(const Subject& subject) {
  const Config& config = subject.config;
  constexpr std::string_view key = "train.context_ramp";
  if (config.train.context_ramp.empty()) return;
  if (!subject.limits.documents) {
    refuse(subject, key, "with model.family: {}, which has no sequences to cut; leave it out",
           config.model.family);
  }
  if (!subject.limits.whole_sequences.empty())
    refuse(subject, key, "with {}, which balances whole rows; use model.balance_loss, or no ramp",
           subject.limits.whole_sequences);
  std::string problem;
  const auto points = ramp_points(config.train.context_ramp, problem, "tokens");
  if (!problem.empty()) refuse(subject, key, "{}", problem);
  const std::int64_t context = subject.family().targets(config.model).shape.count();
  if (points.back().size != context) {
    refuse(subject, key, "ends with {} tokens, but model.context is {}; make them equal",
           points.back().size, context);
  }
  if (points.back().step >= config.train.steps) {
    refuse(subject, key,
           "grows to {} tokens at step {}, which a run of train.steps = {} does not reach; use an "
           "earlier step, or more steps",
           points.back().size, points.back().step, config.train.steps);
  }
}

void check_documents(const Subject& subject) {
  check_context_ramp(subject);
  const Documents documents = subject.config.data.documents;
  if (documents == Documents::joined || subject.limits.documents) return;
  refuse(subject, "data.documents",
         "{} needs causal attention over texts, which model.family: {} does not have; use joined",
         name_of(documents), subject.config.model.family);
}

void check_adapters(const Subject& subject) {
  const Config& config = subject.config;
  const LoraConfig& lora = config.lora;
  const std::vector<std::string>& known = subject.limits.adapted;
  if (lora.rank == 0) {
    if (lora != LoraConfig{})
      refuse(subject,
             lora.alpha != LoraConfig{}.alpha ? "lora.alpha"
             : lora.rslora                    ? "lora.rslora"
             : lora.dropout > 0               ? "lora.dropout"
             : lora.modules_to_save.empty()   ? "lora.targets"
                                              : "lora.modules_to_save",
             "has no effect with lora.rank: 0; give a rank, such as 8");
    return;
  }
  if (known.empty())
    refuse(subject, "lora.rank",
           "{} with model.family: {}; only the blocks of causal language models have low-rank "
           "factors, and the classifier of images or masked words would not be trained: use 0",
           lora.rank, config.model.family);
  if (subject.purpose == Purpose::train && config.train.initial_weights.empty())
    refuse(subject, "lora.rank",
           "{} without train.initial_weights: all weights except the factors would keep their "
           "random values; name the weights to begin with, or use 0",
           lora.rank);
  if (lora.targets.empty())
    refuse(subject, "lora.targets", "is empty; use some of {}", fmt::join(known, ", "));
  for (const std::string& target : lora.targets) {
    const std::string whole(whole_of(target));
    if (whole != target && std::ranges::find(lora.targets, whole) != lora.targets.end())
      refuse(subject, "lora.targets",
             "'{}' is a part of '{}', which has factors for all of it; "
             "leave out one of them",
             target, whole);
    if (std::ranges::find(known, target) != known.end()) continue;
    const bool of_experts =
        subject.limits.experts.value > 0 && (target == "expand" || target == "contract");
    refuse(subject, "lora.targets", "'{}' is not a linear layer of a block{}; use some of {}",
           target, of_experts ? " but of its experts, which have no factors" : "",
           fmt::join(known, ", "));
  }
}

void check_loss(const Subject& subject) {
  const TrainConfig& train = subject.config.train;
  const std::string& family = subject.config.model.family;
  const TargetKind kind = subject.family().targets(subject.config.model).kind;
  const bool of_pixels = train.loss == LossChoice::dice_cross_entropy;
  if (train.loss != LossChoice::automatic &&
      kind != (of_pixels ? TargetKind::pixels : TargetKind::values)) {
    refuse(subject, "train.loss",
           "{} is for models that {}, and model.family: {} predicts {}; use {}",
           name_of(train.loss), of_pixels ? "classify pixels" : "predict values", family,
           kind == TargetKind::values ? "values" : "classes by cross-entropy",
           kind == TargetKind::values   ? "auto, mse, mae or huber"
           : kind == TargetKind::pixels ? "auto or dice_cross_entropy"
                                        : "auto");
  }
  if (kind != TargetKind::values) return;
  for (const auto& [key, value] : {std::pair{"train.label_smoothing", train.label_smoothing},
                                   std::pair{"train.z_loss", train.z_loss}}) {
    if (value != 0)
      refuse(subject, key,
             "{} is for models that predict classes, and model.family: {} predicts values; use 0",
             value, family);
  }
}

void check_matmuls(const Subject& subject) {
  if (subject.config.precision == Precision::fp8 && !subject.limits.fp8) {
    refuse(subject, "precision",
           "fp8 is for the linear layers of transformer blocks, and model.family: {} has none; use "
           "bf16 or fp16",
           subject.config.model.family);
  }
  check_fp8_recipe(subject);
  check_fused_epilogues(subject);
}

void check_applicable(const Subject& subject) {
  const Config& defaults = subject.keys.defaults();
  for (const Field& field : subject.keys.fields()) {
    const std::string actual = unmet_condition(subject.keys, field, subject.config);
    if (actual.empty() || same_value(field, subject.config, defaults)) continue;
    const Condition& condition = field.only_with;
    refuse(subject, field.key, "{} has no effect with {}: {}, only with {}; remove it or use {}",
           format_value(field, subject.config), condition.key, actual, condition.any(),
           format_value(field, defaults));
  }
}

}  // namespace trireme::config
