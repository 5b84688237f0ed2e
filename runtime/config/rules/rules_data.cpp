// SPDX-License-Identifier: Apache-2.0
// What the models are fed.
#include "runtime/config/rules/rules.h"

namespace trireme::config {

void check_data(const Subject& subject) {
  const DataConfig& data = subject.config.data;
  if (subject.purpose == Purpose::train && data.path.empty()) {
    refuse(subject, "data.path",
           "not set; give packed shards, made with trireme data pack-text or pack-images");
  }
  if (subject.purpose == Purpose::evaluate && data.validation_path.empty()) {
    refuse(subject, "data.validation_path",
           "not set; give the packed shards to evaluate on with --data DIRECTORY");
  }
}

}  // namespace trireme::config
