// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/data_traffic.h"

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/plan/comm_cost.h"
#include "runtime/plan/cta_cost.h"
#include "runtime/plan/stage_params.h"

namespace trireme::plan {
namespace {

// The ranks that hold the same parameters: with other slices, and with copies of a slice.
struct Groups {
  GroupSpan zero, replicas;
};

class Stage {
 public:
  Stage(const StepInput& input, const Hardware& hardware, int stage,
        std::span<const LayerSeconds> layers, StepMemo& memo)
      : input_(input),
        hardware_(hardware),
        links_(bounded(hardware.links, input.ctas.data)),
        stage_(stage),
        layers_(layers),
        spans_(memo.timeline.stages[static_cast<std::size_t>(stage)]),
        dense_{span_of(MeshAxis::zero, input.mesh, links_),
               span_of(MeshAxis::replicas, input.mesh, links_)},
        experts_{span_of(MeshAxis::expert_zero, input.mesh, links_),
                 span_of(MeshAxis::expert_replicas, input.mesh, links_)},
        units_(units_of(input, stage)),
        layout_(layout_of(input, units_, memo)) {}

  DataTraffic traffic() {
    DataTraffic traffic{.elements = layout_.elements,
                        .owned_elements = layout_.owned_elements,
                        .buckets = static_cast<int>(layout_.buckets.size())};
    if (input_.mesh.data == 1) return traffic;
    const double reduced = reduce_last(traffic);
    if (input_.zero == 1 || input_.zero == 2) gather_once(traffic);
    if (input_.zero >= 2) reduce_every(traffic, reduced);
    return traffic;
  }

 private:
  const LayerSeconds& layer(int unit) const {
    const int index = units_.layers[static_cast<std::size_t>(unit)];
    return layers_[static_cast<std::size_t>(index)];
  }

  static double forward_seconds(const LayerSeconds& s) { return s.forward + s.sent_forward(); }
  // Until the gradients of the layer are complete.
  static double backward_seconds(const LayerSeconds& s, bool weights_only) {
    return s.backward_weight +
           (weights_only ? 0 : s.backward_input + s.recompute + s.sent_backward());
  }

  const GroupSpan& zero_of(const Bucket& bucket) const {
    return bucket.expert ? experts_.zero : dense_.zero;
  }
  const GroupSpan& replicas_of(const Bucket& bucket) const {
    return bucket.expert ? experts_.replicas : dense_.replicas;
  }

  Collective reduction(const Bucket& bucket) const {
    return input_.zero >= 1 && bucket.kind == ParamKind::weight ? Collective::reduce_scatter
                                                                : Collective::all_reduce;
  }

  double reduced_bytes(const Bucket& bucket) const {
    const double bytes = bucket.kind == ParamKind::weight ? input_.engine.gradient_bytes : 4;
    return static_cast<double>(bucket.count) * bytes;
  }

  // In the ZeRO group, in which each rank is left with a slice of weights.
  double seconds_in_group(const Bucket& bucket) const {
    const double bytes = reduced_bytes(bucket);
    if (zero_of(bucket).size == 1) return 0;
    if (bucket.kind == ParamKind::weight && input_.engine.owners_sum_gradients)
      return owners_sum_seconds(zero_of(bucket), static_cast<double>(bucket.count), bytes, false);
    return seconds_of(reduction(bucket), bytes, zero_of(bucket), links_);
  }

  // Then over the groups: of that slice, or without ZeRO of all.
  double seconds_over_groups(const Bucket& bucket) const {
    const double bytes = bytes_over_groups(bucket);
    if (replicas_of(bucket).size == 1) return 0;
    if (bucket.kind == ParamKind::weight && input_.engine.owners_sum_gradients)
      return owners_sum_seconds(replicas_of(bucket),
                                static_cast<double>(bucket.count / zero_of(bucket).size), bytes,
                                true);
    return seconds_of(Collective::all_reduce, bytes, replicas_of(bucket), links_);
  }

