// SPDX-License-Identifier: Apache-2.0
// Each sample is a batch norm of its own, whose channels share the statistics of their group.
#include "runtime/device/cpu/cpu_stream.h"
#include "runtime/ops/norm/channel_norm_cpu.h"
#include "runtime/ops/norm/group_norm.h"

namespace trireme::ops::cpu {
namespace {

// The operands of one sample, whose rows and statistics follow those of the samples before.
NormChannels sample_of(NormChannels by, std::int64_t sample, std::int64_t channels) {
  by.mean += sample * channels;
  by.variance += sample * channels;
  return by;
}

// Given parts in place of sums over a sample's own values.
struct GivenParts {
  const float* parts = nullptr;  // (count, rows of each sample, C); null: none
  std::int64_t count = 0, values = 0, samples = 0;

  GivenParts(const NormParts& from, std::int64_t samples_)
      : parts(from.parts.as<float>()), values(from.values), samples(samples_) {
    if (parts != nullptr) count = from.parts.shape[0];
  }
  [[nodiscard]] const float* of(std::int64_t part, std::int64_t sample, std::int64_t rows,
                                std::int64_t channels) const {
    return parts + (part * samples + sample) * rows * channels;
  }
  // What channel_statistics leaves.
  void join(const ChannelScratch& s, std::int64_t sample, std::int64_t channels) const {
    for (std::int64_t c = 0; c < channels; ++c) {
      PartsJoin all;
      for (std::int64_t p = 0; p < count; ++p)
        all.add(of(p, sample, 3, channels) + c, channels);
      s.total1[c] = all.moments.mean;
      s.total2[c] = all.moments.squares;
    }
  }
  // What gradient_sums leaves.
  template <typename T>
  void add_up(const ChannelRows& rows, const ChannelScratch& s, std::int64_t sample,
              const NormGradient<T>& g) const {
    spread(g.by, rows, g.epsilon, s.c, s.d, s.e);
    for (std::int64_t p = 0; p < count; ++p)
      add_part(rows, s, of(p, sample, 2, rows.channels));
  }
};

// The moments of `width` channels with `count` values each, from those of the channels.
Moments moments_of_group(const double* means, const double* squares, std::int64_t width,
                         std::int64_t count) {
  Moments all{0.0, 0.0};
  for (std::int64_t c = 0; c < width; ++c)
    all.mean += means[c] / static_cast<double>(width);
  for (std::int64_t c = 0; c < width; ++c) {
    const double delta = means[c] - all.mean;
    all.squares += squares[c] + static_cast<double>(count) * (delta * delta);
  }
  return all;
}

// From each channel's moments in s.total1 and s.total2.
void write_statistics(const ChannelScratch& s, float* mean, float* variance, std::int64_t channels,
                      std::int64_t groups, std::int64_t count) {
  const std::int64_t width = channels / groups;
  for (std::int64_t first = 0; first < channels; first += width) {
    const Moments all = moments_of_group(s.total1 + first, s.total2 + first, width, count);
    const double values = static_cast<double>(count) * static_cast<double>(width);
    std::fill_n(mean + first, width, static_cast<float>(all.mean));
    std::fill_n(variance + first, width, static_cast<float>(all.squares / values));
  }
}

// Leaves what input_gradient() takes, and adds to dgamma and dbeta if they are there. `values`: of
// each channel.
template <typename T>
void finish_gradient(const ChannelScratch& s, const NormGradient<T>& g, std::int64_t channels,
                     std::int64_t groups, std::int64_t values) {
  const std::int64_t width = channels / groups;
  const double inverse = 1.0 / (static_cast<double>(values) * static_cast<double>(width));
  for (std::int64_t first = 0; first < channels; first += width) {
    double sum = 0.0, product = 0.0;
    for (std::int64_t c = first; c < first + width; ++c) {
      sum += static_cast<double>(g.by.gamma[c]) * s.total1[c];
      product += static_cast<double>(g.by.gamma[c]) * s.total2[c];
    }
    const ChannelGradient group(sum, product, inverse, 1.0F, g.by.variance[first], g.epsilon);
    for (std::int64_t c = first; c < first + width; ++c) {
      const ChannelGradient own(s.total1[c], s.total2[c], inverse, g.by.gamma[c], g.by.variance[c],
                                g.epsilon);
      s.a[c] = own.scale;
      s.b[c] = group.offset;
      s.f[c] = group.slope;
      if (g.dgamma == nullptr) continue;
      g.dgamma[c] += own.dgamma;
      g.dbeta[c] += own.dbeta;
    }
  }
}

template <ReluMask mask, typename T>
void gradient_of_samples(const ChannelRows& rows, NormGradient<T> g, std::int64_t groups,
                         const GivenParts& given) {
  const NormChannels by = g.by;
  for (std::int64_t sample = 0; sample < given.samples; ++sample) {
    g.by = sample_of(by, sample, rows.channels);
    const ChannelScratch s(rows);
    if (given.parts == nullptr)
      gradient_sums<mask>(rows, s, g);
    else
      given.add_up(rows, s, sample, g);
    finish_gradient(s, g, rows.channels, groups, given.parts == nullptr ? g.count : given.values);
    input_gradient<mask>(rows, s, g);
    const std::int64_t size = g.count * rows.channels;
    g.dx += size;
    g.dy += size;
    g.x += size;
  }
}

}  // namespace

void group_norm_forward(Stream& stream, const Tensor& y, const Tensor& x,
                        const BatchNormChannels& channels, const GroupNormOptions& options,
                        const NormParts& given) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    enqueue(stream, [y = y.as<T>(), x = x.as<T>(), by = NormChannels(channels),
                     mean = channels.mean.as<float>(), variance = channels.variance.as<float>(),
                     all = GivenParts(given, x.shape[0]), count = x.shape.rows() / x.shape[0],
                     width = x.shape.back(), options] {
      const ChannelRows rows(width);
      for (std::int64_t sample = 0; sample < all.samples; ++sample) {
        const std::int64_t first = sample * count * width;
        const ChannelScratch s(rows);
        if (all.parts == nullptr)
          channel_statistics(rows, s, x + first, count);
        else
          all.join(s, sample, width);
        write_statistics(s, mean + sample * width, variance + sample * width, width, options.groups,
                         all.parts == nullptr ? count : all.values);
        const NormChannels own = sample_of(by, sample, width);
        const NormApplication<T> a{
            y + first, x + first, nullptr, own, own, count, {.epsilon = options.epsilon}};
        options.relu ? apply_norm<NormSummand::none, true>(rows, a)
                     : apply_norm<NormSummand::none, false>(rows, a);
      }
    });
  });
}

void group_norm_backward(Stream& stream, const Tensor& dx, const Tensor& dgamma,
                         const Tensor& dbeta, const Tensor& dy, const Tensor& x,
                         const BatchNormChannels& channels, const GroupNormOptions& options,
                         const NormParts& given) {
  visit_compute_dtype(x.dtype, [&]<typename T>(T) {
    const NormGradient<T> g{dx.as<T>(),
                            dy.as<T>(),
                            x.as<T>(),
                            nullptr,
                            dgamma.as<float>(),
                            dbeta.as<float>(),
                            NormChannels(channels),
                            x.shape.rows() / x.shape[0],
                            options.epsilon};
    enqueue(stream, [g, options, all = GivenParts(given, x.shape[0]), channels = x.shape.back()] {
      const ChannelRows rows(channels);
      options.relu ? gradient_of_samples<ReluMask::input>(rows, g, options.groups, all)
                   : gradient_of_samples<ReluMask::none>(rows, g, options.groups, all);
    });
  });
}

}  // namespace trireme::ops::cpu
