// SPDX-License-Identifier: Apache-2.0
// How far predicted maps of values are off, by the variation of the true ones: the metric of The
// Well (Ohana et al., 2024).
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// errors(B) f32 = n * mean over the channels of sqrt(MSE / (variance + 1e-7)), both over a sample's
// pixels, the variance of the targets divided by their number less one; n: how many targets of the
// sample count. A sum over samples, divided by all counted targets, so is the mean of samples with
// equal n. predictions(B, P * channels), a compute dtype; targets(B * P * channels) f32: those that
// are NaN count nowhere, nor do channels without any.
void vrmse(Stream& stream, const Tensor& errors, const Tensor& predictions, const Tensor& targets,
           std::int64_t channels);

}  // namespace trireme::ops
