// SPDX-License-Identifier: Apache-2.0
#include "runtime/ops/common/dnnl_cpu.h"

#include <omp.h>

#include "runtime/base/error.h"
#include "runtime/ops/common/plan_table.h"

namespace trireme::ops::cpu {
namespace {

PlanTable<PrimitiveKey, CachedPrimitive>& primitives() {
  static thread_local PlanTable<PrimitiveKey, CachedPrimitive> table;
  return table;
}

std::string_view status_name(dnnl_status_t status) {
  switch (status) {
    case dnnl_success:
      return "dnnl_success";
    case dnnl_out_of_memory:
      return "dnnl_out_of_memory";
    case dnnl_invalid_arguments:
      return "dnnl_invalid_arguments";
    case dnnl_unimplemented:
      return "dnnl_unimplemented";
    case dnnl_runtime_error:
      return "dnnl_runtime_error";
    default:
      return "dnnl_status_t";
  }
}

}  // namespace

std::size_t plan_hash(const PrimitiveKey& key) {
  PlanHash hash;
  hash.add(key.kind);
  for (const std::int64_t fact : key.facts)
    hash.add(fact);
  return hash.value();
}

const dnnl::engine& dnnl_engine() {
  static const dnnl::engine engine =
      dnnl_checked("dnnl_engine_create", [] { return dnnl::engine(dnnl::engine::kind::cpu, 0); });
  return engine;
}

const dnnl::stream& dnnl_stream() {
  static thread_local const dnnl::stream stream = [] {
    omp_set_num_threads(1);
    return dnnl_checked("dnnl_stream_create", [] { return dnnl::stream(dnnl_engine()); });
  }();
  return stream;
}

dnnl::memory::data_type dnnl_type(DType type) {
  switch (type) {
    case DType::f32:
      return dnnl::memory::data_type::f32;
    case DType::bf16:
      return dnnl::memory::data_type::bf16;
    case DType::f16:
      return dnnl::memory::data_type::f16;
    case DType::u8:
      return dnnl::memory::data_type::u8;
    case DType::i32:
      return dnnl::memory::data_type::s32;
    default:
      break;
  }
  TRIREME_EXPECTS(false, "oneDNN has no type for {}", name_of(type));
}

dnnl::primitive_attr dnnl_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void dnnl_failed(std::string_view call, dnnl_status_t status, std::string_view text,
                 std::source_location where) {
  const std::string reason =
      text.empty() ? fmt::format("{} ({})", status_name(status), static_cast<int>(status))
                   : fmt::format("{} ({})", status_name(status), text);
  library_failed(call, reason, ExitCode::internal, where);
}

CachedPrimitive::CachedPrimitive(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad,
                                 std::span<const Argument> arguments)
    : primitive_(std::move(primitive)), given_(arguments.size()), total_(arguments.size()) {
  TRIREME_EXPECTS(given_ <= max_arguments, "{} arguments, at most {}", given_, max_arguments);
  std::size_t place = 0;
  for (const Argument& argument : arguments) {
    memories_[place] = dnnl::memory(argument.desc, dnnl_engine(), nullptr);
    arguments_[place] = {argument.index, memories_[place].get()};
    ++place;
  }
  if (scratchpad.get_size() > 0) {
    memories_[place] =
        dnnl::memory(scratchpad, dnnl_engine(), scratchpad_.at_least(scratchpad.get_size()));
    arguments_[place] = {DNNL_ARG_SCRATCHPAD, memories_[place].get()};
    ++total_;
  }
}

void CachedPrimitive::execute(std::span<const void* const> pointers) {
  TRIREME_EXPECTS(pointers.size() == given_, "{} pointers for {} arguments", pointers.size(),
                  given_);
  std::size_t place = 0;
  for (const void* const pointer : pointers) {
    // oneDNN passes sources through the same non-const handle but only writes to destinations.
    dnnl_check(dnnl_memory_set_data_handle(memories_[place].get(true), const_cast<void*>(pointer)),
               "dnnl_memory_set_data_handle");
    ++place;
  }
  dnnl_check(dnnl_primitive_execute(primitive_.get(), dnnl_stream().get(), static_cast<int>(total_),
                                    arguments_.data()),
             "dnnl_primitive_execute");
}

CachedPrimitive* find_primitive(const PrimitiveKey& key) {
  return primitives().find(key);
}

CachedPrimitive& store_primitive(const PrimitiveKey& key,
                                 std::unique_ptr<CachedPrimitive> primitive) {
  return primitives().insert(key, std::move(primitive));
}

}  // namespace trireme::ops::cpu
