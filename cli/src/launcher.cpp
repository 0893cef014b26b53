#include "launcher.h"

#include <algorithm>
#include <memory>
#include <sstream>

#include "job.h"
#include "poller.h"
#include "samerun/core/error.h"

namespace samerun::cli {

std::string LaunchResult::failure_text() const {
  std::string text = message;
  for (const recorder::RankExit& exit : exits) {
    if (!exit.first_failure || exit.stderr_tail.empty()) continue;
    text += "\nlast lines of its stderr:";
    std::istringstream lines(exit.stderr_tail);
    for (std::string line; std::getline(lines, line);) text += "\n  | " + line;
  }
  return text;
}

Launcher::Launcher(recorder::Store* store) : store_(store) {}

std::vector<LaunchResult> Launcher::run(const std::vector<LaunchSpec>& specs) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (const LaunchSpec& spec : specs) jobs.push_back(std::make_unique<Job>(spec, guard_, store_, out_, err_));
  try {
    for (const auto& job : jobs) job->start();
  } catch (const Error& error) {
    for (const auto& job : jobs) job->abandon(error.what());
    throw;
  }
  const auto on_signals = [&] {
    for (int signal : signals_.take()) {
      for (const auto& job : jobs) {
        if (signal == SIGCHLD) {
          job->on_child();
        } else {
          job->stop(signal);
        }
      }
    }
  };
  for (const auto& job : jobs) job->on_child();  // A SIGCHLD may have been taken by an earlier run's loop.
  const auto all_done = [&] { return std::all_of(jobs.begin(), jobs.end(), [](const auto& job) { return job->done(); }); };
  while (!all_done()) {
    Poller poller;
    poller.add(signals_.fd(), POLLIN, on_signals);
    for (const auto& job : jobs) job->watch(poller);
    for (Sink* sink : {&out_, &err_}) {
      if (sink->pending()) poller.add(sink->fd(), POLLOUT, [sink] { sink->flush(); });
    }
    poller.wait();
    for (const auto& job : jobs) job->on_time();
  }
  flush_output();  // First: ending the record may throw.
  std::vector<LaunchResult> results;
  for (const auto& job : jobs) results.push_back(job->finish());
  flush_output();
  return results;
}

/// The ranks have ended, their output may still wait for a slow reader; a signal ends the wait.
void Launcher::flush_output() {
  bool told_to_stop = false;
  while (!told_to_stop && (out_.pending() || err_.pending())) {
    Poller poller;
    poller.add(signals_.fd(), POLLIN, [&] {
      for (int signal : signals_.take()) told_to_stop |= signal != SIGCHLD;
    });
    for (Sink* sink : {&out_, &err_}) {
      if (sink->pending()) poller.add(sink->fd(), POLLOUT, [sink] { sink->flush(); });
    }
    poller.wait();
  }
}

}  // namespace samerun::cli