  double bytes_over_groups(const Bucket& bucket) const {
    return reduced_bytes(bucket) / (bucket.kind == ParamKind::weight ? zero_of(bucket).size : 1);
  }

  void add_bytes(DataTraffic& traffic, Collective collective, double bytes,
                 const GroupSpan& group) const {
    traffic.bytes += bytes_sent(collective, bytes, group.size);
    traffic.bytes_out += bytes_sent_out(collective, bytes, group, hardware_.node.cores > 0);
  }

  // Rounded into the message, exchanged and added up into the own slice; if all ranks want the sums
  // they are gathered and widened. Traffic as short as a slice is left out.
  double owners_sum_seconds(const GroupSpan& group, double elements, double bytes, bool all) const {
    const double whole = elements * sizeof(float);
    const auto moved = [&](double traffic) {
      return seconds_of({.read = traffic}, input_.precision, hardware_);
    };
    double seconds = moved(whole + bytes) + moved(bytes) +
                     seconds_of(Collective::all_to_all, bytes, group, links_);
    if (all) {
      seconds += moved(bytes + whole) + seconds_of(Collective::all_gather, bytes, group, links_);
    }
    return seconds;
  }

  double gathered_bytes(const Bucket& bucket) const {
    const double bytes = bucket.matrices ? static_cast<double>(size_of(input_.build.compute))
                                         : input_.engine.gathered_bytes;
    return static_cast<double>(bucket.count) * bytes;
  }

  double gather_seconds(const Bucket& bucket) const {
    return seconds_of(Collective::all_gather, gathered_bytes(bucket), zero_of(bucket), links_);
  }

  // When backward has finished each unit, counted from the start of the step: a layer's share of
  // the span in which the schedule runs the last backward of its chunk.
  std::vector<double> ready_times() const {
    std::vector<double> before(units_.chunks.size());
    for (std::size_t end = units_.chunks.size(); end > 0;) {
      const int chunk = units_.chunks[end - 1];
      const Action wanted{last_use(input_.schedule.kind), chunk, input_.schedule.micro_batches - 1};
      const auto span = std::find_if(spans_.rbegin(), spans_.rend(),
                                     [&](const Span& each) { return each.action == wanted; });
      TRIREME_EXPECTS(span != spans_.rend(), "stage {} has no {}", stage_, text_of(wanted));
      const bool weights_only = wanted.kind == ActionKind::backward_weight;
      double all = 0;
      std::size_t first = end;
      for (; first > 0 && units_.chunks[first - 1] == chunk; --first)
        before[first - 1] = all +=
            backward_seconds(layer(static_cast<int>(first - 1)), weights_only);
      for (; end > first; --end)
        before[end - 1] =
            span->start + (all > 0 ? before[end - 1] / all : 1) * (span->end - span->start);
    }
    return before;
  }

  // Share of reductions beside computation that costs it nothing.
  double hides() const { return input_.overlapped_reducer ? hardware_.links.overlap : 0; }

  // The buckets of the last micro-batch, in the order in which they become ready. Returns the
  // seconds of what ZeRO 2 and 3 repeat for every other one.
  double reduce_last(DataTraffic& traffic) const {
    struct Message {
      double ready, in_group, over_groups;
    };
    std::vector<Message> messages;
    const std::vector<double> ready = ready_times();
    double all = 0, repeated = 0;
    for (const Bucket& bucket : layout_.buckets) {
      if (bucket.kind == ParamKind::frozen) continue;
      const double in_group = seconds_in_group(bucket);
      const double over_groups = seconds_over_groups(bucket);
      messages.push_back(
          {ready[static_cast<std::size_t>(bucket.units.first)], in_group, over_groups});
      all += in_group + over_groups;
      repeated += in_group;
      const double times = input_.zero >= 2 ? input_.schedule.micro_batches : 1;
      add_bytes(traffic, reduction(bucket), times * reduced_bytes(bucket), zero_of(bucket));
      add_bytes(traffic, Collective::all_reduce, bytes_over_groups(bucket), replicas_of(bucket));
    }
    std::ranges::sort(messages, {}, &Message::ready);
    // Each level has a stream.
    double group_free_at = 0, free_at = 0;
    for (const Message& message : messages) {
      group_free_at = std::max(group_free_at, message.ready) + message.in_group;
      free_at = std::max(free_at, group_free_at) + message.over_groups;
    }
    // What had to wait for the end of the stage's work, and the share of the rest that costs it.
    const double hidden = std::max(0.0, std::min(all, all - (free_at - spans_.back().end)));
    traffic.tail = (all - hidden) + (1 - hides()) * hidden;
    return repeated;
  }

