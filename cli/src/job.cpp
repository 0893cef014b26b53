#include "job.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "checkpoints.h"
#include "host.h"
#include "program.h"
#include "samerun/core/clock.h"
#include "samerun/core/error.h"
#include "samerun/recorder/reader.h"

namespace samerun::cli {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kFoldEvery = kSecond;
constexpr std::int64_t kTermGrace = 2 * kSecond;   ///< From SIGTERM to SIGKILL.
constexpr std::int64_t kKillGrace = 2 * kSecond;   ///< A process in an uninterruptible wait survives SIGKILL: do not wait for ever.
constexpr std::int64_t kDrainGrace = kSecond / 5;  ///< A process that left the group may hold a pipe open.

/// Signals by which a rank dies of its own fault; SIGABRT is what the others do when their peer has gone.
bool own_fault(const ExitStatus& status) {
  return status.signal && *status.signal != SIGABRT;
}

/// What the launcher says of itself.
void warn(Sink& sink, const std::string& text) {
  sink.append("samerun: warning: " + text + "\n");
}

}  // namespace

Job::Job(const LaunchSpec& spec, Guard& guard, recorder::Store* store, Sink& out, Sink& err)
    : spec_(spec), guard_(guard), store_(store), out_(out), err_(err) {}

void Job::start() {
  const std::string path = resolve_program(spec_.command.front());
  started_ns_ = monotonic_now_ns();
  begin_record();
  try {
    if (spec_.to_log) open_log();
    Listener listener = listen_local();
    RankContract contract{spec_.world_size, spec_.threads, listener.port, "", "", spec_.env, spec_.unset, {}};
    wire_up(contract);
    if (store_ != nullptr) {
      contract.run_id = std::to_string(result_.run);
      contract.staging = std::filesystem::absolute(store_->staging_folder(result_.run)).string();
      add_checkpoint_variables(store_->folder(), result_.run, contract);
    }
    if (spec_.begun) spec_.begun(result_.run);
    // Reserved: the streams' handlers hold the address of their rank.
    ranks_.reserve(static_cast<std::size_t>(spec_.world_size));
    for (int rank = 0; rank < spec_.world_size; ++rank) start_rank(rank, path, contract, rank == 0 ? listener.fd.get() : -1);
    if (store_ != nullptr) store_->heartbeat(result_.run);
  } catch (const Error& error) {
    abandon(error.what());
    throw;
  }
}

void Job::abandon(const std::string& why) {
  if (done()) return;
  result_.message = why;
  result_.exit_code = 3;
  kill_all();
  end_groups();
  end_output();
  try {
    finish();
  } catch (const Error& error) {
    warn(own_output(), error.what());
  }
}

void Job::begin_record() {
  if (store_ == nullptr) return;
  recorder::NewRun run;
  run.group_id = spec_.group_id;
  run.role = spec_.role;
  run.world_size = spec_.world_size;
  run.argv = spec_.command;
  run.cwd = std::filesystem::current_path().string();
  run.parent_id = spec_.parent_id;
  result_.run = store_->begin_run(run);
  fold_ns_ = monotonic_now_ns() + kFoldEvery;
}

