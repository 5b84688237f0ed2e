// SPDX-License-Identifier: Apache-2.0
// Private: the choice of a token's experts and its gradient, shared by all back ends. A `Team` is
// the threads that work on one token: one on a CPU, a warp on a GPU. It has each(count, f), which
// shares out f(i); sum(x) and best(x) over its threads; sync(), after which all see what others
// stored; and exp and log.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "runtime/ops/experts/router.h"

// Not __host__ __device__: a team's own functions exist on one side only.
#if defined(__CUDACC__)
#define TRIREME_TEAM_FUNCTION __device__ inline
#else
#define TRIREME_TEAM_FUNCTION inline
#endif

namespace trireme::ops {

inline constexpr float sigmoid_floor = 1e-20F;  // added to sums of sigmoids, which can underflow

// Memory of a team: `experts` elements each; `chosen` and `terms` most_slots.
struct RouterScratch {
  float* scores;
  std::uint32_t* keys;
  std::uint32_t* group_keys;
  std::int32_t* chosen;
  float* terms;

  static constexpr std::size_t bytes(std::int64_t experts) {
    return static_cast<std::size_t>(3 * experts + 2 * most_slots) * sizeof(float);
  }
  TRIREME_HOST_DEVICE static RouterScratch at(float* memory, std::int64_t experts) {
    auto* const keys = reinterpret_cast<std::uint32_t*>(memory + experts);
    return {memory, keys, keys + experts, reinterpret_cast<std::int32_t*>(memory + 3 * experts),
            memory + 3 * experts + most_slots};
  }
};

// Ordered like the values; NaN below all, zeros equal, and 0 is none of them.
TRIREME_HOST_DEVICE inline std::uint32_t order_key(float value) {
  if (value != value) return 1;
  const auto bits = std::bit_cast<std::uint32_t>(value + 0.0F);
  return bits >> 31 != 0 ? ~bits : bits | 0x80000000U;
}
// Of the place `i` with this key: the largest is the best, of equal ones the first.
TRIREME_HOST_DEVICE inline std::uint64_t place_key(std::uint32_t key, std::int64_t i) {
  return std::uint64_t{key} << 32 | (0xffffffffU - static_cast<std::uint32_t>(i));
}

// Takes the `count` best of `keys` one after the other: take(rank, place); their keys become 0.
template <typename Team, typename Take>
TRIREME_TEAM_FUNCTION void take_best(const Team& team, std::uint32_t* keys, std::int64_t places,
                                     std::int64_t count, const Take& take) {
  for (std::int64_t rank = 0; rank < count; ++rank) {
    std::uint64_t best = 0;
    team.each(places, [&](std::int64_t i) {
      const std::uint64_t key = place_key(keys[i], i);
      best = key > best ? key : best;
    });
    best = team.best(best);
    const auto place = static_cast<std::int64_t>(0xffffffffU - static_cast<std::uint32_t>(best));
    team.sync();
    team.each(1, [&](std::int64_t) {
      keys[place] = 0;
      take(rank, place);
    });
    team.sync();
  }
}

struct Softmax {
  float largest, sum;
  template <typename Team>
  TRIREME_TEAM_FUNCTION float of(const Team& team, float logit) const {
    return team.exp(logit - largest) / sum;
  }
};
// Over `count` values at(i).
template <typename Team, typename At>
TRIREME_TEAM_FUNCTION Softmax softmax(const Team& team, std::int64_t count, const At& at) {
  std::uint64_t best = 0;
  team.each(count, [&](std::int64_t i) {
    const std::uint64_t key = place_key(order_key(at(i)), i);
    best = key > best ? key : best;
  });
  best = team.best(best);
  const float largest =
      at(static_cast<std::int64_t>(0xffffffffU - static_cast<std::uint32_t>(best)));
  float sum = 0;
  team.each(count, [&](std::int64_t i) { sum += team.exp(at(i) - largest); });
  return {largest, team.sum(sum)};
}

template <typename Team>
TRIREME_TEAM_FUNCTION float sigmoid(const Team& team, float logit) {
  return 1.0F / (1.0F + team.exp(-logit));
}

// One token: its logits, choice, weights and gradient.
template <typename Team>
struct TokenRouter {
  Team team;
  RouterOptions options;
  std::int64_t experts;
  const float* logits;
  RouterScratch scratch;
  std::int64_t token = 0;

