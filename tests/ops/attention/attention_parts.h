// SPDX-License-Identifier: Apache-2.0
// Cases of attention over blocks of rows (ops/attention/attention_part.h): whole sequences and
// their blocks.
#pragma once

#include "runtime/ops/attention/attention_part.h"
#include "tests/ops/guarded_tensor.h"

namespace trireme::test::parts {

using Values = std::vector<double>;

// A sequence is cut into 2 K chunks; block b has chunks b and 2 K - 1 - b.
struct Case {
  std::int64_t batch, blocks, chunk, size;
  ops::AttentionOptions options;
  std::vector<std::int64_t> documents{};  // starts in the first sample, after 0
  bool sinks = false;

  [[nodiscard]] std::int64_t length() const { return 2 * blocks * chunk; }
  [[nodiscard]] std::int64_t places() const { return options.heads + 2 * options.kv_heads; }
  [[nodiscard]] std::int64_t group() const { return options.heads / options.kv_heads; }
  [[nodiscard]] std::array<std::int64_t, 2> chunks(std::int64_t block) const {
    return {block, 2 * blocks - 1 - block};
  }
  // In sample b all begin b positions later.
  [[nodiscard]] Values starts() const {
    Values values;
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t t = 0; t < length(); ++t) {
        std::int64_t last = 0;
        for (const std::int64_t begin : documents)
          last = begin + b <= t ? begin + b : last;
        values.push_back(static_cast<double>(last));
      }
    }
    return values;
  }
  [[nodiscard]] std::string name() const {
    return fmt::format("{} x {} blocks of 2 x {}, {} of {} heads of {}, window {}, cap {}, {}{}",
                       batch, blocks, chunk, options.heads, options.kv_heads, size, options.window,
                       options.soft_cap, documents.size(), sinks ? " documents, sinks" : "");
  }
};

// Chunks that end in tiles, beside blocks of 48 queries and 96 keys, and of a row; windows within
// and beyond a chunk; documents of one token, of several chunks, and that end at a cut.
inline const Case cases[] = {
    {1, 1, 1, 1, {.heads = 1, .kv_heads = 1}},
    {2, 1, 33, 16, {.heads = 2, .kv_heads = 2}},
    {1, 2, 25, 20, {.heads = 4, .kv_heads = 2}},
    {2, 3, 17, 8, {.heads = 3, .kv_heads = 1}},
    {1, 4, 48, 24, {.heads = 4, .kv_heads = 4}},
    {1, 2, 50, 80, {.heads = 2, .kv_heads = 1}},
    {1, 1, 7, 256, {.heads = 1, .kv_heads = 1}},
    {2, 3, 21, 16, {.heads = 2, .kv_heads = 1, .window = 7}},
    {1, 2, 64, 12, {.heads = 2, .kv_heads = 2, .window = 97}},
    {1, 4, 20, 16, {.heads = 4, .kv_heads = 2, .soft_cap = 0.7}},
    {1, 3, 31, 16, {.heads = 4, .kv_heads = 2}, {}, true},
    {2, 2, 24, 16, {.heads = 4, .kv_heads = 2, .window = 30, .soft_cap = 2.0}, {9, 10, 70}, true},
    {2, 2, 40, 8, {.heads = 2, .kv_heads = 2}, {1, 2, 39, 40, 41, 119}},
    {1, 3, 35, 12, {.heads = 4, .kv_heads = 1}, {35, 36, 180}},
};

// columns [first, first + count) of rows [row, row + rows) of (B, all_rows, width).
struct Window {
  std::int64_t batch, all_rows, width, row, rows, first, count;

  template <typename Action>
  void each(const Action& action) const {
    for (std::int64_t b = 0; b < batch; ++b) {
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < count; ++c)
          action(static_cast<std::size_t>((b * all_rows + row + r) * width + first + c));
      }
    }
  }
  [[nodiscard]] Values of(const Values& values) const {
    Values taken;
    each([&](std::size_t at) { taken.push_back(values[at]); });
    return taken;
  }
  void put(Values& values, const Values& from) const {
    std::size_t next = 0;
    each([&](std::size_t at) { values[at] = from[next++]; });
  }
};

constexpr double poison = 7.0;

// All tensors of whole sequences, and attention_forward's and attention_backward's results.
struct Whole {
  const Case& c;
  DType dtype;
  GuardedTensor qkv, dout, starts, sinks, out, lse, dqkv, dsinks;
  ops::AttentionOptions options;

