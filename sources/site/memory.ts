import { isRawObject } from "../../core/objects/mod.ts";
import { errorText, type Logger, sameData } from "../../platform/mod.ts";
import type { StateFile } from "../kept/mod.ts";
import type { Leader } from "./lease.ts";

/** Remembers the last leader of the site across restarts, to find it without the API server. */
export interface SiteMemory {
  /** The last leader; undefined if none is remembered. */
  leader(): Leader | undefined;
  /** Remembers a leader, on disk if there is a file. */
  remember(leader: Leader): void;
  /** Resolves when everything remembered is on disk. */
  written(): Promise<void>;
}

/** Options of `openSiteMemory`. */
export interface SiteMemoryOptions {
  /** The file in the state directory; without it, the leader is only remembered while the process runs. */
  readonly file: StateFile | undefined;
  readonly site: string;
  readonly node: string;
  /** Wall time in milliseconds since 1970. */
  readonly now: () => number;
  readonly logger: Logger;
}

/** Reads the memory from its file. A file that cannot be read counts as empty, with a warning. */
export async function openSiteMemory({ file, site, node, now, logger }: SiteMemoryOptions): Promise<SiteMemory> {
  const origin = { node, source: `site ${site}`, proxyName: "" };
  let leader = file && await readLeader(file, origin, logger);
  let writing: Promise<void> = Promise.resolve();
  return {
    leader: () => leader,
    remember(next) {
      const { node, address, certificate } = next;
      const kept: Leader = { node, address, certificate };
      if (sameData(leader, kept)) return;
      leader = kept;
      if (file === undefined) return;
      const payload = new TextEncoder().encode(JSON.stringify(kept));
      writing = file.write(origin, { payload, atMs: now() }).catch((error) => {
        logger.warn("the leader of the site cannot be remembered", { file: file.path, error: errorText(error) });
      });
    },
    written: () => writing,
  };
}

async function readLeader(
  file: StateFile,
  origin: Parameters<StateFile["read"]>[0],
  logger: Logger,
): Promise<Leader | undefined> {
  try {
    const { state } = await file.read(origin);
    if (state === undefined) return undefined;
    const raw: unknown = JSON.parse(new TextDecoder().decode(state.payload));
    if (!isRawObject(raw)) return undefined;
    const { node, address, certificate } = raw;
    if (typeof node !== "string" || typeof address !== "string" || typeof certificate !== "string") return undefined;
    return { node, address, certificate };
  } catch (error) {
    logger.warn("the last leader of the site cannot be read", { file: file.path, error: errorText(error) });
    return undefined;
  }
}
