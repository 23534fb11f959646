// The driver "replay": answers as the driver whose calls the layer trace recorded.
#include "layers/trace/replay.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "layers/framework/options.h"
#include "layers/trace/call_text.h"
#include "layers/trace/replay_work.h"

namespace tb::layers {
namespace {

struct Recorded {
  uint64_t number = 0;
  std::string call, arguments, data, result;
  tb_status status = TB_OK;
};

uint64_t number_of(const std::string &text) { return std::strtoull(text.c_str(), nullptr, 10); }

std::string unquoted(const std::string &text) { return text.size() < 2 ? "" : text.substr(1, text.size() - 2); }

class Replay {
public:
  Replay(const tb_host *host, const std::string &path);

  const tb_host *host;
  tb_driver_api api{};
  tb_driver_info info{};
  std::vector<tb_device_info> devices;
  std::string build_id;

  [[gnu::format(printf, 3, 4)]] tb_status fail(tb_status status, const char *format, ...) const;
  // Not inline: each function of the table ends in it.
  tb_status failed(const std::exception &error) const noexcept;
  template <Slot S, class... A> tb_status answer(A... arguments);
  tb_status close_check();

private:
  const Recorded *expect(const char *call, const std::string &arguments, const void *data, uint64_t size);
  template <Slot S, int Place, class T> void give(const Recorded &recorded, uint64_t size, T argument);
  template <Slot S, class... A> void effect(A... arguments);

