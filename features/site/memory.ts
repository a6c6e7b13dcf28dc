import { rawObject } from "../../core/objects/mod.ts";
import { errorText, type Logger, sameData } from "../../platform/mod.ts";
import * as shape from "../../platform/shapes/mod.ts";
import type { FeatureFile } from "../contract.ts";
import type { Leader } from "./lease.ts";
import type { CertificateMemory, CertificatePair } from "./certificates.ts";

/** Stores the last leader, the members and this node's certificate, for a start without the API server. */
export interface SiteMemory extends CertificateMemory {
  /** The last leader; undefined if none is stored. */
  leader(): Leader | undefined;
  /** Stores a leader, on disk if there is a file. */
  remember(leader: Leader): void;
  /** The last known members of the site; empty if none are stored. */
  members(): readonly string[];
  rememberMembers(members: readonly string[]): void;
  /** Resolves when everything is on disk. */
  written(): Promise<void>;
}

interface Remembered {
  readonly leader?: Leader;
  readonly members?: readonly string[];
  readonly server?: CertificatePair;
}

/** Reads the memory from its file; without one, nothing survives a restart. A file that cannot be read counts as empty, with a warning. */
export async function openSiteMemory(file: FeatureFile | undefined, logger: Logger): Promise<SiteMemory> {
  let remembered: Remembered = file === undefined ? {} : await read(file, logger);
  let writing: Promise<void> = Promise.resolve();
  let making: Promise<CertificatePair> | undefined;

  const change = (next: Remembered) => {
    remembered = next;
    if (file === undefined) return;
    writing = file.write(new TextEncoder().encode(JSON.stringify(next))).catch((error) => {
      logger.warn("the leader of the site cannot be remembered", { file: file.path, error: errorText(error) });
    });
  };

  return {
    leader: () => remembered.leader,
    remember({ node, address, certificate, proof }) {
      const leader = { node, address, certificate, proof };
      if (!sameData(remembered.leader, leader)) change({ ...remembered, leader });
    },
    members: () => remembered.members ?? [],
    rememberMembers(members) {
      if (!sameData(remembered.members, members)) change({ ...remembered, members });
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

const leader = shape.ifValid<Leader>(
  shape.record({ node: shape.TEXT, address: shape.TEXT, certificate: shape.TEXT, proof: shape.TEXT }),
);
const members = shape.ifValid(shape.list(shape.TEXT));
const server = shape.ifValid<CertificatePair>(shape.record({ cert: shape.TEXT, key: shape.TEXT }));

async function read(file: FeatureFile, logger: Logger): Promise<Remembered> {
  try {
    const bytes = await file.read();
    if (bytes === undefined) return {};
    const raw = rawObject(JSON.parse(new TextDecoder().decode(bytes)));
    return { leader: leader(raw.leader), members: members(raw.members), server: server(raw.server) };
  } catch (error) {
    logger.warn("the last leader of the site cannot be read", { file: file.path, error: errorText(error) });
    return {};
  }
}
