/** A source for the nodes of a site: one of them, the leader, watches the API server, and the others watch the leader. */
import { abortedBy, type Clock, joinHostPort, type Logger } from "../../platform/mod.ts";
import { type ClusterObject, type DetailFilters, type Source, type SourceSink } from "../../core/objects/mod.ts";
import type { ReportLink, SiteStatus } from "../../observe/mod.ts";
import { createStore } from "../../kpng/store/mod.ts";
import type { WireAddress } from "../../kpng/transport/mod.ts";
import { createGrpcSource } from "../grpc/mod.ts";
import type { StateFile } from "../kept/mod.ts";
import type { ApiClient } from "../kubernetes/mod.ts";
import type { SiteCertificates } from "./certificates.ts";
import type { OpenDatagrams } from "./datagrams.ts";
import { createElection } from "./election.ts";
import type { ElectionTiming } from "./election_state.ts";
import { createFeed } from "./feed.ts";
import { createLan } from "./lan.ts";
import { createLeaseClient, type Leader } from "./lease.ts";
import { openSiteMemory, type SiteMemory } from "./memory.ts";
import { createSiteServer } from "./server.ts";
import { addressOfNode, readServerAddress } from "./server_address.ts";
import { createStatusReport } from "./status.ts";
import { teeOf } from "./tee.ts";

/** Options of `createSiteSource`. */
export interface SiteSourceOptions {
  /** The name of the site. */
  readonly site: string;
  readonly nodeName: string;
  readonly api: ApiClient;
  /** Opens the API server as a source of every kind, for all nodes. */
  readonly openApi: (onLink: ReportLink) => Source;
  readonly leaseNamespace: string;
  readonly timing: ElectionTiming & {
    /** How long a leader may not answer, beyond the end of its Lease, before a node watches the API server; 20 s by default. */
    readonly patienceMs?: number;
  };
  /** The address on which this node serves while it leads. */
  readonly listen: WireAddress & { readonly kind: "tcp" };
  /** Opens the socket on the LAN, on the port of `listen`; undefined if the nodes do not look for each other. */
  readonly datagrams?: OpenDatagrams;
  /** The host of this node for the others; its Node's first address if undefined. */
  readonly advertisedHost: string | undefined;
  readonly certificates: SiteCertificates;
  /** Remembers the leader across restarts. */
  readonly memoryFile: StateFile | undefined;
  readonly maxMessageBytes: number;
  readonly onLink?: ReportLink;
  /** Receives every change of this node's part in the site. */
  readonly onSite?: (status: SiteStatus) => void;
  readonly clock: Clock;
  readonly logger: Logger;
  /** A number from 0 up to 1; Math.random by default. */
  readonly random?: () => number;
}

/** The source of a node in a site. */
export interface SiteSource extends Source {
  /** A sink that also fills the state which this node serves as a leader; the source must report to it. */
  tee(sink: SourceSink): SourceSink;
  /** Every object of the cluster, to keep. */
  objects(): Iterable<ClusterObject>;
}

const PATIENCE_MS = 20_000;
/** The waits of a follower that cannot connect to its leader. */
const RECONNECT = { firstMs: 250, longestMs: 5_000 };
/** When a follower probes a silent leader: there are few nodes in a site, and a dead leader must be noticed soon. */
const LIVENESS = { probeAfterMs: 5_000, answerMs: 5_000 };

/** No label or annotation is passed on: proxies need none. */
export const NO_DETAILS: DetailFilters = {
  serviceLabels: () => false,
  serviceAnnotations: () => false,
  nodeLabels: () => false,
  nodeAnnotations: () => false,
};

/** Creates the source. Nothing is sent before it runs. */
export function createSiteSource(options: SiteSourceOptions): SiteSource {
  const {
    site,
    nodeName,
    api,
    certificates,
    clock,
    logger,
    random = Math.random,
    onLink = () => {},
    onSite = () => {},
  } = options;
  const store = createStore({ clock, onProblems: () => {} });
  const lease = createLeaseClient({ api, namespace: options.leaseNamespace, site, clock });

  const selfAsLeader = async (memory: SiteMemory, signal: AbortSignal): Promise<Leader> => {
    const host = options.advertisedHost ?? store.node(nodeName)?.addresses[0] ??
      await addressOfNode(api, nodeName, signal);
    return {
      node: nodeName,
      address: joinHostPort(host, options.listen.port),
      certificate: await certificates.published(memory),
    };
  };

  const openLeader = async (leader: Leader, onLink: ReportLink): Promise<Source> =>
    createGrpcSource({
      addresses: [readServerAddress(leader.address)],
      tls: await certificates.client(leader),
      scope: "global",
      nodeName,
      inFull: true,
      maxMessageBytes: options.maxMessageBytes,
      onLink,
      backoff: RECONNECT,
      liveness: LIVENESS,
      clock,
      logger,
      random,
    });

  return {
    tee: (sink) => teeOf(store, sink),
    *objects() {
      const { services, scoped } = store.state();
      yield* scoped;
      for (const { service, slices } of services) {
        if (service !== undefined) yield service;
        yield* slices;
      }
    },
    async run(sink, signal) {
      const memory = await openSiteMemory({
        file: options.memoryFile,
        site,
        node: nodeName,
        now: () => clock.now(),
        logger,
      });
      const ending = abortedBy(signal);
      const server = createSiteServer({
        listen: options.listen,
        readTls: () => certificates.server(memory),
        store,
        onProblems: sink.problems,
        clock,
        logger,
      });
      const { leaseMs, patienceMs = PATIENCE_MS } = options.timing;
      const feed = createFeed({
        sink,
        openApi: options.openApi,
        openLeader,
        // Spread, since all nodes lose their leader at the same moment.
        patienceMs: () => leaseMs + patienceMs * (1 + random()),
        onLost: () => election.lost(),
        onFollowed: () => election.followed(),
        onFrom: () => report(),
        onLink,
        clock,
        logger,
        signal: ending.signal,
      });
      const statusReport = createStatusReport({ site, node: nodeName, onSite, clock, logger });
      const report = () => statusReport(election.role(), feed.from(), election.transitions());
      const { datagrams: open } = options;
      const election = createElection({
        node: nodeName,
        openLan: open &&
          ((part) => createLan({ ...part, site, node: nodeName, open, certificates, clock, logger, random })),
        onStandBy: feed.standBy,
        lease,
        memory,
        self: (signal) => selfAsLeader(memory, signal),
        timing: options.timing,
        onRole(role) {
          feed.enter(role);
          server.enter(role);
          report();
        },
        onProblems: sink.problems,
        clock,
        logger,
        random,
      });
      feed.enter(election.role());
      report();
      try {
        await Promise.race([
          feed.ended,
          Promise.all([election.run(ending.signal), server.run(ending.signal)]),
        ]);
      } finally {
        ending.abort();
        await memory.written();
      }
    },
  };
}
