// SPDX-License-Identifier: Apache-2.0
#include "models/experts/row_exchange.h"

#include <algorithm>
#include <cmath>

#include "runtime/ops/experts/expert_rows.h"
#include "runtime/ops/experts/router.h"

namespace trireme {
namespace {

Tensor rows_of(const Tensor& rows, std::int64_t first, std::int64_t count, std::int64_t width) {
  return count == 0 ? Tensor{} : rows.range(first * width, count * width);
}

}  // namespace

RowExchange::RowExchange(Blueprint& blueprint, std::int64_t experts, std::int64_t slots,
                         const RowSplit& rows)
    : name_(blueprint.full_name("experts")),
      one_round_(blueprint.layout_bits() && blueprint.options().training &&
                 blueprint.compute() != DType::f32 && blueprint.device() == DeviceType::cuda),
      split_(blueprint.experts().split),
      data_ranks_(blueprint.experts().data_ranks),
      tensor_rank_(blueprint.tensor().rank),
      tensor_ranks_(blueprint.tensor().ranks),
      experts_(experts),
      slots_(slots),
      hidden_(rows.whole()[2]) {
  TRIREME_EXPECTS(split_.ranks == data_ranks_ * tensor_ranks_ && experts % split_.ranks == 0,
                  "{} experts over {} ranks, of {} data and {} tensor ranks", experts, split_.ranks,
                  data_ranks_, tensor_ranks_);
  const std::int64_t share = (rows.rows() + tensor_ranks_ - 1) / tensor_ranks_;
  first_ = std::min(tensor_rank_ * share, rows.rows());
  home_ = std::min(share, rows.rows() - first_);
  const std::int64_t sent = share * slots;
  capacity_ = even_ = sent;
  ExpertMessages& traffic = blueprint.traffic().experts;
  traffic.rows = traffic.capacity = traffic.most = sent;
  traffic.row_bytes =
      static_cast<double>(hidden_) * static_cast<double>(size_of(blueprint.compute()));
  places_ = blueprint.keep({share, slots}, DType::i32);
  offsets_ = blueprint.keep({experts + 1}, DType::i32);
  group_offsets_ = offsets_;
  if (alone()) return;
  // The smallest rounds, of one part of each micro-batch, must always fit.
  const std::int64_t least =
      data_ranks_ * ((share + data_ranks_ - 1) / data_ranks_) * std::min(slots, local_experts());
  const auto wanted = static_cast<std::int64_t>(
      std::ceil(blueprint.experts().capacity_factor * static_cast<double>(sent)));
  const std::int64_t most = data_ranks_ * share * tensor_ranks_ * std::min(slots, local_experts());
  capacity_ = std::clamp(wanted, least, std::max(least, most));
  imbalance_ = std::min(blueprint.experts().imbalance,
                        static_cast<double>(most) / static_cast<double>(std::max(sent, least)));
  traffic.capacity = capacity_;
  traffic.most = most;
  // Tensor ranks gather the outputs of their tokens, and the gradients of the inputs.
  if (tensor_ranks_ > 1)
    blueprint.traffic().gathers.push_back(2 * static_cast<double>(rows.rows()) * traffic.row_bytes);
  counts_ = blueprint.keep({split_.ranks, data_ranks_, experts}, DType::i32);
  group_offsets_ = blueprint.keep({split_.ranks * local_experts() + 1}, DType::i32);
  host_counts_ = blueprint.host(counts_.shape, DType::i32);
  sent_ = blueprint.scratch({sent, hidden_});
  sent_values_ = blueprint.scratch({sent}, DType::f32);
}

Tensor RowExchange::home_of(const Tensor& whole) const {
  const std::int64_t width = whole.shape.back();
  return whole.range(first_ * width, home_ * width).reshaped({home_, width});
}

const RowExchange::Plan& RowExchange::plan_of(const Context& context) const {
  static const Plan one{};
  if (alone()) return one;
  return plans_.at(context.kept_shift);
}

RowExchange::Range RowExchange::parts(int tensor_rank, int round, int rounds) const {
  const std::int64_t all = split_.ranks, before = std::int64_t{tensor_rank} * data_ranks_;
  const auto own = [&](std::int64_t part) {
    return std::clamp<std::int64_t>(part - before, 0, data_ranks_);
  };
  return {own(round * all / rounds), own((round + 1) * all / rounds)};
}

RowExchange::Range RowExchange::tokens(const Plan& plan, int round) const {
  if (alone()) return {0, home_};
  const Range own = parts(tensor_rank_, round, plan.rounds);
  return {own.first * home_ / data_ranks_, own.end * home_ / data_ranks_};
}

std::int64_t RowExchange::rows_between(const Plan& plan, int source, int owner, int round) const {
  const Range from = parts(source % tensor_ranks_, round, plan.rounds);
  std::int64_t rows = 0;
  for (std::int64_t part = from.first; part < from.end; ++part) {
    const auto first =
        plan.counts.begin() + (source * data_ranks_ + part) * experts_ + owner * local_experts();
    for (std::int64_t e = 0; e < local_experts(); ++e)
      rows += first[e];
  }
  return rows;
}

std::int64_t RowExchange::rows_of_owner(const Plan& plan, int owner, int round) const {
  std::int64_t rows = 0;
  for (int source = 0; source < split_.ranks; ++source)
    rows += rows_between(plan, source, owner, round);
  return rows;
}

// On a dry device: this rank has the largest load, the others share the rest.
void RowExchange::assume_counts(Plan& plan) const {
  const double here = imbalance_ / split_.ranks;
  const auto local = static_cast<double>(local_experts()), all = static_cast<double>(experts_);
  const double first = local * split_.rank, elsewhere = (1 - here) / std::max(all - local, 1.0);
  const auto before = [&](std::int64_t expert) {  // share of the rows for experts below this
    const double own = std::clamp(static_cast<double>(expert) - first, 0.0, local);
    return own * here / local + (static_cast<double>(expert) - own) * elsewhere;
  };
  const double rows = static_cast<double>(home_ * slots_) / data_ranks_;
  for (std::size_t i = 0; i < plan.counts.size(); ++i) {
    const auto run = static_cast<std::int64_t>(i) / experts_ * experts_;
    const std::int64_t expert = static_cast<std::int64_t>(i) - run;
    plan.counts[i] = static_cast<std::int32_t>(std::llround(rows * before(expert + 1)) -
                                               std::llround(rows * before(expert)));
  }
}

int RowExchange::plan(const Context& context, const Tensor& slots) const {
  if (alone()) return 1;
  Stream& stream = context.stream;
  if (stream.capturing())
    fail(ExitCode::config,
         "experts on several ranks: sizes of messages are known only in the step");
  Plan& plan = plans_[context.kept_shift];
  const Tensor counts = context(counts_);
  const std::int64_t own = data_ranks_ * experts_;
  const Tensor mine = counts.range(split_.rank * own, own);
  if (home_ > 0) {
    ops::expert_counts(stream, mine.reshaped({data_ranks_, experts_}), home_of(slots));
  } else {
    stream.device().fill_zero(stream, mine.data, mine.bytes());
  }
  context.experts->all_gather(stream, mine, counts);
  plan.counts.resize(static_cast<std::size_t>(counts.count()));
  if (stream.device().execution() == Execution::run) {
    const Tensor host = context(host_counts_);
    stream.device().copy(stream, host.data, counts.data, counts.bytes());
    stream.synchronize();
    std::copy_n(host.as<std::int32_t>(), counts.count(), plan.counts.begin());
  } else {
    assume_counts(plan);
  }
  const auto fits = [&] {
    for (int round = 0; round < plan.rounds; ++round) {
      for (int owner = 0; owner < split_.ranks; ++owner)
        if (rows_of_owner(plan, owner, round) > capacity_) return false;
    }
    return true;
  };
  plan.rounds = 1;
  while (plan.rounds < split_.ranks && (split_.ranks % plan.rounds != 0 || !fits()))
    ++plan.rounds;
  if (context.expert_meter != nullptr && !context.recomputing) count(context, plan);
  check_rounds(plan);
  return plan.rounds;
}

void RowExchange::count(const Context& context, const Plan& plan) const {
  ExpertMeter& meter = *context.expert_meter;
  const auto node = [&](int rank) {
    return meter.nodes.empty() ? 0 : meter.nodes[static_cast<std::size_t>(rank)];
  };
  std::int64_t all = 0, home = 0, near = 0, own = 0, most = 0;
  for (int owner = 0; owner < split_.ranks; ++owner) {
    std::int64_t held = 0;
    for (int source = 0; source < split_.ranks; ++source) {
      std::int64_t rows = 0;
      for (int round = 0; round < plan.rounds; ++round)
        rows += rows_between(plan, source, owner, round);
      held += rows;
      if (source == owner) home += rows;
      if (node(source) == node(owner)) near += rows;
    }
    all += held;
    most = std::max(most, held);
    if (owner == split_.rank) own = held;
  }
  meter.now.own_rows += static_cast<double>(own);
  meter.now.behind_rows += static_cast<double>(most - own);
  meter.now.passes += {.passes = 1,
                       .in_rounds = plan.rounds > 1 ? 1.0 : 0.0,
                       .rows = static_cast<double>(all),
                       .off_rank = static_cast<double>(all - home),
                       .off_node = static_cast<double>(all - near),
                       .fullest = static_cast<double>(most * split_.ranks)};
}

void RowExchange::check_rounds(const Plan& plan) const {
  if (!one_round_ || plan.rounds == 1) return;
  int busiest = 0;
  std::int64_t most = 0;
  for (int owner = 0; owner < split_.ranks; ++owner) {
    std::int64_t rows = 0;
    for (int round = 0; round < plan.rounds; ++round)
      rows += rows_of_owner(plan, owner, round);
    if (rows > most) {
      most = rows;
      busiest = owner;
    }
  }
  fail(ExitCode::config,
       "{}: rank {} of its {} ranks got {} rows of a micro-batch and has memory for {}: they take "
       "{} rounds, and the bits of 16-bit weight gradients on GPUs depend on those, which "
       "reproducibility: layout does not allow. Raise parallel.expert_capacity_factor to at least "
       "{:.2f}; a "
       "resumed run has the same bits",
       name_, busiest, split_.ranks, most, capacity_, plan.rounds,
       std::ceil(100.0 * static_cast<double>(most) / static_cast<double>(even_)) / 100.0);
}

void RowExchange::begin(const Context& context, int round, const Tensor& slots) const {
  const Plan& plan = plan_of(context);
  const Range here = tokens(plan, round);
  if (here.count() > 0) {
    ops::order_slots(context.stream, run(context(places_), here), context(offsets_),
                     run(home_of(slots), here));
  }
  if (alone()) return;
  ops::received_offsets(context.stream, context(group_offsets_), context(counts_),
                        {.first = split_.rank * local_experts(),
                         .tensor_ranks = tensor_ranks_,
                         .from = round * split_.ranks / plan.rounds,
                         .to = (round + 1) * split_.ranks / plan.rounds});
}

Tensor RowExchange::run(const Tensor& home, const Range& tokens) const {
  const std::int64_t width = home.shape.back();
  return home.range(tokens.first * width, tokens.count() * width).reshaped({tokens.count(), width});
}

Tensor RowExchange::received(const Context& context, int round, const Tensor& rows) const {
  const std::int64_t width = rows.shape.rank() == 1 ? 1 : rows.shape.back();
  const std::int64_t count =
      alone() ? home_ * slots_ : rows_of_owner(plan_of(context), split_.rank, round);
  const Tensor part = rows.range(0, count * width);
  return rows.shape.rank() == 1 ? part : part.reshaped({count, width});
}

Tensor RowExchange::group_offsets(const Context& context) const {
  return context(group_offsets_);
}

// Between `home`, this rank's rows ordered by expert, and `owned`, those that it computes.
void RowExchange::add_messages(const Context& context, int round, const Exchanged& rows,
                               std::vector<TensorGroup::Message>& messages) const {
  const Plan& plan = plan_of(context);
  std::int64_t at_home = 0, owned = 0;
  for (int peer = 0; peer < split_.ranks; ++peer) {
    const std::int64_t out = rows_between(plan, split_.rank, peer, round);
    const std::int64_t in = rows_between(plan, peer, split_.rank, round);
    const Tensor home = rows_of(rows.home, at_home, out, rows.width);
    const Tensor owner = rows_of(rows.owned, owned, in, rows.width);
    const Tensor &send = rows.back ? owner : home, &receive = rows.back ? home : owner;
    if (peer != split_.rank) {
      messages.push_back({.peer = peer, .send = send, .receive = receive});
    } else if (!send.empty()) {
      context.stream.device().copy(context.stream, receive.data, send.data, send.bytes());
    }
    at_home += out;
    owned += in;
  }
}

void RowExchange::start(const Context& context, int round, const Tensor& to, const Tensor& x,
                        const Tensor& values_to, const Tensor& values) const {
  const Range here = tokens(plan_of(context), round);
  const Tensor places = run(context(places_), here);
  const Tensor rows = alone() ? to : context(sent_);
  const Tensor spread = alone() ? values_to : context(sent_values_);
  if (here.count() > 0) {
    ops::spread_rows(context.stream, rows, run(x, here), places);
    if (!values.empty()) ops::spread_values(context.stream, spread, run(values, here), places);
  }
  if (alone()) return;
  std::vector<TensorGroup::Message> messages;
  add_messages(context, round, {rows, to, hidden_}, messages);
  if (!values.empty()) add_messages(context, round, {spread, values_to, 1}, messages);
  context.experts->start_exchange(context.stream, messages);
}

void RowExchange::finish(const Context& context) const {
  if (!alone()) context.experts->finish(context.stream, StallCause::experts);
}

void RowExchange::collect(const Context& context, int round, const Tensor& y, const Tensor& from,
                          const Tensor& weights, const Tensor& residual, const Tensor& values,
                          const Tensor& values_from) const {
  const Range here = tokens(plan_of(context), round);
  const Tensor places = run(context(places_), here);
  Tensor rows = from, returned = values_from;
  if (!alone()) {
    rows = context(sent_);
    returned = context(sent_values_);
    std::vector<TensorGroup::Message> messages;
    add_messages(context, round, {rows, from, hidden_, true}, messages);
    if (!values.empty()) add_messages(context, round, {returned, values_from, 1, true}, messages);
    context.experts->start_exchange(context.stream, messages);
    finish(context);
  }
  if (here.count() == 0) return;
  ops::collect_rows(context.stream, run(y, here), rows, places,
                    weights.empty() ? weights : run(weights, here),
                    residual.empty() ? residual : run(residual, here));
  if (!values.empty()) ops::collect_values(context.stream, run(values, here), returned, places);
}

}  // namespace trireme
