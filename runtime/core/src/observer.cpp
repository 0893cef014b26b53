#include "samerun/core/observer.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

#include "text.h"

namespace samerun {
namespace {

std::string name_of(const RunObserver& observer) {
  try {
    return observer.name();
  } catch (const std::exception&) {
    return "(observer without a name)";
  }
}

}  // namespace

void ObserverList::add(std::shared_ptr<RunObserver> observer) {
  if (observer) observers_.push_back(std::move(observer));
}

template <class Call>
void ObserverList::each(Call call) {
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < observers_.size();) {
    const auto observer = observers_[i];
    bool failed = false;
    try {
      call(*observer);
    } catch (const std::exception& error) {
      faults.push_back(detail::one_line(name_of(*observer) + ": " + error.what()));
      failed = true;
    }
    // A member may tell the list something itself, and a member that throws then has gone: look where this one stands now.
    const auto at = std::find(observers_.begin(), observers_.end(), observer);
    i = static_cast<std::size_t>(at - observers_.begin());
    if (at == observers_.end()) continue;
    if (failed) {
      observers_.erase(at);
    } else {
      ++i;
    }
  }
  // Told only now, so that no member hears of the fault before the event during which it happened. A member that throws
  // here is detached by the inner call; each level has one member fewer, so this ends.
  for (const std::string& fault : faults) {
    std::fprintf(stderr, "samerun: detached an observer that failed; training goes on: %s\n", fault.c_str());
    on_event({"error", "observer-detached", fault});
  }
}

void ObserverList::on_rank_start(const RankStart& event) {
  each([&](RunObserver& observer) { observer.on_rank_start(event); });
}
void ObserverList::on_setting(const SettingValue& event) {
  each([&](RunObserver& observer) { observer.on_setting(event); });
}
void ObserverList::on_environment(const EnvironmentFact& event) {
  each([&](RunObserver& observer) { observer.on_environment(event); });
}
void ObserverList::on_dataset(const DatasetSeen& event) {
  each([&](RunObserver& observer) { observer.on_dataset(event); });
}
void ObserverList::on_shard(const Shard& event) {
  each([&](RunObserver& observer) { observer.on_shard(event); });
}
void ObserverList::on_step(const Step& event) {
  each([&](RunObserver& observer) { observer.on_step(event); });
}
void ObserverList::on_group_step(const GroupStep& event) {
  each([&](RunObserver& observer) { observer.on_group_step(event); });
}
void ObserverList::on_tensor(const TensorTrace& event) {
  each([&](RunObserver& observer) { observer.on_tensor(event); });
}
void ObserverList::on_locked(const LockedRow& event) {
  each([&](RunObserver& observer) { observer.on_locked(event); });
}
void ObserverList::on_metric(const Metric& event) {
  each([&](RunObserver& observer) { observer.on_metric(event); });
}
void ObserverList::on_sample_values(const SampleValues& event) {
  each([&](RunObserver& observer) { observer.on_sample_values(event); });
}
void ObserverList::on_span(const Span& event) {
  each([&](RunObserver& observer) { observer.on_span(event); });
}
void ObserverList::on_phase(const Phase& event) {
  each([&](RunObserver& observer) { observer.on_phase(event); });
}
void ObserverList::on_run_phase(const RunPhase& event) {
  each([&](RunObserver& observer) { observer.on_run_phase(event); });
}
void ObserverList::on_checkpoint(const CheckpointCommitted& event) {
  each([&](RunObserver& observer) { observer.on_checkpoint(event); });
}
void ObserverList::on_state_leaf(const StateLeaf& event) {
  each([&](RunObserver& observer) { observer.on_state_leaf(event); });
}
void ObserverList::on_event(const RunEvent& event) {
  each([&](RunObserver& observer) { observer.on_event(event); });
}
void ObserverList::on_run_end(const RunEnd& event) {
  each([&](RunObserver& observer) { observer.on_run_end(event); });
}
void ObserverList::flush() {
  each([](RunObserver& observer) { observer.flush(); });
}

}  // namespace samerun
