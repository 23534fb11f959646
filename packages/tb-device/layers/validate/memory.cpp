// Checks what copies and sets touch, and what is given back.
#include <cinttypes>

#include "layers/validate/validate.h"

namespace tb::layers {
namespace {

const char *text_of(bool host) { return host ? "host memory" : "memory of a device"; }

} // namespace

// On the way of every copy: looks up once, and notes the use under the same lock.
tb_status Validate::check_piece(Call call, const Piece &piece, uint32_t serial, uint64_t position) const {
  if (piece.size == 0) return TB_OK;
  bool good = piece.side == Side::host && piece.address; // unless it is inside a known range
  ranges_.with(piece.address, [&](uintptr_t, const Range &range, uint64_t reaches) {
    const bool right_side = range.on_host() == (piece.side == Side::host);
    const bool right_device =
        range.on_host() || range.kind == Kind::mapping || range.kind == Kind::none || range.device == piece.device;
    good = right_side && right_device && piece.size <= reaches;
    if (good && serial) range.use->note(serial, position);
  });
  return good ? TB_OK : refuse_piece(call, piece);
}

tb_status Validate::refuse_piece(Call call, const Piece &piece) const {
  const char *function = name_of(call.slot), *argument = piece.argument;
  if (!piece.address) return fail(TB_INVALID_ARGUMENT, "%s got NULL for '%s'", function, argument);
  if (const auto found = ranges_.find(piece.address)) {
    const Range &range = found->range;
    const uint64_t offset = reinterpret_cast<uintptr_t>(piece.address) - found->base;
    if (range.on_host() != (piece.side == Side::host))
      return fail(TB_INVALID_ARGUMENT,
                  "%s got %p for '%s', where this kind of copy wants %s, but it is in a %s that call %" PRIu64
                  " (%s) made. Correct the kind or the pointers",
                  function, piece.address, argument, text_of(piece.side == Side::host), name_of(range.kind), range.made,
                  name_of(range.made_by));
    if (piece.size > found->reaches)
      return fail(TB_INVALID_ARGUMENT,
                  "%s on %" PRIu64 " bytes from %p ('%s') goes %" PRIu64
                  " bytes past the end: the %s at %p that call %" PRIu64 " (%s) made has %" PRIu64
                  " bytes, and this begins at byte %" PRIu64,
                  function, piece.size, piece.address, argument, piece.size - found->reaches, name_of(range.kind),
                  reinterpret_cast<void *>(found->base), range.made, name_of(range.made_by), range.size, offset);
    return fail(TB_INVALID_ARGUMENT,
                "%s for device %d got %p for '%s', which is in a %s of device %d that call %" PRIu64
                " (%s) made. Copy between devices with peer_copy",
                function, piece.device, piece.address, argument, name_of(range.kind), range.device, range.made,
                name_of(range.made_by));
  }
  if (const auto gone = ranges_.find_ended(piece.address))
    return fail(TB_INVALID_ARGUMENT,
                "%s got %p for '%s', which is in a %s that call %" PRIu64 " (%s) gave back already; call %" PRIu64
                " (%s) had made it with %" PRIu64 " bytes. Keep memory until its last use is queued and done",
                function, piece.address, argument, name_of(gone->range.kind), gone->range.ended,
                name_of(gone->range.ended_by), gone->range.made, name_of(gone->range.made_by), gone->range.size);
  return fail(TB_INVALID_ARGUMENT,
              "%s got %p for '%s', which is no memory of this driver. Pass what it gave, or correct "
              "the kind of the copy",
              function, piece.address, argument);
}

tb_status Validate::with_pieces(Call call, Next next, tb_stream *stream, std::initializer_list<Piece> pieces) {
  const auto progress = async_ && captures_.load(std::memory_order_relaxed) == 0 ? progress_of(stream) : nullptr;
  const uint64_t position = progress ? progress->next_position() : 0;
  for (const Piece &piece : pieces)
    if (const tb_status status = check_piece(call, piece, progress ? progress->serial : 0, position)) {
      return status;
    }
  const tb_status status = next();
  if (status != TB_OK && progress) // noted uses did not happen
    for (const Piece &piece : pieces)
      ranges_.with(piece.address, [](uintptr_t, const Range &range, uint64_t) { range.use->unknown(); });
  return status;
}

tb_status Validate::around(On<Slot::mem_copy> on, Next next, int32_t device, tb_stream *stream, void *dst,
                           const void *src, uint64_t size, int32_t kind) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_device(call, "device", device)) return status;
  if (const tb_status status = check_stream(call, stream)) return status;
  if (const tb_status status = check_stream_device(call, stream, device)) return status;
  if (const tb_status status = check_kind(call, kind)) return status;
  const Side from = kind == TB_COPY_HOST_TO_DEVICE ? Side::host : Side::device;
  const Side to = kind == TB_COPY_DEVICE_TO_HOST ? Side::host : Side::device;
  return with_pieces(call, next, stream, {{"dst", dst, size, to, device}, {"src", src, size, from, device}});
}

