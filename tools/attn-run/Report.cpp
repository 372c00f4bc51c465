//===- Report.cpp - Results of attn-run -----------------------------------===//
//
// Licensed under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prints reports as tables and as JSON.
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>

using namespace attnrt;

bool CheckResult::passed() const {
  for (const OutputCheck &output : outputs)
    if (!output.passed)
      return false;
  return true;
}

__attribute__((format(printf, 1, 2))) static std::string
format(const char *text, ...) {
  char buffer[512];
  va_list values;
  va_start(values, text);
  vsnprintf(buffer, sizeof(buffer), text, values);
  va_end(values);
  return buffer;
}

namespace {

/// Rows of cells, printed in columns as wide as they need to be.
class Table {
public:
  void add(std::vector<std::string> row) { rows.push_back(std::move(row)); }
  std::string print() const;

private:
  std::vector<std::vector<std::string>> rows;
};

/// Builds a JSON text; commas are put where they belong.
class JsonWriter {
public:
  JsonWriter &open(char bracket) {
    separate();
    text += bracket;
    first = true;
    return *this;
  }
  JsonWriter &close(char bracket) {
    text += bracket;
    first = false;
    return *this;
  }
  JsonWriter &key(const char *name) {
    separate();
    quote(name);
    text += ": ";
    first = true;
    return *this;
  }
  JsonWriter &value(const std::string &string) {
    separate();
    quote(string);
    return *this;
  }
  JsonWriter &value(int64_t number) { return raw(std::to_string(number)); }
  /// JSON has no infinities and NaNs: they are null.
  JsonWriter &value(double number) {
    return raw(std::isfinite(number) ? format("%.9g", number) : "null");
  }
  JsonWriter &value(bool flag) { return raw(flag ? "true" : "false"); }
  JsonWriter &null() { return raw("null"); }

  std::string take() { return std::move(text); }

private:
  JsonWriter &raw(const std::string &token) {
    separate();
    text += token;
    return *this;
  }
  void separate() {
    if (!first)
      text += ", ";
    first = false;
  }
  void quote(const std::string &string);

  std::string text;
  bool first = true;
};

} // namespace

std::string Table::print() const {
  std::vector<size_t> widths;
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size())
        widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  std::string text;
  for (const auto &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += "  ";
      line += row[i];
      line.append(widths[i] - row[i].size(), ' ');
    }
    line.resize(line.find_last_not_of(' ') + 1);
    text += line + '\n';
  }
  return text;
}

