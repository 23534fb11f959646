// Chooses calls and makes them fail, late or hang.
#include "layers/fault/fault.h"

#include <chrono>
#include <thread>

namespace tb::layers {
namespace {

// A number of the seed and the call alone, so that a seed means the same calls each time (splitmix64, Vigna 2015).
uint64_t mixed(uint64_t seed, uint64_t call) {
  uint64_t value = seed + (call + 1) * 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

auto slots_of(OptionReader &options) {
  std::bitset<static_cast<size_t>(slot_count)> out;
  const std::string text = options.text("slot", "");
  if (text.empty()) return out.set().reset(static_cast<size_t>(Slot::close));
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('|', at), text.size());
    const std::string name = text.substr(at, end - at);
    const Slot slot = slot_named(name);
    if (slot == Slot::count)
      options.refuse("slot", name, "names of tb/driver_slots.inc or tb/graph_slots.inc, apart by '|'");
    out.set(static_cast<size_t>(slot));
    at = end + 1;
  }
  return out;
}

// What a device does: a release has taken place unless the call was refused (rule E8), and a wait has waited.
bool fails_after(Slot slot, tb_status status) { return is_wait(slot) || (is_release(slot) && !tb_is_refusal(status)); }

} // namespace

Fault::Plan::Plan(OptionReader &options) {
  const bool asked_nth = options.has("nth"), asked_every = options.has("every"),
             asked_chance = options.has("probability"), asked_status = options.has("status");
  if (asked_nth + asked_every + asked_chance > 1)
    throw BadSpec("the layer fault takes one of nth, every and probability at a time");
  slots = slots_of(options);
  const uint64_t nth = options.number("nth", 0), every = options.number("every", 1);
  const double probability = options.real("probability", 0);
  seed = options.number("seed", 1);
  persistent = options.number("persistent", 0) != 0;
  const uint64_t wanted_status = options.number("status", TB_INTERNAL);
  const std::string after = options.text("after", "");
  delay_us = options.number("delay", 0);
  hang_seconds = options.real("hang", 0);
  if (hang_seconds > 1e6) options.refuse("hang", std::to_string(hang_seconds), "seconds, at most a million");
  if (every == 0) options.refuse("every", "0", "a number of at least 1");
  if (probability > 1) options.refuse("probability", std::to_string(probability), "a number from 0 to 1");
  if (wanted_status == 0 || wanted_status > INT32_MAX)
    options.refuse("status", std::to_string(wanted_status), "a status of tb/driver.h that is no success");
  if (!after.empty() && after != "0" && after != "1") options.refuse("after", after, "0 or 1");
  if (persistent && !asked_nth) throw BadSpec("the layer fault takes persistent=1 only with nth=N");

  const bool late = delay_us || hang_seconds > 0;
  when = asked_nth      ? When::nth
         : asked_every  ? When::every
         : asked_chance ? When::probability
         : late         ? When::always
                        : When::never;
  if (asked_status && when == When::never)
    throw BadSpec("the layer fault has a status but not when to give it. Add nth=N, every=N or probability=P");
  number = asked_nth ? nth : every;
  chance = probability >= 1 ? UINT64_MAX : static_cast<uint64_t>(probability * 18446744073709551616.0);
  if (asked_status || !late) status = static_cast<tb_status>(wanted_status);
  happens = after.empty() ? Happens::fitting : after == "1" ? Happens::always : Happens::never;
}

bool Fault::Plan::chooses(uint64_t call) const {
  switch (when) {
  case When::never:
    return false;
  case When::nth:
    return call == number || (persistent && call > number);
  case When::every:
    return call % number == number - 1;
  case When::probability:
    return mixed(seed, call) < chance;
  case When::always:
    return true;
  }
  return false;
}

Fault::Fault(const tb_host *host, OptionReader &options) : LayerOf(name, host) {
  plans_.push_back(std::make_unique<const Plan>(options));
  plan_.store(plans_.back().get(), std::memory_order_release);
}

void Fault::arm(const std::string &text) {
  OptionReader options(name, parse_options(name, text));
  auto plan = std::make_unique<const Plan>(options);
  options.done();
  std::lock_guard lock(mutex_);
  plans_.push_back(std::move(plan));
  plan_.store(plans_.back().get(), std::memory_order_release);
  changed_.notify_all();
}

void Fault::wait(const Plan &plan) {
  if (plan.delay_us) std::this_thread::sleep_for(std::chrono::microseconds(plan.delay_us));
  if (plan.hang_seconds <= 0) return;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(plan.hang_seconds),
                    [&] { return plan_.load(std::memory_order_relaxed) != &plan; });
}

tb_status Fault::around_any(Slot slot, Next next) {
  const Plan &now = plan();
  if (!now.slots[static_cast<size_t>(slot)]) return next();
  const uint64_t call = now.calls.fetch_add(1, std::memory_order_relaxed);
  if (now.when == Plan::When::never || !now.chooses(call)) return next();
  return fire(now, slot, call, next);
}

tb_status Fault::fire(const Plan &plan, Slot slot, uint64_t call, Next next) {
  plan.fired.fetch_add(1, std::memory_order_relaxed);
  wait(plan);
  if (plan.status == TB_OK) return next();
  // A close that happened cannot be reported as failed: there would be nothing left to call.
  const bool happens = slot != Slot::close && !has_result(slot) &&
                       (plan.happens == Plan::Happens::always ||
                        (plan.happens == Plan::Happens::fitting && fails_after(slot, plan.status)));
  if (happens)
    if (const tb_status status = next()) return status; // its own failure says more
  return fail(plan.status, "the layer fault lets %s fail here, as it was armed (call %llu since then)%s", name_of(slot),
              static_cast<unsigned long long>(call), happens ? "; the call itself took place" : "");
}

} // namespace tb::layers
