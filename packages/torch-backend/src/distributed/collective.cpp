// collective.cpp -- see collective.h.
#include "collective.h"

#include "stream_order.h"

#include <ATen/core/ivalue.h>
#include <c10/util/StringUtil.h>

#include <stdexcept>

namespace tb::distributed {
namespace {

std::string text_of(const std::exception_ptr &thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::Error &error) {
    return error.what_without_backtrace();
  } catch (const std::exception &error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

std::mutex orders_mutex;
std::vector<std::weak_ptr<CallOrder>> &orders() {
  static auto &all = *new std::vector<std::weak_ptr<CallOrder>>;
  return all;
}

// Whether the engine refused the arguments, before it sent anything. Its failures of the network have other types.
bool is_refusal(const std::exception_ptr &thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const c10::Error &) {
    return true;
  } catch (const std::invalid_argument &) {
    return true;
  } catch (...) {
    return false;
  }
}

// The clock of records.
int64_t steady_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// `text` may hold an encoded call site, which the device's error text spells out.
void throw_error(const Operation &operation, int32_t device, const std::string &text) {
  runtime.device.set_error(TB_UNAVAILABLE, 0, device, operation.wait.name, text.c_str());
  check(TB_UNAVAILABLE, operation.wait.name, device, Failed::work);
}

constexpr const char *what_to_do = "\nDestroy the group, or start the ranks again, as torchrun --max-restarts does.";

} // namespace

// ---- Group ----------------------------------------------------------------------------------------------------------

void Group::set_name(const std::string &name) {
  std::lock_guard lock(mutex_);
  name_ = name;
}

std::string Group::describe(const Operation &operation, uint64_t number) const {
  std::lock_guard lock(mutex_);
  return c10::str(operation.name, " (call ", number, " of process group '", name_, "', rank ", rank_, " of ", size_,
                  ")");
}

void Group::set_failure(const std::string &text) {
  std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = text;
}

std::string Group::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

// ---- Collective -----------------------------------------------------------------------------------------------------

Collective::Collective(const Operation &operation, Call call, std::shared_ptr<Group> group, uint64_t number,
                       int32_t device)
    : operation_(operation), group_(std::move(group)), number_(number), device_(device), site_(current_call_site()),
      outer_site_(current_call_site(PythonCallSite::depth)), call_(std::move(call)) {
  record_.struct_size = sizeof record_;
  record_.kind = TB_RECORD_COLLECTIVE;
  record_.name = operation.operator_name();
  record_.device = device;
  runtime.stream.record_call(&record_);
}

Collective::~Collective() { tell_end(this); }

void Collective::start(c10d::Backend &engine) {
  Call call;
  {
    std::lock_guard lock(mutex_);
    if (done_) return; // aborted
    call = call_;
    record_.begin = steady_nanoseconds();
  }
  c10::intrusive_ptr<c10d::Work> work;
  c10::intrusive_ptr<c10::ivalue::Future> future;
  std::exception_ptr thrown;
  try {
    work = call(engine);
    try {
      future = work->getFuture();
    } catch (const std::exception &) { // sends and receives have none
    }
  } catch (...) {
    thrown = std::current_exception();
  }
  {
    std::lock_guard lock(mutex_);
    engine_work_ = work;
    future_reports_ = future != nullptr;
    if (thrown && is_refusal(thrown)) refusal_ = thrown;
    started_ = true;
    changed_.notify_all();
  }
  if (thrown) return finish(text_of(thrown));
  if (future)
    future->addCallback([self = shared_from_this()](c10::ivalue::Future &done) {
      self->finish(done.hasError() ? text_of(done.exception_ptr()) : "");
    });
}

std::exception_ptr Collective::refusal() {
  std::lock_guard lock(mutex_);
  return refusal_;
}

void Collective::finish(const std::string &reason) {
  Call dropped;
  std::lock_guard lock(mutex_);
  if (done_) return;
  done_ = started_ = true;
  record_.end = steady_nanoseconds();
  if (record_.begin) runtime.stream.record_run(&record_);
  if (!reason.empty()) {
    failure_ =
        c10::str(encode_call_site(site_, outer_site_), group_->describe(operation_, number_), " failed: ", reason);
    // After a refusal the next call is as good as any.
    if (!refusal_) {
      group_->set_failure(failure_);
      failure_ += "\nThe results of this call, and of later calls of the group, are not valid.";
      failure_ += what_to_do;
    }
  }
  dropped.swap(call_); // the memory of the engine's tensors goes after the lock
  changed_.notify_all();
}

void Collective::abort() {
  c10::intrusive_ptr<c10d::Work> work;
  {
    std::lock_guard lock(mutex_);
    if (done_) return;
    if (!future_reports_) work = engine_work_;
  }
  if (work) {
    try {
      work->abort();
    } catch (const std::exception &) { // an engine without abort: the thread that waits for it is left alone
    }
  }
  finish("the process group was aborted");
}

bool Collective::wait(std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  std::unique_lock lock(mutex_);
  const auto wait_for = [&](auto condition) {
    if (limit != kNoTimeout) return changed_.wait_until(lock, until, condition);
    changed_.wait(lock, condition);
    return true;
  };
  if (!wait_for([&] { return started_; })) return false;
  if (!done_ && !future_reports_ && !asking_) { // one thread asks the engine for all
    asking_ = true;
    const auto work = engine_work_;
    lock.unlock();
    std::string reason;
    try {
      if (!work->wait(limit)) reason = "the engine has given it up";
    } catch (...) {
      reason = text_of(std::current_exception());
    }
    finish(reason);
    tell_wait(nullptr, this);
    return true;
  }
  const bool in_time = wait_for([&] { return done_; });
  if (in_time) tell_wait(nullptr, this);
  return in_time;
}

bool Collective::done() {
  std::lock_guard lock(mutex_);
  return done_;
}

std::string Collective::failure() {
  std::lock_guard lock(mutex_);
  return failure_;
}

void Collective::throw_failure() {
  const std::string text = failure();
  if (!text.empty()) throw_error(operation_, device_, text);
}

int Collective::source() {
  wait();
  std::lock_guard lock(mutex_);
  return engine_work_ ? engine_work_->sourceRank() : -1;
}

std::string Start::operator()() {
  order->ready(*collective);
  return "";
}

std::string AwaitResult::operator()() {
  collective->wait();
  return collective->failure();
}

// ---- CallOrder ------------------------------------------------------------------------------------------------------

CallOrder::CallOrder(c10::intrusive_ptr<c10d::Backend> engine)
    : engine_(std::move(engine)), group_(std::make_shared<Group>(engine_->getRank(), engine_->getSize())) {}

std::shared_ptr<CallOrder> CallOrder::make(c10::intrusive_ptr<c10d::Backend> engine) {
  std::shared_ptr<CallOrder> order(new CallOrder(std::move(engine)));
  std::lock_guard lock(orders_mutex);
  std::erase_if(orders(), [](const auto &each) { return each.expired(); });
  orders().push_back(order);
  return order;
}

std::shared_ptr<Collective> CallOrder::add(const Operation &operation, Collective::Call call, int32_t device) {
  std::unique_lock lock(mutex_);
  if (const std::string failure = group_->failure(); !failure.empty()) {
    const std::string text = c10::str(group_->describe(operation, number_ + 1),
                                      " was not started, because the group has failed before: ", failure, what_to_do);
    lock.unlock(); // the error's text is completed with the GIL
    throw_error(operation, device, text);
  }
  std::erase_if(running_, [](const auto &each) { return each->done(); });
  auto collective = std::make_shared<Collective>(operation, std::move(call), group_, ++number_, device);
  waiting_.push_back({collective});
  return collective;
}

void CallOrder::ready(const Collective &collective) {
  std::lock_guard lock(mutex_);
  for (Entry &entry : waiting_)
    if (entry.collective.get() == &collective) {
      entry.ready = true;
      break;
    }
  while (!waiting_.empty() && waiting_.front().ready) {
    std::shared_ptr<Collective> next = std::move(waiting_.front().collective);
    waiting_.pop_front();
    next->start(*engine_);
    if (!next->done()) running_.push_back(std::move(next));
  }
}

void CallOrder::end_all(std::chrono::milliseconds limit) {
  std::vector<std::weak_ptr<CallOrder>> all;
  {
    std::lock_guard lock(orders_mutex);
    all.swap(orders());
  }
  const auto until = std::chrono::steady_clock::now() + limit;
  for (const auto &each : all) {
    const auto order = each.lock();
    if (!order) continue;
    for (const auto &collective : order->pending()) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      if (left.count() > 0) collective->wait(left);
    }
    order->abort("the process is ending");
  }
}

std::vector<std::shared_ptr<Collective>> CallOrder::pending() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Collective>> out(running_.begin(), running_.end());
  for (const Entry &entry : waiting_) out.push_back(entry.collective);
  return out;
}

void CallOrder::abort(const std::string &reason) {
  group_->set_failure(reason);
  for (const auto &collective : pending()) collective->abort();
}

uint64_t CallOrder::number() {
  std::lock_guard lock(mutex_);
  return number_;
}

tb_stream *CallOrder::side_stream(int32_t device, Side side) {
  std::lock_guard lock(mutex_);
  if (sides_.size() <= static_cast<size_t>(device)) sides_.resize(static_cast<size_t>(device) + 1);
  auto &stream = sides_[static_cast<size_t>(device)][static_cast<size_t>(side)];
  if (!stream) {
    tb_stream *acquired = nullptr;
    check(runtime.stream.stream_acquire(device, 0, &acquired), "stream_acquire", device);
    stream.reset(acquired);
  }
  return stream.get();
}

} // namespace tb::distributed
