// SPDX-License-Identifier: Apache-2.0
#include "models/heads/head_options.h"

#include <array>

namespace trireme {

TargetSpec head_targets(const HeadChoice& head, std::int64_t positions) {
  switch (head.kind) {
    case HeadKind::values:
      return {TargetKind::values, {head.outputs}, 0};
    case HeadKind::labels:
      return {TargetKind::values, {head.outputs}, head.outputs};
    case HeadKind::token_classes:
      return {TargetKind::token_classes, {positions}, head.outputs};
    default:
      return {TargetKind::label, {}, head.outputs};
  }
}

void check_head(const config::Subject& subject, const HeadChoice& head, bool of_texts) {
  const Config& config = subject.config;
  const bool known = of_texts || !(head.is_language() || head.of_tokens());
  if (!known)
    refuse(subject, "model.head", "{} of images; use classes, values or labels",
           name_of(head.kind));
  if (head.has_values() && (config.data.mixup > 0 || config.data.cutmix > 0))
    refuse(subject, config.data.mixup > 0 ? "data.mixup" : "data.cutmix",
           "with model.head: {}; only classes can be mixed: use 0", name_of(head.kind));
  if (head.kind == HeadKind::labels && config.train.loss != LossChoice::automatic)
    refuse(subject, "train.loss",
           "{} with model.head: labels, whose loss is binary cross-entropy "
           "of each label; use auto",
           name_of(config.train.loss));
  const bool classified = !config.data.path.empty() || !config.data.images.empty();
  if (!of_texts && head.has_values() && classified)
    refuse(subject, "model.head",
           "{} of images that have one class each; name HDF5 files with numbers by data.files and "
           "data.target",
           name_of(head.kind));
  if (of_texts && !head.is_language() && !config.train.context_ramp.empty())
    refuse(subject, "train.context_ramp",
           "with model.head: {}, where each sample is one text; leave it out", name_of(head.kind));
  if (of_texts && !head.is_language() && config.data.documents != Documents::joined)
    refuse(subject, "data.documents",
           "{} with model.head: {}, where each sample is one text; use joined",
           name_of(config.data.documents), name_of(head.kind));
}

}  // namespace trireme