void JsonWriter::quote(const std::string &string) {
  text += '"';
  for (char c : string) {
    if (c == '"' || c == '\\')
      (text += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      text += format("\\u%04x", static_cast<unsigned>(c));
    else
      text += c;
  }
  text += '"';
}

std::string Report::toText() const {
  std::string text = "function " + function + ", target " + target;
  if (!device.empty())
    text += ", on " + device;
  if (ranks > 0)
    text += ", " + std::to_string(ranks) + " rank(s) by " + transport +
            ", method " + shardMethod;
  text += "\n\n";

  Table table;
  table.add({"argument", "kind", "dtype", "shape", "values"});
  for (const Argument &argument : *arguments)
    table.add({argument.spec->name,
               ATTN_IS_OUTPUT(*argument.spec) ? "output" : "input",
               attnDTypeName(argument.spec->dtype),
               formatShape(argument.tensor.getShape()), argument.source});
  text += table.print();

  Table summary;
  summary.add({"output", "rms", "max abs", "NaN", "inf"});
  for (const OutputSummary &output : outputs)
    summary.add({output.name, format("%.4e", output.rms),
                 format("%.4e", output.maxAbs), std::to_string(output.numNaN),
                 std::to_string(output.numInf)});
  text += "\n" + summary.print();

  if (ranks > 0) {
    Table traffic;
    traffic.add({"rank", "bytes sent"});
    for (size_t rank = 0; rank < bytesSent.size(); ++rank)
      traffic.add({std::to_string(rank), std::to_string(bytesSent[rank])});
    text += "\n" + traffic.print();
  }

  if (check) {
    text += format("\ncheck against the f64 reference, every %lld row(s)\n",
                   static_cast<long long>(check->rowStep));
    Table checks;
    checks.add({"output", "max abs error", "rel error", "tolerance",
                "mismatches", "NaN", "compared", "result"});
    for (const OutputCheck &output : check->outputs)
      checks.add({output.name, format("%.4e", output.maxAbsError),
                  format("%.4e", output.relativeError),
                  format("%.1e", output.tolerance),
                  std::to_string(output.numMismatches),
                  std::to_string(output.numNaN),
                  std::to_string(output.numCompared),
                  output.passed ? "ok" : "FAILED"});
    text += checks.print();
  }

  if (bench) {
    text += format("\nbench, %d run(s)\n", bench->repeats);
    Table times;
    times.add({"median ms", "min ms", "max ms", "host us/call", "TFLOP/s"});
    times.add({format("%.4f", bench->medianMs), format("%.4f", bench->minMs),
               format("%.4f", bench->maxMs), format("%.2f", bench->hostUs),
               bench->flops > 0 && bench->medianMs > 0
                   ? format("%.4g", bench->getTflops())
                   : "-"});
    text += times.print();
  }
  return text;
}

static void writeArgument(JsonWriter &json, const Argument &argument) {
  auto writeSizes = [&](const char *key, const auto &sizes) {
    json.key(key).open('[');
    for (int64_t size : sizes)
      json.value(size);
    json.close(']');
  };
  json.open('{');
  json.key("name").value(std::string(argument.spec->name));
  json.key("kind").value(
      std::string(ATTN_IS_OUTPUT(*argument.spec) ? "output" : "input"));
  json.key("dtype").value(std::string(attnDTypeName(argument.spec->dtype)));
  writeSizes("shape", argument.tensor.getShape());
  writeSizes("strides", argument.tensor.getStrides());
  json.key("values");
  argument.source.empty() ? json.null() : json.value(argument.source);
  json.close('}');
}

static void writeSummary(JsonWriter &json, const OutputSummary &output) {
  json.open('{');
  json.key("name").value(output.name);
  json.key("rms").value(output.rms);
  json.key("max_abs").value(output.maxAbs);
  json.key("nan").value(output.numNaN);
  json.key("inf").value(output.numInf);
  json.close('}');
}

static void writeCheck(JsonWriter &json, const OutputCheck &output) {
  json.open('{');
  json.key("name").value(output.name);
  json.key("max_abs_error").value(output.maxAbsError);
  json.key("relative_error").value(output.relativeError);
  json.key("tolerance").value(output.tolerance);
  json.key("mismatches").value(output.numMismatches);
  json.key("nan").value(output.numNaN);
  json.key("compared").value(output.numCompared);
  json.key("passed").value(output.passed);
  json.close('}');
}

std::string Report::toJson() const {
  auto writeList = [](JsonWriter &json, const char *key, const auto &list,
                      auto write) {
    json.key(key).open('[');
    for (const auto &element : list)
      write(json, element);
    json.close(']');
  };
  JsonWriter json;
  json.open('{');
  json.key("function").value(function);
  json.key("target").value(target);
  json.key("producer").value(producer);
  json.key("device");
  device.empty() ? json.null() : json.value(device);
  if (ranks > 0) {
    json.key("ranks").open('{');
    json.key("count").value(static_cast<int64_t>(ranks));
    json.key("method").value(shardMethod);
    json.key("transport").value(transport);
    writeList(json, "bytes_sent", bytesSent,
              [](JsonWriter &writer, int64_t bytes) { writer.value(bytes); });
    json.close('}');
  }
  writeList(json, "arguments", *arguments, writeArgument);
  writeList(json, "outputs", outputs, writeSummary);
  if (check) {
    json.key("check").open('{');
    json.key("passed").value(check->passed());
    json.key("row_step").value(check->rowStep);
    writeList(json, "outputs", check->outputs, writeCheck);
    json.close('}');
  }

  if (bench) {
    json.key("bench").open('{');
    json.key("repeats").value(static_cast<int64_t>(bench->repeats));
    json.key("median_ms").value(bench->medianMs);
    json.key("min_ms").value(bench->minMs);
    json.key("max_ms").value(bench->maxMs);
    json.key("host_us").value(bench->hostUs);
    json.key("flops").value(bench->flops);
    json.key("tflops");
    bench->flops > 0 && bench->medianMs > 0 ? json.value(bench->getTflops())
                                            : json.null();
    json.close('}');
  }
  json.close('}');
  return json.take() + "\n";
}
