// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/kernel_names.h"

#include <cxxabi.h>
#include <elf.h>
#include <link.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string_view>

#include "runtime/base/file.h"
#include "runtime/device/cuda/cuda_stream.h"
#include "runtime/device/work_log.h"

namespace trireme::cuda {
namespace {

std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  return status == 0 ? std::string(text.get()) : std::string(symbol);
}

// Drops result type, namespaces and arguments.
std::string shortened(std::string name) {
  for (const char* const part : {"(anonymous namespace)::", "trireme::", "ops::", "cuda::"}) {
    for (auto at = name.find(part); at != std::string::npos; at = name.find(part))
      name.erase(at, std::string_view(part).size());
  }
  if (const auto at = name.find('('); at != std::string::npos && at > 0) name.erase(at);
  if (name.starts_with("void ")) name.erase(0, 5);
  return name;
}

// The program's load address relative to the addresses in its file.
std::uintptr_t load_offset() {
  std::uintptr_t offset = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* found) {
        *static_cast<std::uintptr_t*>(found) = info->dlpi_addr;
        return 1;  // the first entry is the program
      },
      &offset);
  return offset;
}

template <typename T>
std::span<const T> table(std::span<const char> file, std::size_t offset, std::size_t bytes) {
  if (offset + bytes > file.size()) return {};
  return {reinterpret_cast<const T*>(file.data() + offset), bytes / sizeof(T)};
}

// Mangled names of the program's functions by address in its file.
std::map<std::uintptr_t, std::string> read_symbols() {
  std::map<std::uintptr_t, std::string> symbols;
  constexpr std::uint64_t largest = std::uint64_t{1} << 32;
  const std::string text = read_whole_file("/proc/self/exe", largest, ExitCode::internal);
  const std::span<const char> file(text.data(), text.size());
  Elf64_Ehdr head{};
  if (file.size() < sizeof head) return symbols;
  std::memcpy(&head, file.data(), sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return symbols;
  const auto sections = table<Elf64_Shdr>(file, head.e_shoff, head.e_shnum * sizeof(Elf64_Shdr));
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    const auto names = table<char>(file, strings.sh_offset, strings.sh_size);
    for (const Elf64_Sym& symbol : table<Elf64_Sym>(file, section.sh_offset, section.sh_size)) {
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_name < names.size())
        symbols.emplace(symbol.st_value, names.data() + symbol.st_name);
    }
  }
  return symbols;
}

}  // namespace

std::string kernel_name(const void* kernel) {
  static const std::map<std::uintptr_t, std::string> symbols = read_symbols();
  static const std::uintptr_t offset = load_offset();
  const auto found = symbols.find(reinterpret_cast<std::uintptr_t>(kernel) - offset);
  return found == symbols.end() ? "kernel" : shortened(demangled(found->second.c_str()));
}

bool asked_to_launch(Stream& stream, const void* kernel, const Grid& grid) {
  if (WorkLog* const log = WorkLog::current())
    log->note_kernel(kernel_name(kernel), {grid.blocks, grid.threads, grid.shared_bytes});
  return CudaStream::of(stream).runs();
}

bool asked_to_call(Stream& stream, const char* library, int kernels) {
  if (WorkLog* const log = WorkLog::current()) log->note(WorkKind::library, library, 0, kernels);
  return CudaStream::of(stream).runs();
}

}  // namespace trireme::cuda