tb_status Validate::around(On<Slot::mem_set> on, Next next, int32_t device, tb_stream *stream, void *dst, uint32_t,
                           uint32_t pattern_size, uint64_t count) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_device(call, "device", device)) return status;
  if (const tb_status status = check_stream(call, stream)) return status;
  if (const tb_status status = check_stream_device(call, stream, device)) return status;
  if (pattern_size != 1 && pattern_size != 2 && pattern_size != 4)
    return fail(TB_INVALID_ARGUMENT, "mem_set got pattern_size %u; patterns have 1, 2 or 4 bytes", pattern_size);
  const uint64_t size = count > UINT64_MAX / pattern_size ? UINT64_MAX : count * pattern_size;
  return with_pieces(call, next, stream, {{"dst", dst, size, Side::device, device}});
}

tb_status Validate::around(On<Slot::mem_copy_2d> on, Next next, int32_t device, tb_stream *stream,
                           const tb_copy_2d *copy) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_device(call, "device", device)) return status;
  if (const tb_status status = check_stream(call, stream)) return status;
  if (const tb_status status = check_stream_device(call, stream, device)) return status;
  if (const tb_status status = check_given(call, "copy", copy)) return status;
  if (const tb_status status = check_kind(call, copy->kind)) return status;
  if (copy->width == 0 || copy->height == 0) return next();
  if (copy->height > 1 && (copy->dst_pitch < copy->width || copy->src_pitch < copy->width))
    return fail(TB_INVALID_ARGUMENT,
                "mem_copy_2d got pitches of %" PRIu64 " (dst) and %" PRIu64 " bytes (src) for rows of %" PRIu64
                ": rows would overlap",
                copy->dst_pitch, copy->src_pitch, copy->width);
  const auto span = [&](uint64_t pitch) {
    uint64_t size = 0;
    if (__builtin_mul_overflow(copy->height - 1, pitch, &size) || __builtin_add_overflow(size, copy->width, &size))
      return UINT64_MAX;
    return size;
  };
  const Side from = copy->kind == TB_COPY_HOST_TO_DEVICE ? Side::host : Side::device;
  const Side to = copy->kind == TB_COPY_DEVICE_TO_HOST ? Side::host : Side::device;
  return with_pieces(
      call, next, stream,
      {{"dst", copy->dst, span(copy->dst_pitch), to, device}, {"src", copy->src, span(copy->src_pitch), from, device}});
}

tb_status Validate::around(On<Slot::peer_copy> on, Next next, tb_stream *stream, void *dst, int32_t dst_device,
                           const void *src, int32_t src_device, uint64_t size) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_device(call, "dst_device", dst_device)) return status;
  if (const tb_status status = check_device(call, "src_device", src_device)) return status;
  if (const tb_status status = check_stream(call, stream)) return status;
  if (const tb_status status = check_stream_device(call, stream, dst_device, src_device)) return status;
  return with_pieces(call, next, stream,
                     {{"dst", dst, size, Side::device, dst_device}, {"src", src, size, Side::device, src_device}});
}