void Job::open_log() {
  const std::filesystem::path folder = std::filesystem::path(store_->folder()) / "logs";
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  result_.log = (folder / (std::to_string(result_.run) + ".log")).string();
  Fd fd(::open(result_.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.open()) throw Error(ErrorCode::kStorage, "cannot write " + result_.log + ": " + std::strerror(errno));
  log_ = std::make_unique<Sink>(std::move(fd));
}

/// Several ranks, where MPI was found. Where it was found and fails, only a run that asked for it ends.
void Job::wire_up(RankContract& contract) {
  if (!spec_.mpi || spec_.world_size == 1) return;
  try {
    mpi_ = spec_.mpi->begin(result_.run, spec_.world_size);
    contract.of_rank = mpi_->variables();
  } catch (const Error& error) {
    if (spec_.mpi->required()) throw;
    warn(own_output(), "the ranks go without MPI: " + std::string(error.what()));
  }
}

void Job::start_rank(int rank, const std::string& path, const RankContract& contract, int store_fd) {
  Pipe out = make_pipe(), err = make_pipe(), control = make_pipe();
  const Fd in = open_null();  // A background process group that reads from the terminal would be stopped.
  set_nonblocking(control.read.get());
  ProcessSpec process;
  process.path = path;
  process.argv = spec_.command;
  process.envp = rank_environment(contract, rank, store_fd, control.write.get());
  process.in = in.get();
  process.out = out.write.get();
  process.err = err.write.get();
  process.inherit = {control.write.get()};
  if (store_fd >= 0) process.inherit.push_back(store_fd);
  process.guard = guard_.fd();
  const std::string prefix = spec_.prefix || spec_.to_log ? "[" + std::to_string(rank) + "] " : "";
  Sink& out_sink = log_ ? *log_ : out_;
  ranks_.push_back({ProcessGroup(process), LineStream(std::move(out.read), prefix, out_sink), LineStream(std::move(err.read), prefix, own_output()),
                    std::move(control.read), "", std::nullopt, false});
}

void Job::watch(Poller& poller) {
  if (done()) return;
  for (Rank& rank : ranks_) {
    for (LineStream* stream : {&rank.out, &rank.err}) {
      if (stream->open() && !stream->sink().full()) poller.add(stream->fd(), POLLIN, [stream] { stream->read_available(); });
    }
    if (rank.control.open()) poller.add(rank.control.get(), POLLIN, [this, &rank] { read_control(rank); });
  }
  poller.wake_at(fold_ns_);
  poller.wake_at(deadline_ns_);
}

void Job::read_control(Rank& rank) {
  std::array<char, 4096> buffer;
  ssize_t size = 0;
  while (rank.control.open() && (size = ::read(rank.control.get(), buffer.data(), buffer.size())) > 0) {
    // Only the first words matter; a program that writes into a foreign descriptor must not fill memory.
    if (rank.said.size() < buffer.size()) rank.said.append(buffer.data(), static_cast<std::size_t>(size));
  }
  if (size == 0) rank.control.reset();
}

void Job::on_child() {
  if (phase_ == Phase::kDraining || done()) return;
  std::vector<std::size_t> failed;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    if (rank.exit || !(rank.exit = rank.process.poll_exit())) continue;
    read_control(rank);
    if (failed_rank(rank)) failed.push_back(i);
    if (!failed_rank(rank) && !rank.bye() && !spec_.ends_by_sigkill)
      warn(own_output(), "rank " + std::to_string(i) + " ended with code 0, but not through its Accelerator's end");
  }
  if (phase_ == Phase::kRunning && !failed.empty()) {
    note_first_failure(failed);
    begin_stop();
  }
  if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.exit.has_value(); })) end_groups();
}

bool Job::failed_rank(const Rank& rank) const {
  if (!rank.exit) return false;
  if (spec_.ends_by_sigkill) return rank.exit->signal != SIGKILL;
  return !rank.exit->good() || !rank.hello();
}

void Job::note_first_failure(const std::vector<std::size_t>& failed) {
  // When several ended since the last look, the one that crashed pulled the others down.
  const auto crashed = std::find_if(failed.begin(), failed.end(), [this](std::size_t i) { return own_fault(*ranks_[i].exit); });
  const std::size_t first = crashed != failed.end() ? *crashed : failed.front();
  ranks_[first].first_failure = true;
  result_.message = describe(first);
  result_.exit_code = 3;
}

std::string Job::describe(std::size_t index) const {
  const Rank& rank = ranks_[index];
  const std::string program = program_name(spec_.command);
  std::string text = "rank " + std::to_string(index) + " on " + host_name();
  if (rank.exit->code) text += " exited with code " + std::to_string(*rank.exit->code);
  if (rank.exit->signal) text += " was killed by " + signal_name(*rank.exit->signal);
  if (spec_.ends_by_sigkill && rank.exit->good()) return text + ", and was to kill itself before that";
  if (rank.exit->signal == SIGKILL) text += " (by hand, or by the kernel when memory ran out)";
  if (rank.hello()) return text;
  if (rank.exit->good()) return program + " is not linked with Samerun (no Accelerator was made): " + text;
  return text + "; no Accelerator was made: " + program + " is not linked with Samerun, or failed before that";
}

void Job::signal_all(int signal) {
  for (const Rank& rank : ranks_) rank.process.signal(signal);
}

