#include "harness.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

#include "paths.h"
#include "samerun/core/clock.h"

namespace samerun::launch_test {
namespace {

constexpr std::int64_t kBoundNs = 60'000'000'000;

/// Looks every few milliseconds until `condition` holds; false after the bound.
bool await(const std::function<bool()>& condition) {
  const std::int64_t end_ns = monotonic_now_ns() + kBoundNs;
  while (!condition()) {
    if (monotonic_now_ns() > end_ns) return false;
    ::poll(nullptr, 0, 2);
  }
  return true;
}

std::vector<char*> pointers(const Words& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool running(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t state = stat.rfind(") ");
  return state != std::string::npos && stat[state + 2] != 'Z' && stat[state + 2] != 'X';
}

bool await_gone(pid_t pid) {
  return await([pid] { return !running(pid); });
}

Words sorted_lines(const std::string& text) {
  Words lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

bool has_control_characters(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; });
}

Bench::Bench() {
  std::string pattern = (std::filesystem::temp_directory_path() / "samerun-launch-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder");
  folder_ = pattern;
  program = kSamerunPath;
  env["STUB_DIR"] = folder_.string();
}

Bench::~Bench() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void Bench::start(const Words& arguments) {
  Words argv{program};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  Words variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const bool own = text.starts_with("SAMERUN_") && !text.starts_with("SAMERUN_BACKEND=");  // CTest says which backend a case is for
    if (!own && env.count(text.substr(0, text.find('='))) == 0) variables.push_back(text);
  }
  for (const auto& [name, value] : env) variables.push_back(name + "=" + value);
  const std::vector<char*> argv_pointers = pointers(argv), env_pointers = pointers(variables);
  const std::string out = file("out.txt"), err = file("err.txt");
  pid_ = ::fork();
  if (pid_ != 0) return;
  if (::chdir(folder_.c_str()) != 0) ::_exit(126);
  ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), 1);
  ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), 2);
  ::close_range(3, ~0U, 0);  // What the test's own parent left open is not the launcher's doing.
  ::execve(argv_pointers.front(), argv_pointers.data(), env_pointers.data());
  ::_exit(127);
}

Ended Bench::finish() {
  Ended ended;
  int status = 0;
  if (!await([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; })) {
    ADD_FAILURE() << "samerun did not end; stderr so far: " << read_file(file("err.txt"));
    return ended;
  }
  pid_ = -1;
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  ended.out = read_file(file("out.txt"));
  ended.err = read_file(file("err.txt"));
  return ended;
}

Words Bench::launch_words(int ranks, const Words& stub_words) const {
  Words words{"launch", "-n", std::to_string(ranks), "--no-record", "--", kStubPath};
  words.insert(words.end(), stub_words.begin(), stub_words.end());
  return words;
}

Ended Bench::launch(int ranks, const Words& stub_words) {
  return run(launch_words(ranks, stub_words));
}

pid_t Bench::await_mark(const std::string& name) const {
  if (!await([&] { return std::filesystem::exists(file(name)); })) {
    ADD_FAILURE() << name << " did not appear; stderr so far: " << read_file(file("err.txt"));
    return -1;
  }
  return std::atoi(read_file(file(name)).c_str());
}

void Bench::write(const std::string& name, const std::string& text, bool executable) const {
  std::ofstream(file(name), std::ios::binary) << text;
  if (executable) std::filesystem::permissions(file(name), std::filesystem::perms::owner_all);
}

}  // namespace samerun::launch_test
