// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <optional>

#include "launch/cli/plan_arguments.h"
#include "launch/plan/schedule_view.h"
#include "launch/standard_streams.h"
#include "models/config.h"
#include "runtime/base/error.h"
#include "runtime/base/terminal.h"
#include "runtime/config/batch_slices.h"

namespace trireme {
namespace {

// Readable limit of a table.
constexpr std::int64_t max_cells = 1 << 20;

// The prefix of a refusal: the value is from the config or from an option.
struct Request {
  ScheduleShape shape;
  std::string place;
  std::string remark;  // an assumption, or ""
};

ScheduleKind kind_of(const std::string& text, const std::string& place) {
  const auto kind = value_named<ScheduleKind>(text);
  if (!kind) {
    fail(ExitCode::config, "{}: {} is no schedule; use gpipe, 1f1b, interleaved or zero-bubble",
         place, text);
  }
  return *kind;
}

// The ranks that share a step's micro-batches.
std::int64_t data_ranks(const Config& config, const Provenance& where,
                        const PlanArguments& arguments, std::string& remark) {
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t others = parallel.tensor * parallel.pipeline;
  if (arguments.ranks) {
    const std::int64_t ranks = *arguments.ranks;
    if (ranks % others != 0) {
      fail(ExitCode::config,
           "--ranks: {} cannot be split: tensor * pipeline = {} does not divide "
           "it; use a multiple of {}",
           ranks, others, others);
    }
    if (parallel.data != 0 && parallel.data * others != ranks) {
      fail(ExitCode::config, "{}: {} data-parallel ranks do not make up --ranks {}; use auto or {}",
           where.describe("parallel.data"), parallel.data, ranks, ranks / others);
    }
    return ranks / others;
  }
  if (parallel.data != 0) return parallel.data;
  remark = fmt::format(
      "parallel.data is auto: counted as 1 data-parallel rank, {} in all; --ranks N says how many "
      "there will be\n",
      others);
  return 1;
}

// For the first data rank, which has the most.
int micro_batches_per_step(Config config, const Provenance& where, std::int64_t data_ranks) {
  const TrainConfig& train = config.train;
  const std::int64_t unit = train.micro_batch * data_ranks;
  if (train.global_batch % train.micro_batch != 0 || train.global_batch < unit) {
    fail(ExitCode::config,
         "{}: {} makes no whole micro-batches of {} for each of {} data-parallel ranks; use {}",
         where.describe("train.global_batch"), train.global_batch, train.micro_batch, data_ranks,
         (train.global_batch / unit + 1) * unit);
  }
  config.parallel.data = data_ranks;
  return static_cast<int>(batch_slices(config).largest());
}

Request from_config(const PlanArguments& arguments) {
  Provenance where;
  const Config config = load_config(arguments.config, arguments.overrides, &where);
  Request request;
  ScheduleShape& shape = request.shape;
  request.place = where.describe("parallel.schedule");
  shape.stages = static_cast<int>(config.parallel.pipeline);
  shape.chunks = static_cast<int>(config.parallel.chunks);
  if (!arguments.schedule) shape.kind = config.parallel.schedule;
  if (!arguments.micro_batches) {
    const std::int64_t ranks = data_ranks(config, where, arguments, request.remark);
    shape.micro_batches = micro_batches_per_step(config, where, ranks);
  }
  return request;
}

Request make_request(const PlanArguments& arguments) {
  Request request;
  if (!arguments.config.empty()) {
    request = from_config(arguments);
  } else if (!arguments.stages || !arguments.micro_batches || !arguments.schedule) {
    fail(ExitCode::config,
         "plan --print-schedule: give a config file, or --stages, --micro-batches and --schedule "
         "(and --chunks for interleaved)");
  } else if (!arguments.overrides.empty() || arguments.ranks) {
    fail(ExitCode::config,
         "plan: --set and --ranks have no effect without a config file; remove them or name one");
  }
  ScheduleShape& shape = request.shape;
  shape.stages = arguments.stages.value_or(shape.stages);
  shape.micro_batches = arguments.micro_batches.value_or(shape.micro_batches);
  shape.chunks = arguments.chunks.value_or(shape.chunks);
  if (arguments.schedule) {
    request.place = "--schedule";
    shape.kind = kind_of(*arguments.schedule, request.place);
  }
  return request;
}

}  // namespace

void print_schedule(const PlanArguments& arguments) {
  const Request request = make_request(arguments);
  const ScheduleShape& shape = request.shape;
  if (const auto reason = unsupported(shape))
    fail(ExitCode::config, "{}: {}", request.place, *reason);
  const std::int64_t cells =
      std::int64_t{shape.stages} * shape.chunks * std::int64_t{shape.micro_batches};
  if (cells > max_cells) {
    fail(ExitCode::config,
         "{}: {} stages * {} chunks * {} micro-batches = {} is too large to draw; up to {} is "
         "drawn, and fewer --micro-batches show the same pattern",
         request.place, shape.stages, shape.chunks, shape.micro_batches, cells, max_cells);
  }
  const std::size_t terminal = terminal_width(STDOUT_FILENO);
  const bool colour = terminal > 0 && std::getenv("NO_COLOR") == nullptr;
  give_text_as_it_is(/*to_terminals=*/true);
  fmt::print("{}{}", request.remark,
             describe_schedule(shape, {arguments.width.value_or(terminal), colour}));
}

}  // namespace trireme
