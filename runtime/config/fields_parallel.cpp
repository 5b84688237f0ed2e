// SPDX-License-Identifier: Apache-2.0
#include "runtime/config/field_rows.h"

namespace trireme::config {

std::vector<Field> parallel_fields() {
  return {
      FIELD(
          parallel.search, Free{},
          "let the planner choose data, tensor, expert, context, pipeline, schedule, chunks, zero, "
          "zero_group, "
          "sequence, train.recompute and, where results allow, train.micro_batch; needs "
          "parallel.hardware")
          .changing(Effect::place),
      FIELD(parallel.hardware, Text{},
            "description of the machine for plans and search, see configs/hardware")
          .changing(Effect::place),
      FIELD(parallel.data, (IntegerRange{1, 1 << 20, {}, "auto"}),
            "data-parallel ranks; auto = the ranks left by the other axes"),
      FIELD(parallel.tensor, IntegerRange{1, 65536}, "ranks that share each layer's matrices"),
      FIELD(parallel.expert, (IntegerRange{1, 65536, {}, "auto"}),
            "ranks among which each layer's experts are divided, a multiple of tensor; auto = "
            "tensor"),
      FIELD(parallel.expert_capacity_factor, (NumberRange{1, 1e3}),
            "rows that a rank with experts has memory for, in multiples of an even load; "
            "more are "
            "computed in rounds, none is dropped")
          .formerly_named("parallel.expert_buffer"),
      FIELD(parallel.expert_imbalance, (NumberRange{.low = 1, .high = 65536}),
            "rows that plans assume at the rank with most, over the mean; 1 = balanced routing")
          .changing(Effect::place),
      FIELD(parallel.pipeline, IntegerRange{1, 65536}, "pipeline stages"),
      FIELD(parallel.context, IntegerRange{1, 65536},
            "context-parallel ranks, each with a part of every sequence; ZeRO counts them as "
            "data-parallel ranks"),
      FIELD(parallel.context_blocks, (IntegerRange{1, 65536, {}, "auto"}),
            "blocks that a sequence is cut into, a multiple of context: equal bits for every "
            "divisor; auto = context")
          .changing(Effect::rounding),
      FIELD(parallel.context_mode, one_of<ContextMode>(),
            "share attention by gathering keys and values, or by whole sequences of some heads"),
      FIELD(parallel.zero, IntegerRange{0, 3},
            "ZeRO stage, what is sharded over data-parallel ranks: 1 optimizer state, 2 also "
            "gradients, 3 also parameters"),
      FIELD(parallel.zero_group, (IntegerRange{1, 1 << 20, {}, "all", "node"}),
            "consecutive data-parallel ranks that share out what ZeRO shards; the groups hold "
            "copies of each other and add their gradients. all = one group, node = the ranks of a "
            "host"),
      FIELD(
          parallel.sequence, Free{},
          "sequence parallelism: split norms, dropout and residuals over the tensor ranks, by rows",
          {}, Needs::tensor_split),
      FIELD(parallel.schedule, one_of<ScheduleKind>(), "order of work in the pipeline"),
      FIELD(parallel.chunks, IntegerRange{1, 1024},
            "virtual stages per pipeline stage; more than 1 with interleaved"),
      FIELD(parallel.stage_layers, (IntegerRange{1, 65536, {0, 65536}}),
            "layers of each stage (with chunks: of each virtual stage), embedding and head "
            "included; empty = balanced by FLOPs"),
      FIELD(parallel.tensor_blocks, (IntegerRange{1, 1024, {}, "auto"}),
            "blocks that each layer's matrices are cut into, a multiple of tensor: equal "
            "bits for every divisor; auto = tensor")
          .changing(Effect::rounding)
          .formerly_named("parallel.virtual_tensor"),
      FIELD(parallel.tensor_chunks, IntegerRange{1, 64},
            "parts into which a micro-batch's rows are split, so that a tensor-parallel matmul of "
            "one part overlaps with the all-reduce of the part before; 1 = no split",
            {}, Needs::tensor_split),
      FIELD(parallel.spatial, (IntegerRange{1, 4096, {3, 3}}),
            "ranks along the depth, height and width of a sample, which share it", {},
            Needs::fields),
      FIELD(parallel.spatial_slabs, (IntegerRange{1, 4096, {0, 3}}),
            "parts into which a sample is cut along each axis, multiples of spatial: equal bits "
            "for every number of ranks that divides them; empty = spatial",
            {}, Needs::fields)
          .changing(Effect::rounding),
  };
}

// How the ranks of a layout exchange messages.
std::vector<Field> message_fields() {
  return {
      FIELD(parallel.reducer, one_of<ReducerMode>(),
            "reduce gradients during backward or after it; equal bits"),
      FIELD(parallel.reduce_dtype, one_of<ReduceDtype>(),
            "data type in which data-parallel ranks send gradients: fp32, or the 16-bit type of "
            "precision, half the bytes; sums are in fp32 either way (for GPUs of one host: between "
            "hosts, rings of fp32 send less)")
          .changing(Effect::history),
      FIELD(parallel.bucket_megabytes, (NumberRange{.high = 65536, .zero_word = "auto"}),
            "gradients reduced per collective; auto = 25 on GPUs, 4 on CPUs"),
      FIELD(parallel.check_collectives, Free{},
            "compare every collective across ranks before it runs (slow)")
          .changing(Effect::place),
      FIELD(parallel.timeout_seconds, NumberRange{.high = any_size},
            "longest wait for other ranks before the job ends with a report; 0 = for ever")
          .changing(Effect::place)
          .formerly_named("parallel.watch_seconds"),
  };
}

std::vector<Field> comm_fields() {
  return {
      FIELD(comm.min_ctas, IntegerRange{0, 64},
            "least thread blocks (CTAs) of an NCCL call; 0 = NCCL's choice", on_cuda),
      FIELD(comm.max_ctas, IntegerRange{0, 64},
            "most thread blocks (CTAs) of an NCCL call; matmuls beside it leave it as many SMs; 0 "
            "= by role, as below",
            on_cuda),
      FIELD(comm.link_ctas, (IntegerRange{1, 64, {}, "default"}),
            "the same for messages between pipeline stages; default = max_ctas, or 2; 64 = NCCL's "
            "choice, and matmuls leave nothing",
            on_cuda),
      FIELD(comm.data_ctas, (IntegerRange{1, 64, {}, "default"}),
            "the same for gradients and, again, for parameters gathered by ZeRO; default = "
            "max_ctas, or 16 (ZeRO 2 and 3: 8); matmuls leave as many SMs with ZeRO 2 and 3, and "
            "with max_ctas in the micro-batches that ZeRO 0 and 1 reduce or gather beside",
            on_cuda),
      FIELD(comm.tensor_ctas, (IntegerRange{1, 64, {}, "default"}),
            "the same for sums within layers; default = max_ctas, or NCCL's choice", on_cuda),
  };
}

}  // namespace trireme::config
