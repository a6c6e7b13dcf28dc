/** Serves the state of the site to the other nodes while this node leads. */
import { type ClockAndLogger, errorText, sameData, sleep } from "../../platform/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import type { Store } from "../../kpng/store/mod.ts";
import type { Serving } from "../../kpng/server/mod.ts";
import { readWireAddress, type WireAddress, wireAddressText } from "../../kpng/address/mod.ts";
import { decodeObject } from "../../core/objects/mod.ts";
import type { ClusterAccess } from "../contract.ts";
import type { ServerTls } from "./certificates.ts";
import type { Role } from "./lease.ts";

const SCOPE = "site server";
const RETRY_MS = 5_000;
const RENEW_MS = 60_000;

interface SiteServer {
  /**
   * Serves while this node leads. When the leader loses its Lease, every connection is closed once, so that the nodes that can
   * read the Lease elect another one; the others return at once.
   */
  enter(role: Role): void;
  /** Accepts only these nodes. When they change, every connection is closed once. */
  admit(members: readonly string[]): void;
  run(signal: AbortSignal): Promise<void>;
}

/** The part of this node in its site, as its server needs it. */
interface ServerPart {
  readonly isLeader: boolean;
  readonly isConfirmed: boolean;
  /** The members whose connections are accepted. */
  readonly members: readonly string[];
  /** Counts the times that all connections must be closed. */
  readonly term: number;
}

/** Creates the server of a site's leader, which does not listen yet. */
export function createSiteServer(
  options: ClockAndLogger & {
    readonly listen: WireAddress;
    /** Reads the certificates for new connections of these members. */
    readonly readTls: (members: readonly string[]) => Promise<ServerTls>;
    readonly members: readonly string[];
    readonly store: Store;
    readonly onProblems: ReportProblems;
  },
): SiteServer {
  const { listen, readTls, store, onProblems, clock, logger } = options;
  let part: ServerPart = { isLeader: false, isConfirmed: false, members: options.members, term: 0 };
  let change = Promise.withResolvers<void>();

  const serve = async (signal: AbortSignal) => {
    const { term, members } = part;
    const { startServing } = await import("../../kpng/server/mod.ts");
    const serving = await startServing({ address: listen, ...await readTls(members), store, clock, logger });
    onProblems(SCOPE, []);
    const cancelRenewals = renewCertificates(serving, signal);
    try {
      while (part.isLeader && part.term === term && !signal.aborted) await change.promise;
    } finally {
      cancelRenewals();
      await serving.close();
    }
  };

  const renewCertificates = ({ renew }: Serving, signal: AbortSignal) => {
    let cancel = () => {};
    const schedule = () => {
      cancel = clock.schedule(RENEW_MS, async () => {
        try {
          renew((await readTls(part.members)).tls);
        } catch (error) {
          logger.warn("the site's certificates cannot be used, keeping the earlier ones", { error: errorText(error) });
        }
        if (!signal.aborted) schedule();
      });
    };
    schedule();
    return () => cancel();
  };

  const enterPart = (next: ServerPart) => {
    part = next;
    change.resolve();
    change = Promise.withResolvers<void>();
  };

  return {
    admit(members) {
      if (!sameData(members, part.members)) enterPart({ ...part, members, term: part.term + 1 });
    },
    enter(role) {
      const isLeader = role.kind === "leader", isConfirmed = isLeader && role.isConfirmed;
      const term = part.isConfirmed && !isConfirmed ? part.term + 1 : part.term;
      enterPart({ ...part, isLeader, isConfirmed, term });
    },
    async run(signal) {
      const onAbort = () => change.resolve();
      signal.addEventListener("abort", onAbort, { once: true });
      while (!signal.aborted) {
        if (!part.isLeader) {
          await change.promise;
          continue;
        }
        try {
          await serve(signal);
        } catch (error) {
          const detail = errorText(error);
          onProblems(SCOPE, [{ code: "site-not-served", subject: wireAddressText(listen), detail }]);
          await sleep(clock, RETRY_MS, signal).catch(() => {});
        }
      }
    },
  };
}

/** Parses the HOST:PORT that a leader has published. Throws an Error if it is not HOST:PORT. */
export function readServerAddress(text: string): WireAddress & { readonly kind: "tcp" } {
  const address = readWireAddress(text);
  if (address?.kind === "tcp" && address.host !== "") return address;
  throw new Error(`the address of the site's leader is ${JSON.stringify(text)}, which is not HOST:PORT`);
}

/** Returns the first address of a Node, from the API server. Throws an Error if it has none. */
export async function addressOfNode(api: ClusterAccess["api"], name: string, signal: AbortSignal): Promise<string> {
  const raw = await api.read("nodes", `/api/v1/nodes/${encodeURIComponent(name)}`, signal);
  const { object } = decodeObject("Node", raw);
  const address = object?.kind === "Node" ? object.addresses[0] : undefined;
  if (address !== undefined) return address;
  throw new Error(`Node ${name} has no address for the site's other nodes (set site.advertiseAddress)`);
}
