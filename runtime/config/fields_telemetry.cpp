// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/field_rows.h"

namespace trireme::config {

std::vector<Field> telemetry_fields() {
  return {
      FIELD(telemetry.tensorboard, Free{},
            "write event files for TensorBoard into run.directory: tensorboard --logdir"),
      FIELD(telemetry.histograms_every, IntegerRange{0, many},
            "steps between TensorBoard histograms of all weights, gradients and activations; 0 = "
            "none"),
      FIELD(telemetry.samples_every, IntegerRange{0, many},
            "steps between TensorBoard samples: continued texts, or images with predicted and true "
            "class; 0 = none"),
      FIELD(telemetry.prometheus, Free{},
            "keep metrics.prom in run.directory, for the textfile collector of node_exporter"),
      FIELD(telemetry.prometheus_port, IntegerRange{0, 65535},
            "port on which rank 0 answers Prometheus (/metrics); 0 = none"),
      FIELD(telemetry.prometheus_address, Text{.may_be_empty = false},
            "IPv4 address on which it does; 0.0.0.0 = on all interfaces"),
      FIELD(telemetry.health_minutes, NumberRange{.high = year_of_minutes},
            "minutes between self tests of all ranks, also at the start: a matmul with a known "
            "result and a timed exchange find slow or faulty ranks and hosts (exit code 5); 0 = "
            "never"),
      FIELD(telemetry.warning_minutes, NumberRange{.high = year_of_minutes},
            "minutes between two warnings of the same kind during a run: slow data or checkpoints, "
            "a gradient norm that spikes or is 0, a rising loss; 0 = no warnings"),
      FIELD(telemetry.weight_digests, IntegerRange{0, 1024},
            "digests of the weights in the certificate: tensors are split into this many groups, "
            "each step digests one group in turn, each checkpoint every tensor; 1 = all weights in "
            "every step, 0 = none"),
      FIELD(telemetry.tensor_digests, Free{},
            "add digests of every tensor to the certificate after every step: finds the first "
            "tensor that differs; slows steps"),
      FIELD(telemetry.trace, Text{},
            "steps to trace on all ranks, such as 10-12 or 10, into run.directory/trace; \"\" = "
            "none"),
      FIELD(telemetry.mllog, Text{},
            "file in run.directory for the log of MLPerf (:::MLLOG); \"\" = none"),
      FIELD(telemetry.mllog_benchmark, one_of<MlperfBenchmark>(),
            "MLPerf's benchmark, whose keys its log has"),
      FIELD(telemetry.mllog_submitter, (Text{.items = {0, 4}}),
            "[organization, platform, open or closed, onprem, cloud, preview or research]"),
  };
}

}  // namespace trireme::config