  // chosen[j], all in scratch; `scores` by which they were chosen, without the bias.
  TRIREME_TEAM_FUNCTION void choose(const float* bias) const {
    fill_scores(options.score);
    if (options.balanced) {
      team.each(options.slots, [&](std::int64_t j) {
        scratch.chosen[j] = static_cast<std::int32_t>((token * options.slots + j) % experts);
      });
      team.sync();
      return;
    }
    team.each(experts, [&](std::int64_t e) {
      scratch.keys[e] = order_key(scratch.scores[e] + (bias == nullptr ? 0.0F : bias[e]));
    });
    team.sync();
    if (options.groups_kept < options.groups) drop_groups(bias);
    take_best(team, scratch.keys, experts, options.slots, [&](std::int64_t j, std::int64_t e) {
      scratch.chosen[j] = static_cast<std::int32_t>(e);
    });
  }

  TRIREME_TEAM_FUNCTION void fill_scores(RouterScore kind) const {
    if (kind == RouterScore::softmax) {
      const Softmax all = softmax(team, experts, [&](std::int64_t e) { return logits[e]; });
      team.each(experts, [&](std::int64_t e) { scratch.scores[e] = all.of(team, logits[e]); });
    } else if (kind == RouterScore::sigmoid) {
      team.each(experts, [&](std::int64_t e) { scratch.scores[e] = sigmoid(team, logits[e]); });
    } else {
      team.each(experts, [&](std::int64_t e) { scratch.scores[e] = logits[e]; });
    }
    team.sync();
  }

  // Experts outside of the best groups get the key 0.
  TRIREME_TEAM_FUNCTION void drop_groups(const float* bias) const {
    const std::int64_t size = experts / options.groups;
    team.each(options.groups, [&](std::int64_t g) {
      std::uint64_t best = 0, second = 0;
      for (std::int64_t e = g * size; e < (g + 1) * size; ++e) {
        const std::uint64_t key = place_key(scratch.keys[e], e);
        second = key > best ? best : (key > second ? key : second);
        best = key > best ? key : best;
      }
      scratch.group_keys[g] = order_key(biased(bias, best) + (size > 1 ? biased(bias, second) : 0));
    });
    team.sync();
    take_best(team, scratch.group_keys, options.groups, options.groups_kept,
              [](std::int64_t, std::int64_t) {});
    team.each(experts, [&](std::int64_t e) {
      if (scratch.group_keys[e / size] != 0) scratch.keys[e] = 0;
    });
    team.sync();
  }
  TRIREME_TEAM_FUNCTION float biased(const float* bias, std::uint64_t key) const {
    const auto e = static_cast<std::int64_t>(0xffffffffU - static_cast<std::uint32_t>(key));
    return scratch.scores[e] + (bias == nullptr ? 0.0F : bias[e]);
  }

  // By which the chosen scores are divided. Every thread of the team adds them up in slot order.
  TRIREME_TEAM_FUNCTION float divisor() const {
    if (!options.renormalize) return 1;
    float sum = options.score == RouterScore::sigmoid ? sigmoid_floor : 0.0F;
    for (std::int64_t j = 0; j < options.slots; ++j)
      sum += scratch.scores[scratch.chosen[j]];
    return sum;
  }

  // terms[j] = the weights, of scores and chosen.
  TRIREME_TEAM_FUNCTION void weigh() const {
    if (options.score == RouterScore::softmax_of_chosen) {
      const Softmax all =
          softmax(team, options.slots, [&](std::int64_t j) { return logits[scratch.chosen[j]]; });
      team.each(options.slots, [&](std::int64_t j) {
        scratch.terms[j] = options.scale * all.of(team, logits[scratch.chosen[j]]);
      });
    } else {
      const float by = options.scale / divisor();
      team.each(options.slots,
                [&](std::int64_t j) { scratch.terms[j] = by * scratch.scores[scratch.chosen[j]]; });
    }
    team.sync();
  }

  // dlogits from `chosen`, the gradient of the weights, and of the losses: pull may be null.
  // `loss_scale`: of pull and z.
  TRIREME_TEAM_FUNCTION void backward(float* dlogits, const float* dweights, const float* pull,
                                      float z, float loss_scale) const {
    const bool of_chosen = options.score == RouterScore::softmax_of_chosen;
    fill_scores(options.score == RouterScore::sigmoid ? RouterScore::sigmoid
                                                      : RouterScore::softmax);
    balance_gradient(dlogits, pull, loss_scale);
    if (of_chosen) {
      finish_gradient(dlogits, pull != nullptr);
      add_gradient_of_chosen(dlogits, dweights);
    } else {
      add_gradient_of_scores(dlogits, dweights);
      finish_gradient(dlogits, true);
    }
    if (z != 0) add_z_gradient(dlogits, z * loss_scale);
  }

