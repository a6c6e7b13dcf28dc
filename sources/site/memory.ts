import { isRawObject, rawObject } from "../../core/objects/mod.ts";
import { errorText, type Logger, sameData } from "../../platform/mod.ts";
import type { StateFile } from "../kept/mod.ts";
import type { Leader } from "./lease.ts";
import type { CertificatePair } from "./x509.ts";

/** Remembers the last leader of the site across restarts, to find it without the API server, and this node's own certificate. */
export interface SiteMemory {
  /** The last leader; undefined if none is remembered. */
  leader(): Leader | undefined;
  /** Remembers a leader, on disk if there is a file. */
  remember(leader: Leader): void;
  /** Returns the certificate of this node's server; that of `make` if none is remembered. */
  server(make: () => Promise<CertificatePair>): Promise<CertificatePair>;
  /** Resolves when everything remembered is on disk. */
  written(): Promise<void>;
}

/** Options of `openSiteMemory`. */
export interface SiteMemoryOptions {
  /** The file in the state directory; without it, things are only remembered while the process runs. */
  readonly file: StateFile | undefined;
  readonly site: string;
  readonly node: string;
  /** Wall time in milliseconds since 1970. */
  readonly now: () => number;
  readonly logger: Logger;
}

/** What is remembered. */
interface Remembered {
  readonly leader?: Leader;
  readonly server?: CertificatePair;
}

/** Reads the memory from its file. A file that cannot be read counts as empty, with a warning. */
export async function openSiteMemory({ file, site, node, now, logger }: SiteMemoryOptions): Promise<SiteMemory> {
  const origin = { node, source: `site ${site}`, proxyName: "" };
  let remembered: Remembered = file === undefined ? {} : await read(file, origin, logger);
  let writing: Promise<void> = Promise.resolve();
  let making: Promise<CertificatePair> | undefined;

  const change = (next: Remembered) => {
    remembered = next;
    if (file === undefined) return;
    const payload = new TextEncoder().encode(JSON.stringify(next));
    writing = file.write(origin, { payload, atMs: now() }).catch((error) => {
      logger.warn("the leader of the site cannot be remembered", { file: file.path, error: errorText(error) });
    });
  };

  return {
    leader: () => remembered.leader,
    remember({ node, address, certificate }) {
      const leader = { node, address, certificate };
      if (!sameData(remembered.leader, leader)) change({ ...remembered, leader });
    },
    async server(make) {
      if (remembered.server !== undefined) return remembered.server;
      making ??= make();
      const server = await making;
      if (remembered.server === undefined) change({ ...remembered, server });
      return server;
    },
    written: () => writing,
  };
}

async function read(file: StateFile, origin: Parameters<StateFile["read"]>[0], logger: Logger): Promise<Remembered> {
  try {
    const { state } = await file.read(origin);
    if (state === undefined) return {};
    const raw = rawObject(JSON.parse(new TextDecoder().decode(state.payload)));
    return { leader: fieldsOf(raw.leader, LEADER), server: fieldsOf(raw.server, SERVER) };
  } catch (error) {
    logger.warn("the last leader of the site cannot be read", { file: file.path, error: errorText(error) });
    return {};
  }
}

const LEADER = ["node", "address", "certificate"] as const;
const SERVER = ["cert", "key"] as const;

/** An object with exactly these fields, which must be strings; undefined otherwise. */
function fieldsOf<K extends string>(raw: unknown, names: readonly K[]): Record<K, string> | undefined {
  if (!isRawObject(raw)) return undefined;
  const entries = names.map((name) => [name, raw[name]] as const);
  if (entries.some(([, value]) => typeof value !== "string")) return undefined;
  return Object.fromEntries(entries) as Record<K, string>;
}
