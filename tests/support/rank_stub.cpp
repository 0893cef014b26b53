// A rank without libtorch, for tests of the launcher: obeys its arguments in order. "1:exit=3" is for rank 1 only; a
// word without a number is for all ranks. Files that it makes lie in $STUB_DIR.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

#include "samerun/core/clock.h"
#include "samerun/core/launch_contract.h"

namespace {

using namespace samerun;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string rank() {
  return variable(env::kRank);
}
std::string stub_file(const std::string& name) {
  return variable("STUB_DIR") + "/" + name + "." + rank();
}

void to_control(const std::string& line) {
  const int fd = std::atoi(variable(env::kControlFd).c_str());
  if (::write(fd, line.data(), line.size()) < 0) std::exit(97);
}

/// Appears whole or not at all.
void mark(const std::string& name) {
  const std::string path = stub_file(name);
  std::ofstream(path + ".part") << ::getpid() << "\n";
  std::filesystem::rename(path + ".part", path);
}

[[noreturn]] void wait_for_ever() {
  for (;;) ::pause();
}

void await(const std::string& file) {
  while (!std::filesystem::exists(variable("STUB_DIR") + "/" + file)) ::poll(nullptr, 0, 2);
}

std::string heard_path;

/// Survives SIGTERM, and makes the file "heard" at the first one.
void turn_deaf() {
  heard_path = stub_file("heard");
  ::signal(SIGTERM, [](int) { ::close(::open(heard_path.c_str(), O_WRONLY | O_CREAT, 0644)); });
}

/// A child of the rank that a polite signal does not end.
void leave_child(const std::string& name) {
  if (::fork() != 0) return;
  ::signal(SIGTERM, SIG_IGN);
  mark(name);
  wait_for_ever();
}

/// Under a sanitizer some signals have a handler that would turn them into an exit code.
void die(int signal) {
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

void fail(const char* what) {
  std::perror(what);
  std::exit(98);
}

/// Rank 0 accepts on the inherited socket and prints what the first caller sends.
void serve() {
  const int fd = std::atoi(variable(env::kStoreFd).c_str());
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) fail("getsockname");
  std::printf("port %s\n", std::to_string(ntohs(address.sin_port)) == variable(env::kStorePort) ? "equal" : "different");
  const int caller = ::accept(fd, nullptr, nullptr);
  char text[64] = "";
  if (caller < 0 || ::read(caller, text, sizeof text - 1) <= 0) fail("accept");
  std::printf("heard %s\n", text);
}

void call(const std::string& text) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(variable(env::kStorePort).c_str())));
  ::inet_pton(AF_INET, variable(env::kStoreHost).c_str(), &address.sin_addr);
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
  if (::write(fd, text.data(), text.size()) < 0) fail("write");
}

void many_lines(const std::string& count) {
  for (int i = 1; i <= std::atoi(count.c_str()); ++i) std::fprintf(stderr, "line %d\n", i);
}

/// Descriptors above the standard ones that the launcher left open, their count.
void open_descriptors() {
  int count = 0;
  for (int fd = 3; fd < 256; ++fd) count += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
  std::printf("descriptors %d\n", count);
}

/// What a committed checkpoint looks like from outside: a folder with a manifest. Rank 0 makes it, unless told to go on from one.
void checkpoint(const std::string& step) {
  if (rank() != "0" || !variable(env::kResumeFrom).empty()) return;
  const std::string folder = variable(env::kCheckpointDir) + "/step-" + step;
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/manifest.json") << R"({"saved_utc_ns": )" << utc_now_ns() << R"(, "position": {"optimizer_step": )" << step
                                           << R"(}, "resume_command": ")" << variable(env::kResumeCommand) << "\"}\n";
}

const std::map<std::string, std::function<void(const std::string&)>>& actions() {
  static const std::map<std::string, std::function<void(const std::string&)>> map{
      {"hello", [](const std::string&) { to_control("hello 0.1.0 " + std::to_string(::getpid()) + "\n"); }},
      {"bye", [](const std::string&) { to_control("bye\n"); }},
      {"out", [](const std::string& text) { std::printf("%s\n", text.c_str()); }},
      {"part", [](const std::string& text) { std::printf("%s", text.c_str()); }},
      {"err", [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }},
      {"lines", many_lines},
      {"long", [](const std::string& size) { std::printf("%s\n", std::string(std::strtoul(size.c_str(), nullptr, 10), 'x').c_str()); }},
      {"env", [](const std::string& name) { std::printf("%s=%s\n", name.c_str(), variable(name.c_str()).c_str()); }},
      {"unless",
       [](const std::string& name) {
         if (!variable(name.c_str()).empty()) std::exit(5);
       }},
      {"descriptors", [](const std::string&) { open_descriptors(); }},
      {"mark", mark},
      {"await", await},
      {"child", leave_child},
      {"checkpoint", checkpoint},
      {"deaf", [](const std::string&) { turn_deaf(); }},
      {"serve", [](const std::string&) { serve(); }},
      {"call", call},
      {"wait", [](const std::string&) { wait_for_ever(); }},
      {"die", [](const std::string& number) { die(std::atoi(number.c_str())); }},
      {"exit", [](const std::string& code) { std::exit(std::atoi(code.c_str())); }},
  };
  return map;
}

void obey(std::string word) {
  const std::size_t colon = word.find(':');
  if (colon != std::string::npos && colon < word.find('=')) {
    if (word.substr(0, colon) != rank()) return;
    word.erase(0, colon + 1);
  }
  const std::size_t equals = word.find('=');
  const auto action = actions().find(word.substr(0, equals));
  if (action == actions().end()) {
    std::fprintf(stderr, "rank_stub: unknown word %s\n", word.c_str());
    std::exit(99);
  }
  action->second(equals == std::string::npos ? "" : word.substr(equals + 1));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) obey(argv[i]);
  return 0;
}
