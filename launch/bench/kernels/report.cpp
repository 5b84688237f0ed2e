// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/kernels/step_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launch/plan/message_ctas.h"
#include "launch/plan/step_plan.h"
#include "models/config.h"

namespace trireme::kernel_bench {
namespace {

using json = nlohmann::ordered_json;

// The printed share of a pass: per micro-batch, or per step.
struct Part {
  std::string title;
  bool repeated;
  double share;
};

void add_operation(std::string& text, const OperationCount& each, const Part& part, bool launches,
                   double seconds) {
  const auto of = [&](std::int64_t count) {
    return fmt::format("{:.6g}", part.share * static_cast<double>(count));
  };
  const double mb = 1e-6 * part.share;
  text += fmt::format("{:10} {:12} {:32} {:>8} {:>8} {:>10.3f} {:>10.3f} {:>10.3f} {:>9.4f}\n",
                      each.pass, each.layer, each.name, of(each.calls),
                      launches ? of(each.launches()) : "-", mb * each.traffic.read,
                      mb * each.traffic.written, 1e-9 * part.share * each.traffic.flops,
                      1e3 * part.share * seconds);
  for (const KernelCount& kernel : each.kernels) {
    if (kernel.kind != WorkKind::kernel && kernel.kind != WorkKind::library) {
      if (kernel.kind == WorkKind::message)
        text += fmt::format("{:26}{} x {}, {:.3f} MB sent\n", "", of(kernel.calls), kernel.name,
                            mb * kernel.bytes);
      continue;
    }
    text += fmt::format("{:26}{} x {}", "", of(kernel.calls), kernel.name);
    if (kernel.launches > kernel.calls)
      text += fmt::format(" ({} kernels each)", kernel.launches / kernel.calls);
    if (kernel.kind == WorkKind::kernel)
      text += fmt::format(", {} blocks of {}", kernel.grid.blocks, kernel.grid.threads);
    text += '\n';
  }
}

// A line per kind of layer, in the order of their first operations.
void add_layers(std::string& text, const StepCount& count, const Part& part, Precision precision,
                const plan::Hardware& hardware) {
  struct Layer {
    std::string name;
    double launches = 0, bytes = 0, flops = 0, seconds = 0;
  };
  std::vector<Layer> layers;
  for (const OperationCount& each : count.operations) {
    if (repeats(each) != part.repeated || each.layer.empty()) continue;
    auto found = std::ranges::find(layers, each.layer, &Layer::name);
    if (found == layers.end()) found = layers.insert(found, {.name = each.layer});
    found->launches += part.share * static_cast<double>(each.launches());
    found->bytes += part.share * (each.traffic.read + each.traffic.written);
    found->flops += part.share * each.traffic.flops;
    found->seconds += part.share * roofline_seconds(each, precision, hardware);
  }
  for (const Layer& layer : layers)
    text += fmt::format("{}: {} launches, {:.3f} GB, {:.1f} GFLOP, {:.3f} ms\n", layer.name,
                        count.launches ? fmt::format("{:.6g}", layer.launches) : "-",
                        1e-9 * layer.bytes, 1e-9 * layer.flops, 1e3 * layer.seconds);
}

void add_part(std::string& text, const StepCount& count, const Part& part, Precision precision,
              const plan::Hardware& hardware) {
  text += fmt::format("\n{}\n{:10} {:12} {:32} {:>8} {:>8} {:>10} {:>10} {:>10} {:>9}\n",
                      part.title, "pass", "layer", "operation", "calls", "launches", "MB read",
                      "MB written", "GFLOP", "ms");
  double seconds = 0;
  for (const OperationCount& each : count.operations) {
    if (repeats(each) != part.repeated) continue;
    const double own = roofline_seconds(each, precision, hardware);
    seconds += part.share * own;
    add_operation(text, each, part, count.launches, own);
  }
  add_layers(text, count, part, precision, hardware);
  const Totals sum = part.repeated ? micro_batch_totals(count) : step_totals(count);
  text += fmt::format(
      "total: {} launches, {} calls of the host, {:.3f} GB read, {:.3f} GB written, {:.1f} GFLOP, "
      "{:.3f} ms\n",
      count.launches ? fmt::format("{:.6g}", sum.launches) : "-",
      count.launches ? fmt::format("{:.6g}", sum.host_calls) : "-", 1e-9 * sum.read,
      1e-9 * sum.written, 1e-9 * sum.flops, 1e3 * seconds);
}

void add_messages(std::string& text, const StepCount& count) {
  const std::vector<KernelCount> all = messages(count);
  if (all.empty()) return;
  text += fmt::format("\n{:36} {:>8} {:>12}\n", "messages of a step", "calls", "MB sent");
  for (const KernelCount& each : all)
    text += fmt::format("{:36} {:>8} {:>12.3f}\n", each.name, each.calls, 1e-6 * each.bytes);
}

constexpr std::string_view without_launches =
    "\nLaunches need the CUDA back end, which this build lacks: configure with --preset cuda (no "
    "GPU is needed to count), or use tests/trireme_emulated of this build.\n";

constexpr std::string_view assumptions =
    "\nBytes: what the operations' kernels read and write of their operands, each kernel's pass "
    "counted, scratch memory not; for messages what the rank sends, for collectives in rings. "
    "cuDNN is assumed to have a plan for every 16-bit attention and every convolution, cuBLASLt to "
    "have every epilogue; kernels within their calls are those that profiles show "
    "(scripts/measurements/kernel_counts.txt).\n";

json traffic_json(const Traffic& traffic) {
  return {
      {"read_bytes", traffic.read}, {"written_bytes", traffic.written}, {"flops", traffic.flops}};
}

json totals_json(const Totals& totals, bool launches) {
  return {{"launches", launches ? json(totals.launches) : json(nullptr)},
          {"host_calls", launches ? json(totals.host_calls) : json(nullptr)},
          {"read_bytes", totals.read},
          {"written_bytes", totals.written},
          {"flops", totals.flops}};
}

}  // namespace

double roofline_seconds(const OperationCount& operation, Precision precision,
                        const plan::Hardware& hardware) {
  double seconds = 0;
  for (const Traffic& each : operation.single)
    seconds += plan::seconds_of(each, precision, hardware);
  if (operation.single.empty())  // copies and fills
    seconds = plan::seconds_of(operation.traffic, precision, hardware);
  return seconds;
}

std::string describe(const StepCount& count, const Config& config, const plan::Hardware& hardware) {
  const Precision precision = config.precision;
  std::string text =
      fmt::format("one rank on {}: {}, {} micro-batches of {} samples a step\n", hardware.name,
                  name_of(precision), count.micro_batches, config.train.micro_batch);
  add_part(text, count,
           {"per micro-batch (mean over the step)", true,
            1.0 / static_cast<double>(count.micro_batches)},
           precision, hardware);
  add_part(text, count, {"per step, beside its micro-batches", false, 1}, precision, hardware);
  add_messages(text, count);
  text += describe_roles(config, hardware);
  if (!count.launches) text += without_launches;
  return text + std::string(assumptions);
}

std::string to_json(const StepCount& count, const Config& config, const plan::Hardware& hardware) {
  json operations = json::array();
  for (const OperationCount& each : count.operations) {
    json kernels = json::array();
    for (const KernelCount& kernel : each.kernels) {
      kernels.push_back({{"kind", name_of(kernel.kind)},
                         {"name", kernel.name},
                         {"calls", kernel.calls},
                         {"launches", kernel.launches},
                         {"blocks", kernel.grid.blocks},
                         {"threads", kernel.grid.threads},
                         {"shared_bytes", kernel.grid.shared_bytes},
                         {"bytes", kernel.bytes}});
    }
    json row{{"pass", each.pass},
             {"layer", each.layer},
             {"operation", each.name},
             {"per_micro_batch", repeats(each)},
             {"calls", each.calls},
             {"launches", count.launches ? json(each.launches()) : json(nullptr)},
             {"seconds", roofline_seconds(each, config.precision, hardware)},
             {"kernels", kernels}};
    row.update(traffic_json(each.traffic));
    operations.push_back(row);
  }
  json sent = json::array();
  for (const KernelCount& each : messages(count))
    sent.push_back({{"name", each.name}, {"calls", each.calls}, {"sent_bytes", each.bytes}});
  json roles = json::array();
  for (const RolePrice& each : role_prices(config, hardware)) {
    roles.push_back({{"role", name_of(each.role)},
                     {"bounded", each.bounded},
                     {"thread_blocks", each.most > 0 ? json(each.most) : json(nullptr)},
                     {"matmuls_leave", each.left},
                     {"matmul_slowdown", each.slowdown}});  // null: not known
  }
  const json whole{{"hardware", hardware.name},
                   {"precision", name_of(config.precision)},
                   {"micro_batch", config.train.micro_batch},
                   {"micro_batches", count.micro_batches},
                   {"micro_batch_totals", totals_json(micro_batch_totals(count), count.launches)},
                   {"step_totals", totals_json(step_totals(count), count.launches)},
                   {"messages", sent},
                   {"roles", roles},
                   {"operations", operations}};
  return whole.dump(1) + "\n";
}

}  // namespace trireme::kernel_bench
