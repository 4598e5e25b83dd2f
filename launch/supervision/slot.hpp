// Memory for a snapshot: it has no name, child processes inherit it, and it outlives them.
#pragma once

namespace penstock {

class SnapshotSlot {
 public:
  /// Empty. Throws std::system_error.
  SnapshotSlot();
  SnapshotSlot(SnapshotSlot&& other) noexcept;
  SnapshotSlot(const SnapshotSlot&) = delete;
  SnapshotSlot& operator=(const SnapshotSlot&) = delete;
  ~SnapshotSlot();

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

}  // namespace penstock
