// SPDX-License-Identifier: Apache-2.0
#include "launch/cli/commands.h"
#include "launch/cli/shared_options.h"

#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <sstream>

#include "data/pack/pack_images.h"
#include "data/pack/pack_text.h"
#include "data/pack/progress.h"
#include "data/sets/id_names.h"
#include "launch/cli/number_check.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/terminal.h"

namespace trireme {
namespace {

void print_split(const PackedSplit& split, const char* unit) {
  const std::string counted =
      split.counted ? fmt::format(" ({:.1f} % count)", 100.0 * static_cast<double>(*split.counted) /
                                                           static_cast<double>(split.samples))
                    : "";
  fmt::print("{}: {} {}{}{} in {} shard{}\n", split.path, split.samples, unit, counted,
             split.documents > 0
                 ? fmt::format(", {} document{}", split.documents, split.documents == 1 ? "" : "s")
                 : "",
             split.shards, split.shards == 1 ? "" : "s");
}

struct TextArguments {
  PackTextOptions options;
  std::string dtype = "auto";
  std::string separator;
  std::string invalid = "replace", chat_template, targets;
  bool quiet = false;
};

void run_pack_text(TextArguments& arguments) {
  const Interruption interruption;
  PackTextOptions& options = arguments.options;
  if (arguments.dtype != "auto")
    options.dtype = arguments.dtype == "uint32" ? DType::u32 : DType::u16;
  options.separator = unescape(arguments.separator);
  options.refuse_invalid = arguments.invalid == "refuse";
  options.progress = !arguments.quiet;
  if (!arguments.chat_template.empty())
    options.chat_template = arguments.chat_template == "chatml"   ? ChatTemplate::chatml
                            : arguments.chat_template == "llama3" ? ChatTemplate::llama3
                                                                  : ChatTemplate::rendered;
  for (const auto kind :
       {TextTargets::label, TextTargets::values, TextTargets::labels, TextTargets::token_classes})
    if (arguments.targets == name_of(kind)) options.targets = kind;
  const PackedText packed = pack_text(options);
  for (const std::string& message : packed.skipped)
    fmt::print(stderr, "skipped: {}\n", for_people(message));
  if (!packed.skipped.empty()) fmt::print("bad lines skipped: {}\n", packed.skipped.size());
  if (packed.cut > 0) fmt::print("texts cut to {} tokens: {}\n", options.longest, packed.cut);
  if (packed.replaced > 0)
    fmt::print("{} times U+FFFD in place of bytes that are not UTF-8\n", packed.replaced);
  for (const PackedSplit& split : packed.splits)
    print_split(split, "tokens");
}

void add_tokenizer_options(CLI::App& command, TextArguments& arguments) {
  PackTextOptions& options = arguments.options;
  command.add_option(
      "--tokenizer", options.tokenizer,
      "tokenizer.json of a model (BPE, WordPiece or Unigram: Llama, GPT-2, BERT, T5, "
      "...) or a *.model of SentencePiece; default: one token per byte");
  command.add_option("--begin-token", options.begin_token,
                     "Token to add before each document, e.g. '<|endoftext|>' (default: none; with "
                     "--chat-template llama3 '<|begin_of_text|>')");
  command.add_option("--end-token", options.end_token,
                     "Token to add after each document, e.g. '<|endoftext|>'");
  add_value(command, "--invalid-utf8", arguments.invalid,
            "What becomes of bytes that are not UTF-8, with --tokenizer: U+FFFD, counted, or "
            "nothing is packed",
            CLI::IsMember({"replace", "refuse"}));
  command.add_option(
      "--json-field", options.json_field,
      "Inputs are JSON lines, plain, gzip or zstd: this field of each is a document");
  command.add_flag("--pairs", options.pairs,
                   "Inputs are JSON lines {\"prompt\": ..., \"completion\": ...}; tokens of the "
                   "prompt are no targets");
  command
      .add_option("--chat-template", arguments.chat_template,
                  "Inputs are JSON lines {\"messages\": [{\"role\": ..., \"content\": ...}, ...]} "
                  "(system, user, assistant), formatted by this template; only tokens of the "
                  "assistant are targets; rendered: lines of token ids, which "
                  "scripts/pack_chats.py makes by the template of any model")
      ->check(CLI::IsMember({"chatml", "llama3", "rendered"}));
  command
      .add_option(
          "--targets", arguments.targets,
          "Inputs are JSON lines {\"text\": ..., \"label\": ...}, each a text to classify or "
          "measure by model.head; the label is a name or number (class), a number or a list "
          "of them (values), or a list of names (labels); for token_classes {\"tokens\": "
          "[words], \"label\": [a name or number for each, -100: none]}. The tokens around "
          "texts are those of the tokenizer")
      ->check(CLI::IsMember({"class", "values", "labels", "token_classes"}));
  command.add_option("--longest", options.longest,
                     "With --targets: cut longer texts to this many tokens (model.context)");
  command.add_option("--classes-of", options.classes_of,
                     "With --targets: number the classes as this packed data set does, and refuse "
                     "others");
  command.add_flag("--skip-bad", options.skip_bad,
                   "Leave out lines without the expected fields, and name them");
  command.add_option("--threads", options.threads, "Threads that tokenize (default: one per core)")
      ->check(integer_between(1, 1024));
}

void add_pack_text(CLI::App& data) {
  auto* const command = data.add_subcommand(
      "pack-text", "Pack text into shards by a tokenizer, or one token per byte");
  const auto arguments = std::make_shared<TextArguments>();
  PackTextOptions& options = arguments->options;
  command
      ->add_option("inputs", options.inputs,
                   "Files, directories (all files below, sorted), or - for stdin")
      ->required();
  command->add_option("--out", options.output, "Directory to make")->required();
  command->add_option(
      "--validation", options.validation,
      "Fraction of the text, taken from its end, for OUT/validation; the rest goes to OUT/train "
      "(0: all)");
  command->add_option("--split", options.split, "Write OUT/SPLIT, e.g. train or validation")
      ->excludes("--validation");
  command->add_option("--document-separator", arguments->separator,
                      "Ends a document, besides the end of a file; stays in the text; \\n, \\t, "
                      "\\0, \\xNN are understood");
  add_value(*command, "--shard-tokens", options.shard_tokens, "Tokens per shard",
            integer_from<std::uint64_t>(1));
  add_value(*command, "--dtype", arguments->dtype, "Stored type",
            CLI::IsMember({"auto", "uint16", "uint32"}));
  add_tokenizer_options(*command, *arguments);
  command->add_flag("--force", options.force, "Replace an existing data set in one step");
  command->add_flag("--quiet", arguments->quiet, "Show no progress");
  command->footer(
      "Examples: trireme data pack-text web.jsonl.gz --json-field text --tokenizer tokenizer.json "
      "--end-token '<|endoftext|>' --out data/web --validation 0.01\n"
      "          trireme data pack-text chats.jsonl --chat-template chatml --tokenizer "
      "tokenizer.json "
      "--out data/chats --validation 0.05\n"
      "          bible -f gen1:1-rev22:21 | trireme data pack-text - --out data/kjv --validation "
      "0.05");
  on_one_process(*command, [arguments] { run_pack_text(*arguments); });
}

struct ImageArguments {
  PackImagesOptions options;
  std::string class_file;
  std::string classes_of;
  std::int64_t class_count = 0;
  bool keep_order = false;
  bool quiet = false;
};

std::vector<std::string> read_class_file(const std::string& path) {
  constexpr std::uint64_t limit = std::uint64_t{1} << 26;
  std::istringstream file(read_whole_file(path, limit, ExitCode::data));
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  if (names.empty()) fail(ExitCode::data, "{}: holds no class names; write one per line", path);
  return names;
}

std::vector<std::string> class_names_of(const std::string& path) {
  std::vector<std::string> names;
  for (const IdNames& it : id_names_below(path)) {
    if (it.classes.size() > names.size()) names = it.classes;
  }
  if (names.empty()) fail(ExitCode::data, "--classes-of: {}: holds no class names", path);
  return names;
}

void run_pack_images(ImageArguments& arguments) {
  const Interruption interruption;
  PackImagesOptions& options = arguments.options;
  if (!arguments.classes_of.empty()) options.class_names = class_names_of(arguments.classes_of);
  if (!arguments.class_file.empty()) options.class_names = read_class_file(arguments.class_file);
  for (std::int64_t i = 0; i < arguments.class_count; ++i)
    options.class_names.push_back(fmt::format("{}", i));
  options.shuffle = !arguments.keep_order;
  options.progress = !arguments.quiet;
  const PackedImages packed = pack_images(options);
  for (const std::string& message : packed.skipped)
    fmt::print(stderr, "skipped: {}\n", for_people(message));
  if (!packed.skipped.empty()) fmt::print("{} bad images skipped\n", packed.skipped.size());
  for (const PackedSplit& split : packed.splits)
    print_split(split, "images");
}

void add_pack_images(CLI::App& data) {
  auto* const command = data.add_subcommand("pack-images", "Pack labelled images into shards");
  const auto arguments = std::make_shared<ImageArguments>();
  PackImagesOptions& options = arguments->options;
  command
      ->add_option(
          "input", options.input,
          "Directory INPUT/<class>/<image>.jpg|png; or of splits (train, val, validation, "
          "test), INPUT/<split>/<class>/..., each packed to OUT/<split> with the classes of "
          "train; or an IDX file, plain or .gz")
      ->required();
  command->add_option("--labels", options.labels, "IDX file of the labels (with an IDX input)");
  command->add_option("--out", options.output, "Directory to make")->required();
  command->add_option(
      "--validation", options.validation,
      "Fraction of the images for OUT/validation; the rest goes to OUT/train (0: all)");
  command->add_option("--split", options.split, "Write OUT/SPLIT, e.g. train or validation")
      ->excludes("--validation");
  command
      ->add_option("--resize", options.resize, "Scale the short side to this and crop the centre")
      ->check(integer_between(1, 65536));
  command
      ->add_option("--channels", options.channels,
                   "1 (grey) or 3 (RGB); default: as the input, folders 3")
      ->check(CLI::IsMember({1, 3}));
  auto* const names = command->add_option("--class-names", options.class_names,
                                          "Names of the classes, in order, separated by commas");
  names->delimiter(',');
  auto* const file =
      command
          ->add_option("--class-file", arguments->class_file, "File with one class name per line")
          ->excludes(names);
  auto* const count =
      command->add_option("--classes", arguments->class_count, "Number of classes, named 0, 1, ...")
          ->check(integer_between(1, 1 << 20))
          ->excludes(names)
          ->excludes(file);
  command
      ->add_option("--classes-of", arguments->classes_of,
                   "Names and order of the classes as in this data set or shard")
      ->excludes(names)
      ->excludes(file)
      ->excludes(count);
  command->add_flag("--no-shuffle", arguments->keep_order, "Keep the order of the input");
  add_value(*command, "--seed", options.seed, "Seed of the shuffle",
            integer_from<std::uint64_t>(0));
  command->add_flag("--skip-bad", options.skip_bad,
                    "Leave out images that cannot be decoded, and name them");
  add_value(*command, "--max-pixels", options.max_pixels,
            "Refuse larger images before decoding them", integer_from<std::uint64_t>(1));
  command
      ->add_option("--shard-images", options.shard_images,
                   "Images per shard (default: about 1 GiB)")
      ->check(integer_from<std::uint64_t>(1));
  command->add_option("--threads", options.threads, "Threads that decode (default: one per core)")
      ->check(integer_between(1, 1024));
  command->add_flag("--force", options.force, "Replace an existing data set in one step");
  command->add_flag("--quiet", arguments->quiet, "Show no progress");
  command->footer(
      "Examples: trireme data pack-images train-images-idx3-ubyte.gz --labels "
      "train-labels-idx1-ubyte.gz "
      "--out data/fashion --split train\n"
      "          trireme data pack-images photos --out data/photos --resize 224 --validation 0.1\n"
      "          trireme data pack-images new/val --out data/photos2 --split validation --resize "
      "224 "
      "--classes-of data/photos");
  on_one_process(*command, [arguments] { run_pack_images(*arguments); });
}

}  // namespace

void add_data_commands(CLI::App& app) {
  auto* const data = app.add_subcommand("data", "Pack, inspect and verify data sets");
  data->require_subcommand(1);
  data->footer("Example: trireme data pack-text book.txt --out data/book --validation 0.05");
  add_pack_text(*data);
  add_pack_images(*data);
  add_data_inspect(*data);
  add_data_preview(*data);
}

}  // namespace trireme
