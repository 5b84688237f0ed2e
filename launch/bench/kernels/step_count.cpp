// SPDX-License-Identifier: Apache-2.0
#include "launch/bench/kernels/step_count.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "launch/bench/model/measure.h"
#include "launch/engine/engine.h"
#include "runtime/device/dry/dry_device.h"

namespace trireme::kernel_bench {
namespace {

constexpr std::array<std::string_view, 4> passes{"forward", "backward", "reduce", "optimizer"};

// "backward/block.3" has pass "backward" and layer kind "block".
void place(OperationCount& at, std::string_view range) {
  const std::string_view first = range.substr(0, range.find('/'));
  if (std::ranges::find(passes, first) == passes.end()) return;
  at.pass = first;
  if (first.size() == range.size()) return;
  std::string_view layer = range.substr(range.rfind('/') + 1);
  at.layer = layer.substr(0, layer.find('.'));
}

OperationCount& row_of(StepCount& count, const std::string& name, std::string_view range) {
  OperationCount wanted{.name = name};
  place(wanted, range);
  const auto found = std::ranges::find_if(count.operations, [&](const OperationCount& each) {
    return each.name == name && each.pass == wanted.pass && each.layer == wanted.layer;
  });
  if (found != count.operations.end()) return *found;
  return count.operations.emplace_back(std::move(wanted));
}

void add(OperationCount& row, const WorkItem& item) {
  auto found = std::ranges::find_if(row.kernels, [&](const KernelCount& each) {
    return each.kind == item.kind && each.name == item.name;
  });
  if (found == row.kernels.end())
    found = row.kernels.insert(found, {.kind = item.kind, .name = item.name});
  const bool launches = item.kind == WorkKind::kernel || item.kind == WorkKind::library;
  if (item.grid.blocks > found->grid.blocks) found->grid = item.grid;
  ++found->calls;
  found->launches += launches ? item.kernels : 0;
  found->bytes += item.bytes;
}

Totals totals(const StepCount& count, bool repeated, double share) {
  Totals sum;
  for (const OperationCount& each : count.operations) {
    if (repeats(each) != repeated) continue;
    sum.launches += share * static_cast<double>(each.launches());
    sum.host_calls += share * static_cast<double>(each.host_calls());
    sum.read += share * each.traffic.read;
    sum.written += share * each.traffic.written;
    sum.flops += share * each.traffic.flops;
  }
  return sum;
}

// Copies on the device read and write the same bytes, fills only write.
void add_copies(OperationCount& row, const WorkItem& item) {
  if (item.kind == WorkKind::copy) row.traffic.read += item.bytes;
  if (item.kind == WorkKind::copy || item.kind == WorkKind::fill) row.traffic.written += item.bytes;
}

}  // namespace

std::int64_t OperationCount::launches() const {
  std::int64_t sum = 0;
  for (const KernelCount& each : kernels)
    sum += each.launches;
  return sum;
}

std::int64_t OperationCount::host_calls() const {
  std::int64_t sum = 0;
  for (const KernelCount& each : kernels)
    sum += each.calls;
  return sum;
}

bool repeats(const OperationCount& operation) {
  return operation.pass == "forward" || operation.pass == "backward";
}

StepCount count_of(const WorkLog& log, std::int64_t micro_batches) {
  StepCount count{.micro_batches = micro_batches};
  for (const WorkOperation& operation : log.operations()) {
    OperationCount& row = row_of(count, operation.name, operation.range);
    ++row.calls;
    row.traffic.read += operation.traffic.read;
    row.traffic.written += operation.traffic.written;
    row.traffic.flops += operation.traffic.flops;
    row.traffic.smallest = operation.traffic.smallest;
    row.single.push_back(operation.traffic);
  }
  for (const WorkItem& item : log.items()) {
    const auto& all = log.operations();
    const bool inside = item.operation >= 0;
    const WorkOperation* const of =
        inside ? &all[static_cast<std::size_t>(item.operation)] : nullptr;
    OperationCount& row = inside ? row_of(count, of->name, of->range)
                                 : row_of(count, std::string(name_of(item.kind)), item.range);
    if (!inside) {
      ++row.calls;
      add_copies(row, item);
    }
    count.launches = count.launches || item.kind == WorkKind::kernel;
    add(row, item);
  }
  return count;
}

StepCount count_step(const Config& config) {
  Config counted = config;
  counted.device.graphs = GraphMode::off;  // graph replays launch the same kernels
  RankResources resources = dry_resources(counted, 0);
  resources.device = make_counting_device(DeviceType::cuda);
  WorkLog log;
  Engine all(std::move(resources), counted);
  all.begin();
  const auto batches = model_bench::synthetic_batches(*all.session().device, counted);
  StepEngine& engine = all.training().state->engine;
  engine.run(0, *batches);
  log.clear();
  engine.run(1, *batches);
  return count_of(log, all.session().pipeline.micro_batches);
}

std::vector<KernelCount> messages(const StepCount& count) {
  std::vector<KernelCount> all;
  for (const OperationCount& operation : count.operations) {
    for (const KernelCount& each : operation.kernels) {
      if (each.kind != WorkKind::message) continue;
      auto found = std::ranges::find(all, each.name, &KernelCount::name);
      if (found == all.end())
        found = all.insert(found, {.kind = WorkKind::message, .name = each.name});
      found->calls += each.calls;
      found->bytes += each.bytes;
    }
  }
  return all;
}

Totals micro_batch_totals(const StepCount& count) {
  return totals(count, true, 1.0 / static_cast<double>(count.micro_batches));
}

Totals step_totals(const StepCount& count) {
  return totals(count, false, 1.0);
}

}  // namespace trireme::kernel_bench
