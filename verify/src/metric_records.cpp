#include "metrics.h"

#include <algorithm>
#include <numeric>

namespace samerun::verify {
namespace {

void append(MetricRecord& record, const recorder::SampleValuesRow& row) {
  const SampleValues& rows = row.values;
  record.has_rows = true;
  record.columns = rows.columns;
  record.ids.insert(record.ids.end(), rows.ids.begin(), rows.ids.end());
  record.ranks.insert(record.ranks.end(), rows.ids.size(), row.rank);
  record.values.insert(record.values.end(), rows.values.begin(), rows.values.end());
}

void sort_by_id(MetricRecord& record) {
  std::vector<std::size_t> order(record.ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return record.ids[a] < record.ids[b]; });
  MetricRecord sorted;
  for (const std::size_t i : order) {
    sorted.ids.push_back(record.ids[i]);
    sorted.ranks.push_back(record.ranks[i]);
    const auto first = record.values.begin() + static_cast<std::ptrdiff_t>(i) * record.columns;
    sorted.values.insert(sorted.values.end(), first, first + record.columns);
  }
  record.ids = std::move(sorted.ids);
  record.ranks = std::move(sorted.ranks);
  record.values = std::move(sorted.values);
}

}  // namespace

MetricRecords metric_records(const recorder::Reader& reader, std::int64_t run) {
  MetricRecords records;
  for (auto& row : reader.metrics(run)) {
    const Metric& metric = row.metric;
    auto& record = records[{metric.name, metric.purpose, metric.pass, metric.step}];
    if (metric.pass < 0 && row.rank != 0) {
      record.others[row.rank].push_back(metric.value);
    } else {
      record.results.push_back(row);
    }
  }
  for (const auto& row : reader.sample_values(run)) {
    append(records[{row.values.name, row.values.purpose, row.values.pass, row.values.step}], row);
  }
  for (auto& [asked, record] : records) sort_by_id(record);
  return records;
}

}  // namespace samerun::verify
