// Gives files to other processes of the same user that present a token.
//
// A handle names the exporting driver (a socket in the abstract namespace, so that nothing is left behind when the
// process dies) and holds a random token. A thread, started by the first export, sends the token's file over that
// socket. Handles carry a checksum, which distinguishes a handle that is invalid from one whose file is gone.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "drivers/cpu/ipc/shared_file.h"
#include "tb/driver.h"

namespace tb::drivers::cpu {

class Exports {
public:
  enum class Kind : uint32_t { memory = 1, event = 2 };
  using Token = std::array<uint8_t, 16>;

  // While it lives, the file can be fetched. The file must live longer.
  class Publication {
  public:
    ~Publication() { exports_.withdraw(token_); }
    Publication(const Publication &) = delete;
    Publication &operator=(const Publication &) = delete;
    void write_handle(tb_ipc_handle *out) const { exports_.write_handle(token_, kind_, size_, out); }

  private:
    friend class Exports;
    Publication(Exports &exports, Token token, Kind kind, uint64_t size)
        : exports_(exports), token_(token), kind_(kind), size_(size) {}
    Exports &exports_;
    const Token token_;
    const Kind kind_;
    const uint64_t size_;
  };

  explicit Exports(const tb_host *host) : host_(host) {}
  ~Exports(); // ends and joins the thread
  Exports(const Exports &) = delete;
  Exports &operator=(const Exports &) = delete;

  tb_status publish(int file, Kind kind, uint64_t size, std::unique_ptr<Publication> *out);
  // Callable in any process, also in the exporting one. The file has its own description, so locks of the owner are
  // seen.
  static tb_status fetch(const tb_host *host, const tb_ipc_handle &handle, Kind kind, File *out, uint64_t *out_size);

private:
  void withdraw(const Token &token) noexcept;
  void write_handle(const Token &token, Kind kind, uint64_t size, tb_ipc_handle *out) const;
  tb_status start(); // with the lock held
  void serve();
  void answer(int connection);

  const tb_host *const host_;
  std::mutex mutex_;
  std::map<Token, int> files_;
  Token name_ = {};
  File listener_;
  std::thread thread_;
};

} // namespace tb::drivers::cpu