void Job::begin_stop() {
  phase_ = Phase::kStopping;
  deadline_ns_ = monotonic_now_ns() + kTermGrace;
  signal_all(SIGTERM);
}

void Job::kill_all() {
  phase_ = Phase::kKilling;
  deadline_ns_ = monotonic_now_ns() + kKillGrace;
  signal_all(SIGKILL);
}

void Job::stop(int signal) {
  if (phase_ == Phase::kDraining || done()) return;
  if (phase_ != Phase::kRunning) return kill_all();
  result_.message = "stopped by " + signal_name(signal);
  result_.exit_code = 128 + signal;
  begin_stop();
}

void Job::on_time() {
  const std::int64_t now = monotonic_now_ns();
  if (now >= fold_ns_ && !done()) fold();
  if (now >= deadline_ns_) {
    if (phase_ == Phase::kStopping) {
      kill_all();
    } else if (phase_ == Phase::kKilling) {
      end_groups();
    } else if (phase_ == Phase::kDraining) {
      end_output();
    }
  }
  const auto closed = [](const Rank& rank) { return !rank.out.open() && !rank.err.open(); };
  if (phase_ == Phase::kDraining && std::all_of(ranks_.begin(), ranks_.end(), closed)) end_output();
}

/// All leaders have ended (or cannot be killed): nothing of their groups may stay behind.
void Job::end_groups() {
  const bool given_up = phase_ == Phase::kKilling && monotonic_now_ns() >= deadline_ns_;
  phase_ = Phase::kDraining;
  deadline_ns_ = monotonic_now_ns() + kDrainGrace;
  for (Rank& rank : ranks_) {
    const pid_t group = rank.process.id();
    if (given_up && !rank.exit) result_.message += "; process " + std::to_string(group) + " could not be killed";
    rank.process.close();
    guard_.forget(group);
  }
  mpi_.reset();
}

void Job::end_output() {
  for (Rank& rank : ranks_) {
    rank.out.finish();
    rank.err.finish();
  }
  phase_ = Phase::kDone;
  fold_ns_ = deadline_ns_ = INT64_MAX;
}

void Job::fold() {
  fold_ns_ = monotonic_now_ns() + kFoldEvery;
  try {
    store_->fold(result_.run);
    store_->heartbeat(result_.run);
    fold_failed_ = false;
  } catch (const Error& error) {
    // The staging files keep the rows: try again, complain once.
    if (!std::exchange(fold_failed_, true)) warn(own_output(), "the record could not be written, will try again: " + std::string(error.what()));
  }
}

/// The ranks know whether they reached the end or a step limit.
std::string Job::end_status() const {
  if (!result_.good()) return "failed";
  if (result_.run == 0) return "finished";
  if (spec_.ends_by_sigkill) return "stopped";
  store_->fold(result_.run);
  const std::vector<recorder::RankRow> ranks = recorder::Reader(store_->folder()).ranks(result_.run);
  const bool stopped = std::any_of(ranks.begin(), ranks.end(), [](const recorder::RankRow& rank) { return rank.status == "stopped"; });
  return stopped ? "stopped" : "finished";
}

std::vector<recorder::RankExit> Job::exits() const {
  std::vector<recorder::RankExit> exits;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    const Rank& rank = ranks_[i];
    recorder::RankExit exit{static_cast<int>(i), std::nullopt, std::nullopt, rank.err.tail(), rank.first_failure};
    if (rank.exit) {
      exit.exit_code = rank.exit->code;
      exit.signal = rank.exit->signal;
    }
    exits.push_back(std::move(exit));
  }
  return exits;
}

LaunchResult Job::finish() {
  result_.wall_seconds = static_cast<double>(monotonic_now_ns() - started_ns_) * 1e-9;
  result_.exits = exits();
  try {
    result_.status = end_status();
  } catch (const Error& error) {
    result_.message = "training ended well, but its record could not be written: " + std::string(error.what());
    result_.exit_code = 3;
    result_.status = "failed";
  }
  if (result_.run == 0) return result_;
  try {
    store_->end_run(result_.run, result_.status, result_.exit_code, result_.message, result_.exits);
  } catch (const Error& error) {
    const std::string how = result_.message.empty() ? "training ended well" : result_.message;
    throw Error(error.code(), how + "; how it ended is not in the record: " + error.what());
  }
  return result_;
}

}  // namespace samerun::cli
