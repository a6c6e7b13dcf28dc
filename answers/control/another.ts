import { type Clock, sleep } from "../../platform/mod.ts";
import { askProcess } from "./client.ts";
import type { ProxyProcess } from "./process.ts";

/** Another Sluice serves this node. */
export class AnotherSluiceError extends Error {
  override readonly name = "AnotherSluiceError";

  /** `where` it was found: the path of its control socket, or the address of its metrics or health server. */
  constructor(where: string, pid: number | undefined) {
    const who = pid === undefined ? "" : ` (pid ${pid})`;
    super(`another sluice is running${who}: it answers on ${where}; stop it before you start this one`);
  }
}

/** How long the other process has to say who it is. */
const LONGEST_ANSWER_MS = 2000;

/** What is known of this process where a control socket is in use. */
export interface Refuser {
  readonly self: ProxyProcess;
  /** Whether nothing listens on the ports that this proxy is to serve. */
  readonly portsAreFree: () => boolean;
}

/**
 * Throws where the process that holds the control socket `path` serves the same network namespace as this one, or does not
 * say who it is (it hangs, or is busy starting on a slow machine) and a port of ours is taken. Returns where it serves
 * another namespace, since its rules are not ours, and where either process cannot read its own: nodes may share a file
 * system, and the ports tell then.
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

/** The process that answers on a control socket; undefined where it does not say. */
async function processAt(path: string, clock: Clock): Promise<ProxyProcess | undefined> {
  const waiting = new AbortController();
  const tooLate = sleep(clock, LONGEST_ANSWER_MS, waiting.signal).then(() => undefined, () => undefined);
  try {
    return await Promise.race([askProcess(path).catch(() => undefined), tooLate]);
  } finally {
    waiting.abort();
  }
}
