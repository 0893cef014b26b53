// Digest, sketch and norm of one buffer beside memcpy of the same bytes.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "samerun/core/digest.h"
#include "samerun/core/sketch.h"

namespace {

template <class T>
std::vector<T> values_of(std::int64_t bytes) {
  std::vector<T> values(static_cast<std::size_t>(bytes) / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(static_cast<double>(i % 1021) - 510) / T{64};
  return values;
}

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

void copy(benchmark::State& state) {
  const auto from = values_of<float>(state.range(0));
  auto to = from;
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), static_cast<std::size_t>(state.range(0)));
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

void digest(benchmark::State& state) {
  const auto values = values_of<float>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(samerun::digest_bytes(values.data(), values.size() * sizeof(float)));
  count_bytes(state);
}

template <class T>
void sketch(benchmark::State& state) {
  const auto values = values_of<T>(state.range(0));
  for (auto _ : state)
    benchmark::DoNotOptimize(samerun::sketch(std::span<const T>(values), "layer.weight", 0, static_cast<std::int64_t>(values.size())));
  count_bytes(state);
}

template <class T>
void norm(benchmark::State& state) {
  const auto values = values_of<T>(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(samerun::norm2(std::span<const T>(values)));
  count_bytes(state);
}

void sizes(benchmark::internal::Benchmark* benchmark) {
  for (const std::int64_t bytes : {64 << 10, 4 << 20, 64 << 20}) benchmark->Arg(bytes);
}

BENCHMARK(copy)->Apply(sizes);
BENCHMARK(digest)->Apply(sizes);
BENCHMARK(sketch<float>)->Apply(sizes);
BENCHMARK(sketch<double>)->Apply(sizes);
BENCHMARK(norm<float>)->Apply(sizes);
BENCHMARK(norm<double>)->Apply(sizes);

}  // namespace

BENCHMARK_MAIN();
