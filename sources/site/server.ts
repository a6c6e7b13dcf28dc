/** Serves the state of the site to the other nodes while this node leads. */
import { type Clock, errorText, type Logger, sleep } from "../../platform/mod.ts";
import type { ReportProblems } from "../../core/problems/mod.ts";
import type { Store } from "../../kpng/store/mod.ts";
import type { Serving } from "../../kpng/server/mod.ts";
import { type WireAddress, wireAddressText } from "../../kpng/transport/mod.ts";
import type { Role } from "./role.ts";
import type { ServerTls } from "./certificates.ts";

/** Options of `runSiteServer`. */
export interface SiteServerOptions {
  readonly listen: WireAddress;
  /** Reads the certificates for new connections. */
  readonly readTls: () => Promise<ServerTls>;
  readonly store: Store;
  readonly onProblems: ReportProblems;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** The server of a site's leader. */
export interface SiteServer {
  /**
   * Serves while this node leads. When the leader loses its Lease, every connection is closed once, so that the nodes that can
   * read the Lease elect another one; the others return at once.
   */
  enter(role: Role): void;
  /** The number of nodes that watch. */
  watchers(): number;
  /** Runs until the signal aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** The scope of its problems. */
const SCOPE = "site server";
/** The wait before another attempt to listen. */
const RETRY_MS = 5_000;
/** How often the files of the certificates are read again. */
const RENEW_MS = 60_000;

/** Creates a server that does not listen yet. */
export function createSiteServer(options: SiteServerOptions): SiteServer {
  const { listen, readTls, store, onProblems, clock, logger } = options;
  let isLeader = false;
  let isConfirmed = false;
  // Counts the times that all connections must be closed.
  let term = 0;
  let serving: Serving | undefined;
  let change = Promise.withResolvers<void>();

  const serve = async (signal: AbortSignal) => {
    const ofTerm = term;
    const { startServing } = await import("../../kpng/server/mod.ts");
    serving = await startServing({ address: listen, ...await readTls(), store, clock, logger });
    onProblems(SCOPE, []);
    const cancelRenewals = renewCertificates(serving, signal);
    try {
      while (isLeader && term === ofTerm && !signal.aborted) await change.promise;
    } finally {
      cancelRenewals();
      await serving.close();
      serving = undefined;
    }
  };

  const renewCertificates = ({ renew }: Serving, signal: AbortSignal) => {
    let cancel = () => {};
    const schedule = () => {
      cancel = clock.schedule(RENEW_MS, async () => {
        try {
          renew((await readTls()).tls);
        } catch (error) {
          logger.warn("the site's certificates cannot be used, keeping the earlier ones", { error: errorText(error) });
        }
        if (!signal.aborted) schedule();
      });
    };
    schedule();
    return () => cancel();
  };

  return {
    enter(role) {
      const confirmed = role.kind === "leader" && role.isConfirmed;
      if (isConfirmed && !confirmed) term++;
      isLeader = role.kind === "leader";
      isConfirmed = confirmed;
      change.resolve();
      change = Promise.withResolvers<void>();
    },
    watchers: () => serving?.watchers() ?? 0,
    async run(signal) {
      const onAbort = () => change.resolve();
      signal.addEventListener("abort", onAbort, { once: true });
      while (!signal.aborted) {
        if (!isLeader) {
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
