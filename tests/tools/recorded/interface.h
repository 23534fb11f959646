// A header as PyTorch writes them, for tools/drift/headers.py. It is read and never compiled.
// clang-format off
#if !defined(EXAMPLE_STABLE_ONLY)
#pragma once

#include <functional>

EXAMPLE_DIAGNOSTIC_PUSH_AND_IGNORED("-Wunused-parameter")
namespace outer {

class Declared;
namespace alias = other::place;

/* virtual void in_a_comment() = 0; */
struct EXAMPLE_API Base {
  virtual ~Base() = default;
  // virtual void in_another_comment() = 0;
  virtual int pure(int value) const = 0;
  virtual void body(void* /*data*/, const char* text = "virtual } { \"") { call(text, '{'); }
  virtual std::pair<size_t, std::string> with_defaults(
      Pair pool = {0, 0},
      std::function<bool(Stream)> filter = [](Stream stream) { return stream.good(); },
      [[maybe_unused]] unsigned count = 1 << 3) const noexcept = 0;
  [[nodiscard]] virtual const std::set<Kind>& kinds() const = 0;
  virtual auto trailing(const outer::inner::Value) -> bool { return false; }
  virtual auto trailing_pure() -> int = 0;
  virtual bool operator==(const Base& other) const = 0;
  int not_virtual(int number) { return number; }
  explicit Base(int number) : number_{number}, name_("name") {}

  struct Options final : public alias::Holder {
    Options() = default;
    ~Options() override = default;
    virtual Options* clone() const;
  };

#ifdef EXAMPLE_MOBILE
  virtual void only_mobile() {}
#else
  virtual void only_others() {}
#endif

 protected:
  using Callback = std::function<void(int)>;
  enum class State { idle, busy };
  int number_ = 0;
};

inline namespace version_1 {
template <typename T, class U = std::vector<T>>
class EXAMPLE_API [[nodiscard]] Derived final
    : public Base, private alias::Mixin<T, U> {
 public:
  int pure(int value) const final { return value; }
  void body(void*, const char*) override;
  FAIL_LATER(body)
  virtual T own(U&& value) = 0;
};
} // namespace version_1

#define EXAMPLE_CLASS(name)  \
  struct name : Base {       \
    virtual void macro() {}  \
  }

} // namespace outer

namespace {
class Hidden : outer::Base {};
} // namespace

#else
namespace broken {
#error "no such header"
#endif
