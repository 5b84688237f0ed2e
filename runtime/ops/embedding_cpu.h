// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/device/device.h"

namespace trireme::ops::cpu {

void embedding_forward(Stream& stream, const Tensor& y, const Tensor& tokens,
                       const Tensor& token_table, const Tensor& position_table);
void embedding_backward(Stream& stream, const Tensor& d_token_table, const Tensor& d_position_table,
                        const Tensor& dy, const Tensor& tokens);
void embedding_partial_forward(Stream& stream, const Tensor& y, const Tensor& tokens,
                               const Tensor& table, std::int64_t first_row);
void add_positions(Stream& stream, const Tensor& y, const Tensor& x, const Tensor& position_table);
void embedding_partial_backward(Stream& stream, const Tensor& d_table, const Tensor& dy,
                                const Tensor& tokens, std::int64_t first_row);

}  // namespace trireme::ops::cpu
