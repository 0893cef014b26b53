#include "output_mux.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <csignal>

namespace samerun::cli {
namespace {

/// A stream whose writer and whose sink's reader are the test.
struct Wire {
  Pipe in = make_pipe(), out = make_pipe();
  Sink sink{out.write.get()};

  void write(const std::string& text) { ASSERT_EQ(::write(in.write.get(), text.data(), text.size()), static_cast<ssize_t>(text.size())); }
  std::string written() {
    set_nonblocking(out.read.get());
    std::string text(1 << 16, '\0');
    const ssize_t size = ::read(out.read.get(), text.data(), text.size());
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
  }
};

TEST(OutputMuxTest, WholeLinesOnlyPassThroughAPrefixedStream) {
  Wire wire;
  LineStream stream(std::move(wire.in.read), "[3] ", wire.sink);
  wire.write("one\ntw");
  stream.read_available();
  EXPECT_EQ(wire.written(), "[3] one\n");
  wire.write("o\n\nrest");
  stream.read_available();
  EXPECT_EQ(wire.written(), "[3] two\n[3] \n");
  wire.in.write.reset();
  stream.read_available();
  EXPECT_EQ(wire.written(), "[3] rest\n");
  EXPECT_FALSE(stream.open());
}

TEST(OutputMuxTest, AStreamWithoutPrefixPassesBytesAsTheyCome) {
  Wire wire;
  LineStream stream(std::move(wire.in.read), "", wire.sink);
  wire.write("50%\r");
  stream.read_available();
  EXPECT_EQ(wire.written(), "50%\r");
  stream.finish();
  EXPECT_EQ(wire.written(), "");
}

TEST(OutputMuxTest, TheLastTwentyLinesAreKept) {
  Wire wire;
  LineStream stream(std::move(wire.in.read), "", wire.sink);
  std::string all;
  for (int i = 1; i <= 25; ++i) all += std::to_string(i) + "\n";
  wire.write(all + "end");
  stream.finish();
  EXPECT_TRUE(stream.tail().starts_with("7\n8\n")) << stream.tail();
  EXPECT_TRUE(stream.tail().ends_with("25\nend")) << stream.tail();
}

// The stack trace of a libtorch error pushed its message out of what a failed run says last.
TEST(OutputMuxTest, AStackTraceDoesNotPushOutTheMessageBeforeIt) {
  Wire wire;
  LineStream stream(std::move(wire.in.read), "", wire.sink);
  std::string all = "train: mat1 and mat2 must have the same dtype\nException raised from meta (most recent call first):\n";
  for (int i = 0; i < 30; ++i) all += "frame #" + std::to_string(i) + ": at::addmm\n";
  wire.write(all + "last\n");
  stream.finish();
  EXPECT_EQ(stream.tail(), "train: mat1 and mat2 must have the same dtype\nException raised from meta (most recent call first):\nlast");
}

TEST(OutputMuxTest, ASlowReaderFillsTheSinkAndNeverBlocks) {
  Wire wire;
  const std::string text(3 << 20, 'y');
  wire.sink.append(text);
  EXPECT_TRUE(wire.sink.full());
  std::string got;
  while (wire.sink.pending()) {
    got += wire.written();
    wire.sink.flush();
  }
  got += wire.written();
  EXPECT_EQ(got, text);
}

TEST(OutputMuxTest, AReaderThatHasGoneIsForgotten) {
  ::signal(SIGPIPE, SIG_IGN);
  Wire wire;
  wire.out.read.reset();
  wire.sink.append("x\n");
  wire.sink.append("y\n");
  EXPECT_FALSE(wire.sink.pending());
}

}  // namespace
}  // namespace samerun::cli
