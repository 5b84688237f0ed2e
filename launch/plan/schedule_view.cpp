// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/schedule_view.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/parallel/schedule_timeline.h"

namespace trireme {
namespace {

constexpr std::string_view reset = "\033[0m";

// Black on a colour per kind, brighter in every other chunk.
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

// Costs are whole units, so starts and ends fall on columns.
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
          "cut at {} of {} units; a wider terminal, --width or a pipe into `less -S` shows more\n",
          shown_, units_);
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

  // "B3----- ": label, line to its end, blank. Cut at the table's edge.
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
