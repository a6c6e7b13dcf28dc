import type { BackendOptions } from "../contract/mod.ts";
import { readSysctl } from "../host/mod.ts";

/**
 * The host's setting that makes conntrack accept out-of-window TCP packets, so that INVALID ones need not be dropped.
 * kube-proxy reads it at its start, too.
 */
export interface TcpLiberal {
  /** Returns the setting; false until it is known. */
  value(): boolean;
  /** Starts reading the setting; resolves once it is known, or after 250 ms, so that a hanging `sysctl` delays no start. */
  read(): Promise<void>;
  /** Whether the setting is still being read. */
  isPending(): boolean;
  /** Returns whether the setting became true after `read` had resolved, and resets that. */
  takeLateChange(): boolean;
}

const SETTING = "net.netfilter.nf_conntrack_tcp_be_liberal";
/** The longest that a start waits for the setting. */
const LONGEST_WAIT_MS = 250;

/** Creates the reader of the setting. */
export function createTcpLiberal(options: BackendOptions): TcpLiberal {
  const { clock, logger } = options;
  let isLiberal = false, isPending = false, isLate = false, hasLateChange = false;

  const readNow = async () => {
    const value = await readSysctl(options, SETTING);
    isPending = false;
    isLiberal = value !== undefined && value !== "0";
    hasLateChange = isLate && isLiberal;
    if (isLiberal) {
      logger.info("INVALID packets are not dropped: conntrack is liberal", { setting: SETTING });
    }
  };

  return {
    value: () => isLiberal,
    async read() {
      isPending = true;
      isLate = hasLateChange = false;
      const waited = Promise.withResolvers<void>();
      const cancel = clock.schedule(LONGEST_WAIT_MS, waited.resolve);
      await Promise.race([readNow(), waited.promise]);
      cancel();
      isLate = isPending;
    },
    isPending: () => isPending,
    takeLateChange() {
      const hasChanged = hasLateChange;
      hasLateChange = false;
      return hasChanged;
    },
  };
}