void Validate::made_range(Call call, Kind kind, const void *pointer, uint64_t size, bool size_known, int32_t device,
                          const void *owner) {
  Range range;
  range.kind = kind;
  range.device = device;
  range.size = size;
  range.size_known = size_known;
  range.made_by = call.slot;
  range.made = call.number;
  range.owner = owner;
  range.use = std::make_shared<BlockUse>();
  ranges_.add(pointer, std::move(range));
}

// Whether queued work on the block can be unfinished as far as the program can know (validate.h).
tb_status Validate::check_finished(Call call, const void *pointer, const Range &range) const {
  if (!async_ || captures_.load(std::memory_order_relaxed) || !range.use->is_known()) return TB_OK;
  tb_stream *busy = nullptr;
  range.use->each([&](uint32_t serial, uint64_t position) {
    const auto stream = streams_.find(serial);
    if (!stream || stream->passed(position)) return;
    const uint64_t before = stream->enqueued();
    const tb_status status = driver_.stream_query(driver_self_, stream->stream);
    if (status == TB_OK) return stream->mark(before);
    if (status == TB_NOT_READY)
      busy = stream->stream;
    else // a failure of queued work is reported once: pass it on
      stream->unreported.store(status, std::memory_order_relaxed);
  });
  if (!busy) return TB_OK;
  return fail(
      TB_FAILED_PRECONDITION,
      "%s got %p, a %s of %" PRIu64 " bytes that call %" PRIu64
      " (%s) made, while work queued on stream %p still uses it. Wait for the stream or an event after the work, "
      "or free in stream order with mem_free_async",
      name_of(call.slot), pointer, name_of(range.kind), range.size, range.made, name_of(range.made_by),
      static_cast<const void *>(busy));
}

// On the way of every free: one look, one change.
tb_status Validate::take_range(Call call, Next next, Kind kind, void *pointer, int32_t device) {
  const bool null_allowed = kind == Kind::block || kind == Kind::host_block;
  if (!pointer && null_allowed) return next();
  bool good = false;
  std::optional<Range> used;
  ranges_.with(pointer, [&](uintptr_t base, const Range &range, uint64_t) {
    good = base == reinterpret_cast<uintptr_t>(pointer) && range.kind == kind && (device < 0 || range.device == device);
    if (good && range.use->is_used()) used = range;
  });
  if (!good) return lost_.take(pointer) ? next() : refuse_range(call, kind, pointer, device);
  if (used && call.slot != Slot::mem_free_async)
    if (const tb_status status = check_finished(call, pointer, *used)) return status;
  // Two frees at once: one of them comes second.
  if (!ranges_.end(pointer, call.number, call.slot)) return refuse_range(call, kind, pointer, device);
  const tb_status status = next();
  if (tb_is_refusal(status)) ranges_.revive(pointer, call.number);
  return status;
}

tb_status Validate::refuse_range(Call call, Kind kind, const void *pointer, int32_t device) const {
  const auto found = ranges_.find(pointer);
  if (found && found->base == reinterpret_cast<uintptr_t>(pointer) && found->range.kind == kind)
    return fail(TB_INVALID_ARGUMENT, "%s for device %d got %p, which call %" PRIu64 " (%s) made on device %d",
                name_of(call.slot), device, pointer, found->range.made, name_of(found->range.made_by),
                found->range.device);
  if (found)
    return fail(TB_INVALID_ARGUMENT,
                "%s got %p, which is %" PRIu64 " bytes into a %s at %p that call %" PRIu64 " (%s) made. Pass what %s",
                name_of(call.slot), pointer, reinterpret_cast<uintptr_t>(pointer) - found->base,
                name_of(found->range.kind), reinterpret_cast<void *>(found->base), found->range.made,
                name_of(found->range.made_by), found->range.kind == kind ? "that call gave" : "this function is for");
  if (const auto gone = ranges_.find_ended(pointer))
    return fail(TB_INVALID_ARGUMENT,
                "%s got %p, which call %" PRIu64 " (%s) gave back already; call %" PRIu64
                " (%s) had made it with %" PRIu64 " bytes. Give each back once",
                name_of(call.slot), pointer, gone->range.ended, name_of(gone->range.ended_by), gone->range.made,
                name_of(gone->range.made_by), gone->range.size);
  return fail(TB_INVALID_ARGUMENT, "%s got %p, which is no %s of this driver", name_of(call.slot), pointer,
              name_of(kind));
}

