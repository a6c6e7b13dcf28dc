import { type Clock, sleep } from "../../platform/mod.ts";
import { identifyProcess } from "./client.ts";
import type { ProxyProcess } from "./process.ts";

/** Another Sluice serves this node. */
export class AnotherSluiceError extends Error {
  override readonly name = "AnotherSluiceError";

  /** `where` is the path of its control socket, or the address of its metrics or health server. */
  constructor(where: string, pid: number | undefined) {
    const who = pid === undefined ? "" : ` (pid ${pid})`;
    super(`another sluice is running${who}: it answers on ${where}; stop it before you start this one`);
  }
}

/** The time that the other process has to identify itself, in milliseconds. */
const LONGEST_ANSWER_MS = 2000;

/** This process, for the comparison with the holder of a control socket. */
export interface Refuser {
  readonly self: ProxyProcess;
  /** Whether the ports that this proxy is configured to serve are free. */
  readonly portsAreFree: () => boolean;
}

/**
 * Throws if the process that holds the control socket `path` serves the same network namespace as this one, or if it
 * does not identify itself (it hangs, or starts slowly) and one of this proxy's ports is taken. Returns if it serves
 * another namespace, whose rules are separate, or if either process cannot read its own namespace: nodes may share a
 * file system, and a conflict still shows on the ports.
 * @throws {AnotherSluiceError}
 */
export async function refuseAnother(path: string, clock: Clock, { self, portsAreFree }: Refuser): Promise<void> {
  const other = await processAt(path, clock);
  if (other === undefined) {
    if (portsAreFree()) return;
    throw new AnotherSluiceError(path, undefined);
  }
  const { pid, networkNamespace } = other;
  if (networkNamespace !== undefined && networkNamespace === self.networkNamespace) {
    throw new AnotherSluiceError(path, pid);
  }
}

/** The process that answers on a control socket; undefined if it does not identify itself. */
async function processAt(path: string, clock: Clock): Promise<ProxyProcess | undefined> {
  const waiting = new AbortController();
  const tooLate = sleep(clock, LONGEST_ANSWER_MS, waiting.signal).then(() => undefined, () => undefined);
  try {
    return await Promise.race([identifyProcess(path).catch(() => undefined), tooLate]);
  } finally {
    waiting.abort();
  }
}
