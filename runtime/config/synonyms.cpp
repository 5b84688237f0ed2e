// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <cctype>
#include <ranges>

#include "runtime/config/suggest.h"

namespace trireme::config {
namespace {

constexpr auto rows = std::to_array<Synonyms>({
    {"run.directory", "output_dir out_dir save_dir log_dir default_root_dir save"},
    {"run.seed", "seed manual_seed random_seed global_seed"},
    {"device.type", "device accelerator"},
    {"device.graphs", "cuda_graph cuda_graphs enable_cuda_graph"},
    {"precision", "bf16 fp16 fp8 fp32 dtype torch_dtype amp use_amp mixed_precision"},
    {"reproducibility", "deterministic deterministic_mode use_deterministic_algorithms"},
    {"model.layers", "num_layers n_layer n_layers num_hidden_layers"},
    {"model.hidden", "hidden_size d_model n_embd embed_dim model_dim"},
    {"model.heads", "num_heads n_head n_heads num_attention_heads nhead"},
    {"model.kv_heads", "num_query_groups num_key_value_heads n_kv_heads"},
    {"model.intermediate", "ffn_hidden_size intermediate_size d_ff mlp_dim n_inner"},
    {"model.context",
     "seq_length max_seq_length max_seq_len seq_len sequence_length context_length block_size "
     "max_position_embeddings n_positions n_ctx"},
    {"model.vocabulary", "vocab_size padded_vocab_size n_vocab"},
    {"model.dropout", "attention_dropout hidden_dropout dropout_rate"},
    {"model.activation", "hidden_act activation_function"},
    {"model.norm_epsilon", "layernorm_epsilon layer_norm_eps rms_norm_eps norm_eps"},
    {"model.init_std", "initializer_range init_method_std"},
    {"model.window", "sliding_window window_size"},
    {"model.tied_head", "tie_word_embeddings untie_embeddings_and_output_weights"},
    {"model.experts", "num_experts moe_num_experts num_local_experts"},
    {"model.experts_per_token", "moe_router_topk num_experts_per_tok"},
    {"model.classes", "num_classes num_labels n_classes"},
    {"model.patch", "patch_size"},
    {"data.path", "data_path data_dir dataset train_data train_file train_files"},
    {"data.validation_path", "valid_data val_data validation_file eval_dataset"},
    {"data.workers", "num_workers dataloader_num_workers"},
    {"data.prefetch", "prefetch_factor"},
    {"data.last_batch", "drop_last dataloader_drop_last"},
    {"parallel.data", "dp dp_size data_parallel data_parallel_size"},
    {"parallel.tensor",
     "tp tp_size tensor_parallel tensor_parallel_size tensor_model_parallel_size"},
    {"parallel.pipeline",
     "pp pp_size pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size"},
    {"parallel.context", "cp cp_size context_parallel context_parallel_size"},
    {"parallel.expert",
     "ep ep_size expert_parallel expert_parallel_size expert_model_parallel_size"},
    {"parallel.sequence", "sp sequence_parallel"},
    {"parallel.zero", "zero_stage use_distributed_optimizer fsdp sharding_strategy"},
    {"parallel.chunks", "virtual_pipeline_model_parallel_size vpp"},
    {"parallel.bucket_megabytes", "bucket_cap_mb ddp_bucket_size reduce_bucket_size"},
    {"parallel.timeout_seconds", "ddp_timeout distributed_timeout_minutes nccl_timeout"},
    {"train.steps", "max_steps train_iters train_steps num_steps max_iters iterations"},
    {"train.epochs", "num_epochs max_epochs num_train_epochs"},
    {"train.global_batch",
     "batch_size gbs global_batch_size train_batch_size total_batch_size grad_accum "
     "gradient_accumulation_steps accumulate_grad_batches"},
    {"train.micro_batch",
     "mbs micro_batch_size per_device_train_batch_size train_micro_batch_size_per_gpu grad_accum "
     "gradient_accumulation_steps accumulate_grad_batches"},
    {"train.recompute",
     "activation_checkpointing gradient_checkpointing checkpoint_activations "
     "recompute_granularity"},
    {"train.clip_norm", "clip_grad grad_clip max_grad_norm gradient_clip_val gradient_clipping"},
    {"train.eval_every", "eval_interval eval_steps eval_freq val_check_interval"},
    {"train.eval_batches", "eval_iters limit_val_batches"},
    {"train.log_every", "log_interval log_freq logging_steps log_every_n_steps"},
    {"train.initial_weights", "pretrained model_name_or_path init_from finetune"},
    {"train.label_smoothing", "label_smoothing_factor"},
    {"train.patience", "early_stopping early_stopping_patience"},
    {"lora.rank", "lora_r r"},
    {"lora.targets", "target_modules"},
    {"optimizer.name", "optim opt optimizer_type"},
    {"optimizer.learning_rate", "lr max_lr base_lr peak_lr"},
    {"optimizer.betas", "beta1 beta2 adam_beta1 adam_beta2"},
    {"optimizer.epsilon", "eps adam_eps adam_epsilon"},
    {"optimizer.weight_decay", "wd"},
    {"lr_schedule.name", "scheduler lr_scheduler lr_scheduler_type lr_decay_style"},
    {"lr_schedule.warmup_steps", "warmup warmup_iters lr_warmup_iters lr_warmup_steps"},
    {"lr_schedule.warmup_fraction", "warmup_ratio lr_warmup_fraction"},
    {"lr_schedule.minimum_ratio", "min_lr min_lr_ratio eta_min"},
    {"checkpoint.every_steps",
     "save_interval save_steps ckpt_interval checkpoint_interval checkpoint_every "
     "every_n_train_steps"},
    {"checkpoint.keep", "save_total_limit save_top_k"},
    {"checkpoint.async", "async_save async_checkpoint"},
    {"telemetry.trace", "profile profiler use_pytorch_profiler"},
});

char folded(char letter) {
  return letter == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
}

}  // namespace

std::span<const Synonyms> all_synonyms() {
  return rows;
}

std::vector<std::string_view> keys_called(std::string_view name) {
  std::vector<std::string_view> keys;
  for (const Synonyms& row : rows) {
    const bool listed = std::ranges::any_of(std::views::split(row.names, ' '), [&](auto&& word) {
      return std::ranges::equal(word, name, {}, {}, folded);
    });
    if (listed) keys.push_back(row.key);
  }
  return keys;
}

}  // namespace trireme::config
