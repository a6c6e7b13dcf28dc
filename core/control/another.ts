import { type Clock, sleep } from "../../platform/clock.ts";
import { askProcess } from "./client.ts";
import { type ProxyProcess, thisProcess } from "./process.ts";

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

/**
 * Throws where the process that answers on the control socket `path` serves the same network as this one, or does not
 * say which one it serves. Returns where it serves another network namespace: its rules are not ours.
 * @throws {AnotherSluiceError}
 */
export async function refuseAnother(path: string, clock: Clock, self: ProxyProcess = thisProcess()): Promise<void> {
  const other = await processAt(path, clock);
  const own = self.networkNamespace;
  const isElsewhere = own !== undefined && other?.networkNamespace !== undefined && other.networkNamespace !== own;
  if (!isElsewhere) throw new AnotherSluiceError(path, other?.pid);
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