  const std::string path_;
  std::vector<Recorded> calls_;
  std::mutex mutex_;
  size_t next_ = 0;
  std::string mismatch_;
  Names names_;
  HostMemory memory_;
  std::map<uint64_t, std::unique_ptr<char>> handles_; // something with an address for each
  InOrder work_;
};

Replay::Replay(const tb_host *host, const std::string &path) : host(host), path_(path) {
  std::ifstream file(path);
  if (!file)
    throw BadSpec("the replay driver cannot read the trace " + path + ". Record one with TB_LAYERS=trace:file=FILE");
  std::string line;
  if (!std::getline(file, line) || member(line, "trace") != "1")
    throw BadSpec(path + " is no trace that this tb-device reads. Record it again with TB_LAYERS=trace:file=FILE");
  build_id = joined({"replay of ", unquoted(member(line, "build_id"))});
  api.groups = number_of(member(line, "groups"));
  const std::string facts = from_hexadecimal(unquoted(member(line, "info")));
  std::memcpy(&info, facts.data(), std::min(facts.size(), sizeof info));
  const std::string functions = joined({" ", unquoted(member(line, "functions")), " "});
  const std::string listed = member(line, "devices");
  for (size_t at = 0; (at = listed.find('"', at)) != std::string::npos;) {
    const size_t end = listed.find('"', at + 1);
    const std::string bytes = from_hexadecimal(listed.substr(at + 1, end - at - 1));
    tb_device_info device{};
    std::memcpy(&device, bytes.data(), std::min(bytes.size(), sizeof device));
    devices.push_back(device);
    at = end + 1;
  }
  while (std::getline(file, line)) {
    Recorded one;
    for (auto &[name, value] : members_of(line)) {
      if (name == "n") one.number = number_of(value);
      if (name == "call") one.call = unquoted(value);
      if (name == "arguments") one.arguments = value;
      if (name == "data") one.data = unquoted(value);
      if (name == "status") one.status = static_cast<tb_status>(number_of(value));
      if (name == "result") one.result = value;
    }
    if (!is_fact(slot_named(one.call))) calls_.push_back(std::move(one));
  }
  std::ranges::sort(calls_, {}, &Recorded::number);

  api.struct_size = sizeof api;
  api.abi_major = TB_ABI_MAJOR;
  api.abi_minor = TB_ABI_MINOR;
  api.build_id = build_id.c_str();
  const auto offered = [&](const char *name) { return functions.find(joined({" ", name, " "})) != std::string::npos; };
  const auto put = []<Slot S, class... A>(On<S>, tb_status (*&slot)(tb_driver *, A...)) {
    slot = [](tb_driver *self, A... arguments) -> tb_status {
      auto &replay = *reinterpret_cast<Replay *>(self);
      try {
        return replay.answer<S>(arguments...);
      } catch (const std::exception &error) {
        return replay.failed(error);
      }
    };
  };
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  if (offered(#name)) put(On<Slot::name>{}, api.name);
#define TB_SLOT0(group, need, name)
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
}

tb_status Replay::fail(tb_status status, const char *format, ...) const {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  host->set_error(status, 0, text);
  return status;
}

tb_status Replay::failed(const std::exception &error) const noexcept {
  return fail(TB_INTERNAL, "the replay driver: %s", error.what());
}

// The recorded call, or NULL after reporting the mismatch. With the lock held.
const Recorded *Replay::expect(const char *call, const std::string &arguments, const void *data, uint64_t size) {
  const std::string got = std::string(call) + arguments;
  if (!mismatch_.empty()) {
    (void)fail(TB_DATA_LOSS, "%s. This later call was %s", mismatch_.c_str(), got.c_str());
    return nullptr;
  }
  const auto differs = [&](const std::string &what) -> const Recorded * {
    mismatch_ = "the program's calls differ from the trace " + path_ + ": " + what;
    (void)fail(TB_DATA_LOSS, "%s", mismatch_.c_str());
    return nullptr;
  };
  if (next_ == calls_.size())
    return differs(joined({"it has ", std::to_string(calls_.size()), " calls, and this one more was made: ", got}));
  const Recorded &expected = calls_[next_];
  const std::string wanted = expected.call + expected.arguments;
  if (wanted != got)
    return differs(joined({"expected call ", std::to_string(expected.number), " was ", wanted, ", got ", got}));
  const uint64_t compared = std::min<uint64_t>(expected.data.size() / 2, size);
  if (compared && data && hexadecimal(data, compared) != expected.data)
    return differs(joined({"call ", std::to_string(expected.number), ", ", wanted, ", copied the data ", expected.data,
                           ", got ", hexadecimal(data, compared)}));
  ++next_;
  return &expected;
}

template <Slot S, int Place, class T>
void Replay::give(const Recorded &recorded, [[maybe_unused]] uint64_t size, T argument) {
  constexpr std::string_view name = argument_of(S, Place);
  if constexpr (name.starts_with("out")) {
    using Target = std::remove_pointer_t<T>;
    const std::string value = member(recorded.result, std::string(name));
    if (value.empty() || !argument) return;
    if constexpr (std::is_pointer_v<Target>) {
      const uint64_t number = number_of(value.substr(std::min<size_t>(2, value.size()))); // "#7"
      void *object = const_cast<void *>(names_.object(number));
      constexpr bool is_memory = std::is_same_v<Target, void *>;
      if (!object && is_memory) object = memory_.allocate(size);
      if (!object && !is_memory) {
        handles_[number].reset(new char);
        object = handles_[number].get();
      }
      *argument = static_cast<Target>(object);
    } else if constexpr (std::is_integral_v<Target>) {
      *argument = static_cast<Target>(std::strtoll(value.c_str(), nullptr, 10));
    } else if constexpr (std::is_same_v<Target, tb_pointer_info>) {
      tb_pointer_info facts{argument->struct_size,
                            static_cast<int32_t>(number_of(member(value, "kind"))),
                            static_cast<int32_t>(std::strtol(member(value, "device").c_str(), nullptr, 10)),
                            0,
                            const_cast<void *>(names_.object(number_of(member(value, "base").substr(2)))),
                            number_of(member(value, "size"))};
      std::memcpy(argument, &facts, std::min<size_t>(argument->struct_size, sizeof facts));
    } else {
      const std::string bytes = from_hexadecimal(unquoted(value));
      const uint32_t room = argument->struct_size;
      std::memcpy(argument, bytes.data(), std::min<size_t>(room, bytes.size()));
      argument->struct_size = room;
    }
  }
}

// What the call does to memory, in order with what was queued before.
template <Slot S, class... A> void Replay::effect([[maybe_unused]] A... arguments) {
  if constexpr (S == Slot::mem_copy) {
    work_.add([=] {
      [](int32_t, tb_stream *, void *dst, const void *src, uint64_t size, int32_t) {
        if (size) std::memmove(dst, src, size);
      }(arguments...);
    });
  } else if constexpr (S == Slot::peer_copy) {
    work_.add([=] {
      [](tb_stream *, void *dst, int32_t, const void *src, int32_t, uint64_t size) {
        if (size) std::memmove(dst, src, size);
      }(arguments...);
    });
  } else if constexpr (S == Slot::mem_set) {
    work_.add([=] {
      [](int32_t, tb_stream *, void *dst, uint32_t pattern, uint32_t pattern_size, uint64_t count) {
        for (uint64_t place = 0; place < count; ++place)
          std::memcpy(static_cast<char *>(dst) + place * pattern_size, &pattern, pattern_size);
      }(arguments...);
    });
  } else if constexpr (S == Slot::mem_copy_2d) {
    const tb_copy_2d copy = *argument_at<2>(arguments...);
    work_.add([copy] {
      for (uint64_t row = 0; row < copy.height; ++row)
        std::memcpy(static_cast<char *>(copy.dst) + row * copy.dst_pitch,
                    static_cast<const char *>(copy.src) + row * copy.src_pitch, copy.width);
    });
  } else if constexpr (S == Slot::closure_commit) {
    work_.add([=, this] {
      [this](tb_stream *stream, void *storage, const tb_closure *closure) {
        char text[960] = "";
        const tb_closure_context context = {sizeof context, 0, stream, 0, sizeof text, text, nullptr, 0, 0};
        (void)closure->run(storage, &context); // its failure was recorded where it was reported
        closure->destroy(storage);
        memory_.free(storage);
      }(arguments...);
    });
  } else if constexpr (S == Slot::closure_cancel) {
    memory_.free(argument_at<1>(arguments...));
  } else if constexpr (S == Slot::stream_host_call) {
    work_.add([=] {
      [](tb_stream *, void (*function)(void *, tb_status), void *user) { function(user, TB_OK); }(arguments...);
    });
  } else if constexpr (ends_memory<S>()) {
    work_.add([this, base = taken_object<S>(arguments...)] { memory_.free(base); });
  } else if constexpr (is_wait(S) || S == Slot::stream_query || S == Slot::event_query) {
    work_.wait(); // recorded as done
  }
}

template <Slot S, class... A> tb_status Replay::answer(A... arguments) {
  if constexpr (S == Slot::get_info) {
    [this](tb_driver_info *out) {
      const uint32_t room = out->struct_size;
      std::memcpy(out, &info, std::min<size_t>(room, sizeof info));
      out->struct_size = room;
    }(arguments...);
    return TB_OK;
  } else if constexpr (S == Slot::device_count) {
    [this](int32_t *out) { *out = static_cast<int32_t>(devices.size()); }(arguments...);
    return TB_OK;
  } else if constexpr (S == Slot::device_get_info) {
    return [this](int32_t device, tb_device_info *out) {
      if (device < 0 || static_cast<size_t>(device) >= devices.size())
        return fail(TB_OUT_OF_RANGE, "the recorded driver has %zu devices, and %d was asked", devices.size(), device);
      const uint32_t room = out->struct_size;
      std::memcpy(out, &devices[static_cast<size_t>(device)], std::min<size_t>(room, sizeof *out));
      out->struct_size = room;
      return tb_status{TB_OK};
    }(arguments...);
  } else if constexpr (S == Slot::get_extension) {
    return fail(TB_NOT_FOUND, "the replay driver has no extensions");
  } else {
    const void *data = nullptr;
    uint64_t size = 0;
    if constexpr (S == Slot::mem_copy) {
      data = argument_at<3>(arguments...);
      size = argument_at<4>(arguments...);
    }
    const Recorded *recorded;
    tb_status status;
    {
      std::lock_guard lock(mutex_);
      recorded = expect(name_of(S), arguments_text<S>(names_, arguments...), data, size);
      if (!recorded) return TB_DATA_LOSS;
      status = recorded->status;
      note_taken<S>(names_, number_taken<S>(names_, arguments...), status, arguments...);
      if (status == TB_OK) {
        const uint64_t bytes = size_argument<S>(arguments...);
        [&]<int... Place>(std::integer_sequence<int, Place...>) {
          (give<S, Place>(*recorded, bytes, arguments), ...);
        }(std::make_integer_sequence<int, static_cast<int>(sizeof...(A))>{});
        note_objects<S>(names_, arguments...);
      }
    }
    if (status == TB_OK) effect<S>(arguments...);
    if (status == TB_OK || status == TB_NOT_READY) return status;
    return fail(status, "call %llu failed so when it was recorded in %s",
                static_cast<unsigned long long>(recorded->number), path_.c_str());
  }
}

tb_status Replay::close_check() {
  work_.wait();
  std::lock_guard lock(mutex_);
  if (!mismatch_.empty() || next_ == calls_.size()) return TB_OK;
  const Recorded &expected = calls_[next_];
  mismatch_ = "the program's calls differ from the trace " + path_ + ": it ended where call " +
              std::to_string(expected.number) + " was " + expected.call + expected.arguments;
  return fail(TB_DATA_LOSS, "%s", mismatch_.c_str()); // reported once: the next close succeeds
}

} // namespace
} // namespace tb::layers

tb_status tb_replay_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self) {
  using tb::layers::Replay;
  try {
    const char *path = host->option("file");
    if (!path || !*path)
      throw tb::layers::BadSpec("the replay driver needs the option file: a trace of the layer trace");
    auto replay = std::make_unique<Replay>(host, path);
    replay->api.close = [](tb_driver *opened) -> tb_status {
      auto *mine = reinterpret_cast<Replay *>(opened);
      const tb_status status = mine->close_check();
      if (status == TB_OK) delete mine;
      return status;
    };
    const tb_status status = tb_driver_fill(api, &replay->api);
    if (status != TB_OK) return status;
    *self = reinterpret_cast<tb_driver *>(replay.release());
    return TB_OK;
  } catch (const std::exception &error) {
    host->set_error(TB_INVALID_ARGUMENT, 0, error.what());
    return TB_INVALID_ARGUMENT;
  }
}
