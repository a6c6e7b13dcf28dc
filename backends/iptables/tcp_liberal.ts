import type { BackendOptions } from "../contract/mod.ts";
import { readSysctl } from "../host/mod.ts";

/**
 * Whether the host's kernel takes out-of-window TCP packets for valid, without being asked to: then INVALID ones need not
 * be dropped. kube-proxy reads it at its start, too.
 */
export interface TcpLiberal {
  /** The kernel's setting; false until it is known. */
  value(): boolean;
  /** Starts to read the setting; resolves once it is known, or after a moment: a hanging `sysctl` holds up no start. */
  read(): Promise<void>;
  /** Whether it is still being read. */
  isPending(): boolean;
  /** Whether it became true after `read` had resolved; true once. */
  takeLateChange(): boolean;
}

const SETTING = "net.netfilter.nf_conntrack_tcp_be_liberal";
/** How long a start waits for the setting. */
const LONGEST_WAIT_MS = 250;

/** A setting that has not been read. */
export function createTcpLiberal({ runner, clock, logger }: BackendOptions): TcpLiberal {
  let isLiberal = false, isPending = false, isLate = false, hasLateChange = false;

  const readNow = async () => {
    const value = await readSysctl(runner, logger, SETTING);
    isPending = false;
    isLiberal = value !== undefined && value !== "0";
    hasLateChange = isLate && isLiberal;
    if (isLiberal) {
      logger.info("INVALID packets are not dropped, as the kernel is set to liberal", { setting: SETTING });
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