  // ZeRO 1 and 2: every bucket once after the update, in the order in which the forward reads them.
  void gather_once(DataTraffic& traffic) const {
    const auto& buckets = layout_.buckets;
    std::vector<double> ready_at(units_.layers.size());
    double clock = 0;
    for (std::size_t i = buckets.size(); i-- > 0;) {
      if (buckets[i].kind != ParamKind::weight) continue;
      clock += gather_seconds(buckets[i]);
      add_bytes(traffic, Collective::all_gather, gathered_bytes(buckets[i]), zero_of(buckets[i]));
      for (int unit = buckets[i].units.first; unit < buckets[i].units.last; ++unit)
        ready_at[static_cast<std::size_t>(unit)] = clock;
    }
    const double start = spans_.front().start;
    double now = start, computed = 0;
    for (std::size_t unit = 0; unit < ready_at.size() && units_.chunks[unit] == 0; ++unit) {
      const LayerSeconds& s = layer(static_cast<int>(unit));
      now = std::max(now, ready_at[unit]) + forward_seconds(s);
      computed += forward_seconds(s);
    }
    const double late = now - start - computed;
    const double hidden = input_.engine.hides_gathers ? hardware_.links.overlap : 0;
    traffic.gather_exposed += late + (1 - hidden) * std::max(0.0, clock - late);
  }

  // ZeRO 2 and 3: reductions of the other micro-batches, and with 3 gathers before each use, one
  // layer ahead. The comm stream is shared, so what outlasts the computation shows.
  void reduce_every(DataTraffic& traffic, double reduced) const {
    const int micro_batches = input_.schedule.micro_batches;
    double gathered = 0, first = 0, computed = 0;
    if (input_.zero >= 3) {
      for (const Bucket& bucket : layout_.buckets) {
        if (bucket.kind != ParamKind::weight) continue;
        gathered += gather_seconds(bucket);
        if (bucket.units.first == 0) first += gather_seconds(bucket);
        add_bytes(traffic, Collective::all_gather, 2 * micro_batches * gathered_bytes(bucket),
                  zero_of(bucket));
      }
    }
    for (std::size_t unit = 0; unit < units_.layers.size(); ++unit) {
      const LayerSeconds& s = layer(static_cast<int>(unit));
      computed += forward_seconds(s) + backward_seconds(s, false);
    }
    const double messages = reduced + 2 * gathered;
    const double shown = std::max(first, messages - computed);
    const double each = shown + (1 - hides()) * std::max(0.0, messages - shown);
    const double reducing = messages > 0 ? reduced / messages : 0;
    traffic.slowdown += (micro_batches - 1) * each * reducing;
    // The last micro-batch's reductions are in the tail; its gathers are not.
    traffic.gather_exposed += micro_batches * each * (1 - reducing);
  }

  const StepInput& input_;
  const Hardware& hardware_;
  Links links_;
  int stage_;
  std::span<const LayerSeconds> layers_;
  const std::vector<Span>& spans_;
  Groups dense_, experts_;
  StageUnits units_;
  const StageLayout& layout_;
};

}  // namespace

DataTraffic data_traffic(const StepInput& input, const Hardware& hardware, int stage,
                         std::span<const LayerSeconds> layers, StepMemo& memo) {
  return Stage(input, hardware, stage, layers, memo).traffic();
}

}  // namespace trireme::plan
