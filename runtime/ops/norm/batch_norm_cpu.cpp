// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/norm/channel_norm_cpu.h"

namespace trireme::ops::cpu {

namespace {

// Sums that are given, in place of gradient_sums.
struct GivenSums {
  const float* parts = nullptr;  // (count, 2, C); null: none
  std::int64_t count = 0, values = 0;

  explicit GivenSums(const NormParts& from) {
    if (from.parts.empty()) return;
    parts = from.parts.as<float>();
    count = from.parts.shape[0];
    values = from.values;
  }
  void add_up(const ChannelRows& rows, const ChannelScratch& s) const {
    for (std::int64_t p = 0; p < count; ++p)
      add_part(rows, s, parts + p * 2 * rows.channels);
  }
};

// The running statistics' share of this mean and variance of n values.
void collect(const BatchNormRunning& running, const float* mean, const float* variance,
             std::int64_t n) {
  if (running.mean_sum.empty()) return;
  float* const mean_sum = running.mean_sum.as<float>();
  float* const variance_sum = running.variance_sum.as<float>();
  const float correction = unbiased_factor(n), weight = running.weight;
  const std::int64_t channels = running.mean_sum.count();
#pragma omp simd
  for (std::int64_t c = 0; c < channels; ++c) {
    mean_sum[c] += weight * mean[c];
    variance_sum[c] += weight * (variance[c] * correction);
  }
}

template <ReluMask mask, typename T>
void gradient(const ChannelRows& rows, const NormGradient<T>& g, const GivenSums& given) {
  const ChannelScratch s(rows);
  if (given.parts == nullptr) {
    gradient_sums<mask>(rows, s, g);
  } else {
    spread(g.by, rows, g.epsilon, s.c, s.d, s.e);
    given.add_up(rows, s);
  }
  const std::int64_t values = given.parts == nullptr ? g.count : given.values;
  const double inverse_count = 1.0 / static_cast<double>(values);
  for (std::int64_t c = 0; c < rows.channels; ++c) {
    const ChannelGradient channel(s.total1[c], s.total2[c], inverse_count, g.by.gamma[c],
                                  g.by.variance[c], g.epsilon);
    s.a[c] = channel.scale;
    s.b[c] = channel.offset;
    s.f[c] = channel.slope;
    g.dgamma[c] += channel.dgamma;
    g.dbeta[c] += channel.dbeta;
  }
  input_gradient<mask>(rows, s, g);
}

}  // namespace

void batch_norm_statistics(Stream& stream, const Tensor& mean, const Tensor& variance,
                           const Tensor& x, const BatchNormRunning& running) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, [mean = mean.as<float>(), variance = variance.as<float>(), x = x.as<T>(),
                     running, count = x.shape.rows(), channels = x.shape.back()] {
      const ChannelRows rows(channels);
      const ChannelScratch s(rows);
      channel_statistics(rows, s, x, count);
      for (std::int64_t c = 0; c < channels; ++c) {
        mean[c] = static_cast<float>(s.total1[c]);
        variance[c] = static_cast<float>(s.total2[c] / static_cast<double>(count));
      }
      collect(running, mean, variance, count);
    });
  });
}

void batch_norm_join(Stream& stream, const Tensor& mean, const Tensor& variance,
                     const Tensor& parts, const BatchNormRunning& running) {
  enqueue(stream,
          [mean = mean.as<float>(), variance = variance.as<float>(), part = parts.as<float>(),
           count = parts.shape[0], channels = mean.count(), running] {
            double values = 0;
            for (std::int64_t c = 0; c < channels; ++c) {
              PartsJoin all;
              for (std::int64_t p = 0; p < count; ++p)
                all.add(part + p * 3 * channels + c, channels);
              values = all.values;
              mean[c] = static_cast<float>(all.moments.mean);
              variance[c] = static_cast<float>(all.moments.squares / values);
            }
            collect(running, mean, variance, static_cast<std::int64_t>(values));
          });
}

void batch_norm_apply(Stream& stream, const Tensor& y, const Tensor& x,
                      const BatchNormChannels& channels, const BatchNormOptions& options,
                      const BatchNormSummand& summand) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const NormApplication<T> a{y.as<T>(),
                               x.as<T>(),
                               summand.x.empty() ? nullptr : summand.x.as<T>(),
                               NormChannels(channels),
                               NormChannels(summand.channels),
                               x.shape.rows(),
                               options};
    enqueue(stream, [a, channels = x.shape.back()] {
      const ChannelRows rows(channels);
      const auto run = [&]<NormSummand added>(std::integral_constant<NormSummand, added>) {
        a.options.relu ? apply_norm<added, true>(rows, a) : apply_norm<added, false>(rows, a);
      };
      if (a.summand == nullptr)
        run(std::integral_constant<NormSummand, NormSummand::none>{});
      else if (a.summand_by.gamma == nullptr)
        run(std::integral_constant<NormSummand, NormSummand::plain>{});
      else
        run(std::integral_constant<NormSummand, NormSummand::normalized>{});
    });
  });
}

void batch_norm_gradient_sums(Stream& stream, const Tensor& sums, const Tensor& dy, const Tensor& x,
                              const BatchNormChannels& channels, const BatchNormOptions& options) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const NormGradient<T> g{.dx = nullptr,
                            .dy = dy.as<T>(),
                            .x = x.as<T>(),
                            .sum = nullptr,
                            .dgamma = nullptr,
                            .dbeta = nullptr,
                            .by = NormChannels(channels),
                            .count = x.shape.rows(),
                            .epsilon = options.epsilon};
    enqueue(stream, [g, sums = sums.as<float>(), relu = options.relu, channels = x.shape.back()] {
      const ChannelRows rows(channels);
      const ChannelScratch s(rows);
      relu ? gradient_sums<ReluMask::input>(rows, s, g) : gradient_sums<ReluMask::none>(rows, s, g);
      for (std::int64_t c = 0; c < channels; ++c) {
        sums[c] = static_cast<float>(s.total1[c]);
        sums[channels + c] = static_cast<float>(s.total2[c]);
      }
    });
  });
}

void batch_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const BatchNormChannels& channels, const BatchNormOptions& options,
                         const Tensor& sum, const NormParts& given) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const NormGradient<T> g{dx.as<T>(),
                            dy.as<T>(),
                            x.as<T>(),
                            sum.empty() ? nullptr : sum.as<T>(),
                            dgamma.as<float>(),
                            dbeta.as<float>(),
                            NormChannels(channels),
                            x.shape.rows(),
                            options.epsilon};
    enqueue(stream, [g, relu = options.relu, sums = GivenSums(given), channels = x.shape.back()] {
      const ChannelRows rows(channels);
      if (g.sum != nullptr)
        gradient<ReluMask::sum>(rows, g, sums);
      else
        relu ? gradient<ReluMask::input>(rows, g, sums) : gradient<ReluMask::none>(rows, g, sums);
    });
  });
}

}  // namespace trireme::ops::cpu