  Whole(const Case& of, DType type)
      : c(of),
        dtype(type),
        qkv(random_tensor(type, {c.batch, c.length(), c.places() * c.size}, 1, -2.0, 2.0)),
        dout(random_tensor(type, {c.batch, c.length(), c.options.heads * c.size}, 2)),
        starts(DType::i32, {c.batch, c.length()}, c.starts()),
        sinks(random_tensor(DType::f32, {c.options.heads}, 3)),
        out(type, {c.batch, c.length(), c.options.heads * c.size}),
        lse(DType::f32, {c.batch, c.options.heads, c.length()}),
        dqkv(type, qkv.view().shape),
        dsinks(DType::f32, {c.options.heads},
               Values(static_cast<std::size_t>(c.options.heads), 0.0)),
        options(c.options) {
    if (!c.documents.empty()) options.document_starts = starts.view();
    if (c.sinks) options.sinks = sinks.view();
    ops::attention_forward(stream(), out, lse, qkv, options);
    ops::attention_backward(stream(), dqkv, dout, out, lse, qkv, options,
                            c.sinks ? dsinks.view() : Tensor{});
  }
  [[nodiscard]] Window rows(std::int64_t width, std::int64_t chunk) const {
    return {c.batch, c.length(), width, chunk * c.chunk, c.chunk, 0, width};
  }
  // lse as (B * heads, T, 1).
  [[nodiscard]] Window lse_rows(std::int64_t chunk) const {
    return {c.batch * c.options.heads, c.length(), 1, chunk * c.chunk, c.chunk, 0, 1};
  }
  // Key heads [first, first + count) of all positions; part 0 keys, 1 values.
  [[nodiscard]] GuardedTensor heads_of(int part, std::int64_t first, std::int64_t count) const {
    const std::int64_t place = c.options.heads + part * c.options.kv_heads + first;
    const Window taken{c.batch,    c.length(),     c.places() * c.size, 0,
                       c.length(), place * c.size, count * c.size};
    return {dtype, {c.batch, c.length(), count * c.size}, taken.of(qkv.get())};
  }
};

// The rows of a block, everything else poisoned, and the results of its parts.
struct Block {
  const Whole& whole;
  std::int64_t block;
  std::int64_t rows = 2 * whole.c.chunk;
  GuardedTensor qkv, dout, starts, out, lse, dqkv, dsinks;
  ops::AttentionOptions options;

  Block(const Whole& of, std::int64_t which)
      : whole(of),
        block(which),
        qkv(filled(of.dtype, of.c.places() * of.c.size)),
        dout(filled(of.dtype, of.c.options.heads * of.c.size)),
        starts(DType::i32, {of.c.batch, rows}),
        out(filled(of.dtype, of.c.options.heads * of.c.size)),
        lse(DType::f32, {of.c.batch, of.c.options.heads, rows},
            Values(static_cast<std::size_t>(of.c.batch * of.c.options.heads * rows), poison)),
        dqkv(filled(of.dtype, of.c.places() * of.c.size)),
        dsinks(DType::f32, {of.c.options.heads},
               Values(static_cast<std::size_t>(of.c.options.heads), 0.0)),
        options(of.options) {
    const std::int64_t width = of.c.options.heads * of.c.size;
    qkv.set(gathered(of.qkv.get(), of.c.places() * of.c.size));
    dout.set(gathered(of.dout.get(), width));
    starts.set(gathered(of.c.starts(), 1));
    if (!of.c.documents.empty()) options.document_starts = starts.view();
    // Keys and values inside qkv are not read.
    Values values = qkv.get();
    Window{of.c.batch,
           rows,
           of.c.places() * of.c.size,
           0,
           rows,
           width,
           2 * of.c.options.kv_heads * of.c.size}
        .each([&](std::size_t at) { values[at] = std::nan(""); });
    qkv.set(values);
  }
  [[nodiscard]] GuardedTensor filled(DType dtype, std::int64_t width) const {
    const Shape shape{whole.c.batch, rows, width};
    return {dtype, shape, Values(static_cast<std::size_t>(shape.count()), poison)};
  }
  [[nodiscard]] Window half(std::int64_t width, std::size_t which, std::int64_t first,
                            std::int64_t count) const {
    return {whole.c.batch, rows,  width, static_cast<std::int64_t>(which) * whole.c.chunk,
            whole.c.chunk, first, count};
  }
  // This block's rows of a whole tensor of `width` columns.
  [[nodiscard]] Values gathered(const Values& from, std::int64_t width) const {
    Values values(static_cast<std::size_t>(whole.c.batch * rows * width));
    for (std::size_t which = 0; which < 2; ++which) {
      const Window taken = whole.rows(width, whole.c.chunks(block)[which]);
      half(width, which, 0, width).put(values, taken.of(from));
    }
    return values;
  }
  [[nodiscard]] ops::AttentionPart part(std::size_t which, std::int64_t key_head) const {
    return {.row = static_cast<std::int64_t>(which) * whole.c.chunk,
            .rows = whole.c.chunk,
            .position = whole.c.chunks(block)[which] * whole.c.chunk,
            .key_head = key_head};
  }
  void forward(std::size_t which, std::int64_t key_head, std::int64_t count) const {
    ops::attention_part_forward(stream(), out, lse, qkv, whole.heads_of(0, key_head, count),
                                whole.heads_of(1, key_head, count), part(which, key_head), options);
  }
  void backward(const Tensor& dkeys, const Tensor& dvalues, std::size_t which,
                std::int64_t key_head, std::int64_t count) const {
    ops::attention_part_backward(stream(), dqkv, dkeys, dvalues, dout, out, lse, qkv,
                                 whole.heads_of(0, key_head, count),
                                 whole.heads_of(1, key_head, count), part(which, key_head), options,
                                 whole.c.sinks ? dsinks.view() : Tensor{});
  }
};

// f32 gradients of `count` key heads, all `value`.
inline GuardedTensor sums(const Case& c, std::int64_t count, double value) {
  const Shape shape{c.batch, c.length(), count * c.size};
  return {DType::f32, shape, Values(static_cast<std::size_t>(shape.count()), value)};
}

}  // namespace trireme::test::parts