tb_status Validate::check_reserved(Call call, const void *address, uint64_t size) const {
  bool inside = false;
  const auto first = reinterpret_cast<uintptr_t>(address);
  handles(Kind::reservation).each([&](const void *base, const HandleFacts &facts) {
    const uintptr_t offset = first - reinterpret_cast<uintptr_t>(base);
    inside |= !facts.ended && offset <= facts.size && size <= facts.size - offset;
  });
  if (inside) return TB_OK;
  return fail(TB_INVALID_ARGUMENT,
              "%s got the %" PRIu64
              " bytes at %p, which are not inside one live range of vmm_reserve. Reserve them first, "
              "and release the range last",
              name_of(call.slot), size, address);
}

tb_status Validate::around(On<Slot::vmm_map> on, Next next, void *address, uint64_t size, tb_physical *physical,
                           uint64_t offset) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_handle(call, Kind::physical, physical)) return status;
  if (const tb_status status = check_reserved(call, address, size)) return status;
  const auto facts = handles(Kind::physical).find(physical);
  if (facts && (offset > facts->size || size > facts->size - offset))
    return fail(TB_INVALID_ARGUMENT,
                "vmm_map got %" PRIu64 " bytes from byte %" PRIu64 " of physical memory object %p, which call %" PRIu64
                " (vmm_create) made with %" PRIu64 " bytes",
                size, offset, static_cast<const void *>(physical), facts->made, facts->size);
  const tb_status status = next();
  if (status == TB_OK) made_range(call, Kind::mapping, address, size, true, facts ? facts->device : -1);
  return status;
}

tb_status Validate::around(On<Slot::vmm_unmap> on, Next next, void *address, uint64_t size) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_reserved(call, address, size)) return status;
  std::vector<std::pair<uintptr_t, Range>> inside;
  const auto first = reinterpret_cast<uintptr_t>(address);
  ranges_.each([&](uintptr_t base, const Range &range) {
    if (range.kind == Kind::mapping && base - first < size) inside.emplace_back(base, range);
  });
  for (const auto &[base, range] : inside)
    if (const tb_status status = check_finished(call, reinterpret_cast<void *>(base), range)) return status;
  for (const auto &[base, range] : inside) (void)ranges_.end(reinterpret_cast<void *>(base), call.number, call.slot);
  const tb_status status = next();
  if (tb_is_refusal(status))
    for (const auto &[base, range] : inside) ranges_.revive(reinterpret_cast<void *>(base), call.number);
  return status;
}

tb_status Validate::around(On<Slot::vmm_release> on, Next next, void *address, uint64_t size) {
  const Call call = begin(on.slot);
  if (const auto facts = handles(Kind::reservation).find(address); facts && !facts->ended && facts->size != size)
    return fail(TB_INVALID_ARGUMENT,
                "vmm_release got %" PRIu64 " bytes at %p, where call %" PRIu64 " (vmm_reserve) reserved %" PRIu64
                ". Release the whole range",
                size, address, facts->made, facts->size);
  return take_handle(call, next, Kind::reservation, address);
}

tb_status Validate::around(On<Slot::vmm_set_access> on, Next next, void *address, uint64_t size, const int32_t *devices,
                           uint32_t device_count, uint32_t access) {
  const Call call = begin(on.slot);
  if (const tb_status status = check_reserved(call, address, size)) return status;
  if (device_count)
    if (const tb_status status = check_given(call, "devices", devices)) return status;
  for (uint32_t place = 0; place < device_count; ++place)
    if (const tb_status status = check_device(call, "devices", devices[place])) return status;
  if (access > 3 || access == 2)
    return fail(TB_INVALID_ARGUMENT, "vmm_set_access got access %u; 0 is none, 1 read, 3 read and write", access);
  return next();
}

} // namespace tb::layers
