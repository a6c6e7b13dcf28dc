/** Buffers for datagrams of any size, of which only the used pages take memory. */

/** The largest payload of a UDP datagram fits. */
const SLOT_BYTES = 65_536;
/** Slots that are allocated at once: 64 MB, which malloc maps without touching them. */
const SLOTS = 1024;

/** A pool of buffers. */
export interface DatagramBuffers {
  take(): Uint8Array<ArrayBuffer>;
  /** Takes back a buffer that no pending call uses. */
  release(buffer: Uint8Array<ArrayBuffer>): void;
}

/**
 * Creates a pool of buffers of 64 kB each. A datagram of 100 bytes touches one page of 4 kB, so 10,000 buffers take some
 * 40 MB; allocated one by one they would take 640.
 */
export function createDatagramBuffers(): DatagramBuffers {
  const free: Uint8Array<ArrayBuffer>[] = [];
  const grow = () => {
    const slab = new ArrayBuffer(SLOTS * SLOT_BYTES);
    for (let i = SLOTS - 1; i >= 0; i--) free.push(new Uint8Array(slab, i * SLOT_BYTES, SLOT_BYTES));
  };
  return {
    take() {
      if (free.length === 0) grow();
      return free.pop()!;
    },
    release: (buffer) => void free.push(buffer),
  };
}
