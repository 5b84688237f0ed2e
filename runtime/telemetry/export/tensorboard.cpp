// SPDX-License-Identifier: Apache-2.0
#include "runtime/telemetry/export/tensorboard.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <png.h>

#include <nlohmann/json.hpp>

#include "runtime/base/error.h"
#include "runtime/base/json.h"
#include "runtime/telemetry/export/export_facts.h"

namespace trireme {
namespace {

// Literal text for Markdown. Invalid UTF-8, such as a cut letter, is replaced, since the reader
// refuses it.
std::string fenced(std::string_view text) {
  using Json = nlohmann::json;
  const auto valid = parse_json(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  // Four blanks before every line make a block that no text can end.
  std::string block = "\n    ";
  for (const char letter : valid.get<std::string>()) {
    block += letter;
    if (letter == '\n') block += "    ";
  }
  return block + "\n";
}

}  // namespace

TensorBoard::TensorBoard(const ExportFacts& facts)
    : file_(OutputDirectory(facts.directory, ExitCode::config), facts.done, facts.start) {
  for (const StepMetric& metric : step_metrics())
    step_tags_.push_back({grouped_name(metric, facts.items), description_of(metric, facts.items)});
  for (const EvaluationMetric& metric : evaluation_metrics())
    evaluation_tags_.push_back({grouped_name(metric), description_of(metric, facts.items)});
  SummaryEvent event(facts.start, facts.done.value_or(0));
  event.text("config", fmt::format("```yaml\n{}```\n", facts.config));
  event.text("command line", fmt::format("`{}`", facts.command_line));
  add_now(event);
}

void TensorBoard::add_now(const SummaryEvent& event) {
  file_.add(event);
  file_.flush();
}

void TensorBoard::step(const StepMetrics& metrics) {
  SummaryEvent event(metrics.time, metrics.step);
  for (std::size_t row = 0; row < step_tags_.size(); ++row)
    if (const auto value = step_metrics()[row].value(metrics))
      event.scalar(step_tags_[row], *value);
  file_.add(event);
}

void TensorBoard::evaluation(const EvaluationMetrics& metrics) {
  SummaryEvent event(metrics.time, metrics.step);
  for (std::size_t row = 0; row < evaluation_tags_.size(); ++row)
    if (const auto value = evaluation_metrics()[row].value(metrics))
      event.scalar(evaluation_tags_[row], *value);
  for (const SourceValue& of_source : values_of_sources(metrics)) {
    SummaryTag tag{grouped_name(*of_source.metric, of_source.source), ""};
    event.scalar(tag, of_source.value);
  }
  add_now(event);
}

void TensorBoard::skipped(const SkippedBatch& skipped) {
  SummaryEvent event(skipped.time, skipped.step);
  event.text(
      "skipped batches",
      fmt::format("step {}: its loss was {:.3f} standard deviations above the mean; samples {}",
                  skipped.step, skipped.zscore, fmt::join(skipped.samples, ", ")));
  add_now(event);
}

void TensorBoard::failed_save(const FailedSave& failed) {
  SummaryEvent event(failed.time, failed.step);
  event.text("checkpoints not written",
             fmt::format("step {}, {} in a row: {}", failed.step, failed.in_a_row, failed.problem));
  add_now(event);
}

void TensorBoard::histograms(const StepHistograms& histograms) {
  SummaryEvent event(histograms.time, histograms.step);
  for (const TensorHistogram& tensor : histograms.tensors)
    event.histogram(tensor.name, tensor.rows);
  add_now(event);
}

// Labels of images are in a table next to them: TensorBoard shows only the first step's description
// of a tag.
void TensorBoard::samples(const ModelSamples& samples) {
  SummaryEvent event(samples.time, samples.step);
  for (std::size_t i = 0; i < samples.texts.size(); ++i) {
    const ModelSamples::Text& text = samples.texts[i];
    event.text(fmt::format("samples/text_{}", i + 1),
               fmt::format("prompt\n{}\ncontinuation\n{}", fenced(text.prompt),
                           fenced(text.continuation)));
  }
  std::string table = "| picture | predicted | label |\n|---|---|---|\n";
  for (std::size_t i = 0; i < samples.pictures.size(); ++i) {
    const ModelSamples::Picture& picture = samples.pictures[i];
    const std::string tag = fmt::format("samples/picture_{}", i + 1);
    event.image(tag, "a sample of the data; samples/classes shows the predicted class",
                picture.width, picture.height,
                png_of(picture.pixels, picture.height, picture.width, picture.channels));
    table += fmt::format("| {} | {} | {} |\n", tag, picture.predicted, picture.label);
  }
  if (!samples.pictures.empty()) event.text("samples/classes", table);
  add_now(event);
}

void TensorBoard::flush() {
  file_.flush();
}

void TensorBoard::finish(RunEnd /*end*/) {
  file_.flush();
}

std::string png_of(std::span<const std::byte> pixels, std::int64_t height, std::int64_t width,
                   std::int64_t channels) {
  TRIREME_EXPECTS(
      (channels == 1 || channels == 3) && std::ssize(pixels) == height * width * channels,
      "{} bytes of {} x {} pixels with {} channels", pixels.size(), height, width, channels);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.height = static_cast<png_uint_32>(height);
  image.width = static_cast<png_uint_32>(width);
  image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = file.size();
  if (png_image_write_to_memory(&image, file.data(), &bytes, /*convert_to_8bit=*/0, pixels.data(),
                                /*row_stride=*/0, /*colormap=*/nullptr) == 0)
    fail(ExitCode::internal, "png_image_write_to_memory failed: {}", image.message);
  file.resize(bytes);
  return file;
}

}  // namespace trireme
