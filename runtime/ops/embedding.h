// SPDX-License-Identifier: Apache-2.0
// Token plus learned position embedding.
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops {

// y(B, T, C) = token_table(V, C)[tokens(B, T)] + position_table(P, C)[t], P >= T; the position
// table may be absent. tokens are i32 in [0, V): validated where data enters, not here.
void embedding_forward(Stream& stream, const Tensor& y, const Tensor& tokens,
                       const Tensor& token_table, const Tensor& position_table = {});

// Adds dy(B, T, C) into the f32 gradients (V, C) and (P, C), in a fixed order: same bits every run.
void embedding_backward(Stream& stream, const Tensor& d_token_table, const Tensor& d_position_table,
                        const Tensor& dy, const Tensor& tokens);

}  // namespace trireme::ops
