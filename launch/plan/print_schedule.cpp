// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <optional>

#include "launch/guard.h"
#include "launch/plan/plan_arguments.h"
#include "launch/plan/print_schedule.h"
#include "models/config.h"
#include "runtime/base/error.h"
#include "runtime/base/terminal.h"
#include "runtime/config/batch_slices.h"
#include "runtime/parallel/schedule_timeline.h"

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
    fail(ExitCode::config, "{}: {} is not a schedule; use gpipe, 1f1b, interleaved or zero-bubble",
         place, text);
  }
  return *kind;
}

// The ranks that share a step's micro-batches.
std::int64_t data_ranks(const Config& config, const Provenance& where,
                        const PlanArguments& arguments, std::string& remark) {
  const ParallelConfig& parallel = config.parallel;
  const std::int64_t others = parallel.inner_ranks() * parallel.context * parallel.pipeline;
  if (arguments.ranks) {
    const std::int64_t ranks = *arguments.ranks;
    if (ranks % others != 0) {
      fail(ExitCode::config,
           "--ranks: {} cannot be split: tensor * context * pipeline = {} does not divide "
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
         "{}: {} cannot be split into micro-batches of {} for {} data-parallel ranks; use {}",
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
         "{}: {} stages * {} chunks * {} micro-batches = {} is too large to draw; the limit is {}, "
         "and fewer --micro-batches show the same pattern",
         request.place, shape.stages, shape.chunks, shape.micro_batches, cells, max_cells);
  }
  const std::size_t terminal = terminal_width(STDOUT_FILENO);
  const bool colour = terminal > 0 && std::getenv("NO_COLOR") == nullptr;
  give_text_as_it_is(/*to_terminals=*/true);
  fmt::print("{}{}", request.remark,
             describe_schedule(shape, {arguments.width.value_or(terminal), colour}));
}

namespace {

constexpr std::string_view reset = "\033[0m";

// Black on a colour of its own per kind, brighter in every other chunk.
std::string_view colour_of(const Action& action) {
  const bool odd = action.chunk % 2 != 0;
  switch (action.kind) {
    case ActionKind::forward:
      return odd ? "\033[30;104m" : "\033[30;44m";
    case ActionKind::backward:
      return odd ? "\033[30;102m" : "\033[30;42m";
    default:
      return odd ? "\033[30;103m" : "\033[30;43m";
  }
}

// Costs are whole units, so every start and end falls on a column.
class Table {
 public:
  Table(const ScheduleShape& shape, const Timeline& timeline, const ViewOptions& options)
      : shape_(shape),
        timeline_(timeline),
        colour_(options.colour),
        units_(column(timeline.makespan)),
        label_width_(fmt::format("stage {}  ", shape.stages - 1).size()),
        unit_width_(
            text_of({ActionKind::backward, shape.chunks - 1, shape.micro_batches - 1}, shape.chunks)
                .size() +
            1) {
    shown_ = units_;
    if (options.width > 0) {
      const std::size_t room = options.width > label_width_ ? options.width - label_width_ : 0;
      shown_ = std::min(units_, std::max<std::size_t>(room / unit_width_, 1));
    }
  }

  std::string draw() const {
    std::string text = header();
    for (int stage = 0; stage < shape_.stages; ++stage)
      text += row(stage);
    if (shown_ < units_) {
      text += fmt::format(
          "cut at {} of {} units; use a wider terminal, --width or a pipe into `less -S`\n", shown_,
          units_);
    }
    return text;
  }

 private:
  static std::size_t column(double units) { return static_cast<std::size_t>(std::lround(units)); }

  std::string header() const {
    std::string text = fmt::format("{:<{}}", "time", label_width_);
    for (std::size_t unit = 0; unit < shown_; ++unit)
      text += fmt::format("{:<{}}", unit % 5 == 0 ? fmt::format("{}", unit) : "", unit_width_);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }

  std::string idle(std::size_t first, std::size_t end) const {
    std::string text;
    for (std::size_t unit = first; unit < std::min(end, shown_); ++unit)
      text += fmt::format("{:<{}}", ".", unit_width_);
    return text;
  }

  // "B3----- ": its label, a line to its end, a blank. Cut where the table is.
  std::string cell(const Span& span) const {
    const std::size_t first = column(span.start);
    const std::size_t end = std::min(column(span.end), shown_);
    if (first >= end) return "";
    const std::size_t width = (end - first) * unit_width_ - 1;
    const std::string label = fmt::format("{:-<{}}", text_of(span.action, shape_.chunks), width);
    return colour_ ? fmt::format("{}{}{} ", colour_of(span.action), label, reset) : label + " ";
  }

  std::string row(int stage) const {
    std::string text = fmt::format("{:<{}}", fmt::format("stage {}", stage), label_width_);
    std::size_t next = 0;
    for (const Span& span : timeline_.stages[static_cast<std::size_t>(stage)]) {
      text += idle(next, column(span.start)) + cell(span);
      next = column(span.end);
    }
    text += idle(next, units_);
    return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }

  const ScheduleShape& shape_;
  const Timeline& timeline_;
  bool colour_;
  std::size_t units_, label_width_, unit_width_, shown_ = 0;
};

std::string plural(int count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : one.ends_with("h") ? "es" : "s");
}

}  // namespace

std::string describe_schedule(const ScheduleShape& shape, const ViewOptions& options) {
  const Schedule schedule = make_schedule(shape);
  const Timeline timeline = simulate(schedule, uniform_costs(shape, 1, 1, 1));
  const bool splits = shape.kind == ScheduleKind::zero_bubble;
  std::vector<int> slots;
  for (const auto& of_chunk : schedule.slots)
    slots.push_back(std::accumulate(of_chunk.begin(), of_chunk.end(), 0));

  std::string text =
      fmt::format("{}: {}, {}, {} per stage\n", name_of(shape.kind), plural(shape.stages, "stage"),
                  plural(shape.micro_batches, "micro-batch"), plural(shape.chunks, "chunk"));
  text += fmt::format(
      "F forward (1 unit), {}; {}\n\n",
      splits ? "B gradient of the input (1), W of the weights (1)" : "B backward (2)",
      shape.chunks == 1 ? "the number is the micro-batch" : "F3.1 is micro-batch 3 in chunk 1");
  text += Table(shape, timeline, options).draw();
  const std::string_view counted = shape.chunks == 1 ? "micro-batches" : "micro-batch chunks";
  text += fmt::format(
      "\nbubble     {:.1f} %\nmakespan   {:g} units\nin flight  {} {} at most, by stage\n"
      "slots      {} by stage, with inputs received ahead\n",
      100 * timeline.bubble, timeline.makespan, fmt::join(timeline.peak_in_flight, " "), counted,
      fmt::join(slots, " "));
  return text;
}

}  // namespace trireme
