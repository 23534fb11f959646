// A counted reference to an object that has retain() and release().
#pragma once

#include <utility>

namespace tb::drivers {

template <class T> class Ref {
public:
  Ref() = default;
  // Adds a count.
  explicit Ref(T *object) noexcept : object_(object) {
    if (object_) object_->retain();
  }
  // Takes over the count with which a new object starts.
  static Ref take(T *object) noexcept {
    Ref reference;
    reference.object_ = object;
    return reference;
  }
  Ref(const Ref &other) noexcept : Ref(other.object_) {}
  Ref(Ref &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref &operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->release();
  }

  T *get() const noexcept { return object_; }
  T *operator->() const noexcept { return object_; }
  T &operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

private:
  T *object_ = nullptr;
};

} // namespace tb::drivers