 private:
  // dlogits = d(loss) / d(scores).
  TRIREME_TEAM_FUNCTION void balance_gradient(float* dlogits, const float* pull,
                                              float loss_scale) const {
    const bool divides = options.score == RouterScore::sigmoid && pull != nullptr;
    float sum = 0, pulled = 0;
    if (divides) {
      team.each(experts, [&](std::int64_t e) {
        sum += scratch.scores[e];
        pulled += scratch.scores[e] * pull[e];
      });
      sum = team.sum(sum) + sigmoid_floor;
      pulled = team.sum(pulled) / sum;
    }
    const float by = divides ? loss_scale / sum : loss_scale;
    team.each(experts, [&](std::int64_t e) {
      dlogits[e] = pull == nullptr ? 0.0F : by * (pull[e] - pulled);
    });
    team.sync();
  }

  TRIREME_TEAM_FUNCTION void add_gradient_of_scores(float* dlogits, const float* dweights) const {
    const float sum = divisor();
    float shared = 0;
    for (std::int64_t j = 0; options.renormalize && j < options.slots; ++j)
      shared += dweights[j] * scratch.scores[scratch.chosen[j]];
    shared /= sum;
    team.each(options.slots, [&](std::int64_t j) {
      dlogits[scratch.chosen[j]] += options.scale / sum * (dweights[j] - shared);
    });
    team.sync();
  }

  TRIREME_TEAM_FUNCTION void add_gradient_of_chosen(float* dlogits, const float* dweights) const {
    const Softmax all =
        softmax(team, options.slots, [&](std::int64_t j) { return logits[scratch.chosen[j]]; });
    float shared = 0;
    team.each(options.slots, [&](std::int64_t j) {
      scratch.terms[j] = all.of(team, logits[scratch.chosen[j]]);
      shared += dweights[j] * scratch.terms[j];
    });
    shared = team.sum(shared);
    team.each(options.slots, [&](std::int64_t j) {
      dlogits[scratch.chosen[j]] += options.scale * scratch.terms[j] * (dweights[j] - shared);
    });
    team.sync();
  }

  // From the gradient of the scores to that of the logits.
  TRIREME_TEAM_FUNCTION void finish_gradient(float* dlogits, bool any) const {
    if (!any) return;
    if (options.score == RouterScore::sigmoid) {
      team.each(experts, [&](std::int64_t e) {
        dlogits[e] *= scratch.scores[e] * (1.0F - scratch.scores[e]);
      });
    } else {
      float shared = 0;
      team.each(experts, [&](std::int64_t e) { shared += dlogits[e] * scratch.scores[e]; });
      shared = team.sum(shared);
      team.each(experts,
                [&](std::int64_t e) { dlogits[e] = scratch.scores[e] * (dlogits[e] - shared); });
    }
    team.sync();
  }

  TRIREME_TEAM_FUNCTION void add_z_gradient(float* dlogits, float by) const {
    const Softmax all = softmax(team, experts, [&](std::int64_t e) { return logits[e]; });
    const float slope = 2.0F * by * (all.largest + team.log(all.sum));
    team.each(experts, [&](std::int64_t e) { dlogits[e] += slope * all.of(team, logits[e]); });
    team.sync();
  }
};

// Of one run's expert.
TRIREME_HOST_DEVICE inline float pull_of(std::int32_t count, double counts, float load,
                                         double total_load, std::int64_t experts,
                                         const BalanceLoss& loss) {
  const double share =
      total_load > 0 ? static_cast<double>(load) / total_load * static_cast<double>(experts) : 1.0;
  const double of_run =
      counts > 0 ? static_cast<double>(count) * static_cast<double>(experts) / counts : 0.0;
  return static_cast<float>(static_cast<double>(loss.sequence) * of_run +
                            static_cast<double>(loss.batch) * share);
}

// The step of a bias: exact, because counts and their sum are integers.
TRIREME_HOST_DEVICE inline float bias_step(double total, float count, std::int64_t experts,
                                           float rate) {
  const double less = total - static_cast<double>(count) * static_cast<double>(experts);
  return less > 0 ? rate : (less < 0 ? -rate : 0.0F);
}

}  // namespace trireme::ops
