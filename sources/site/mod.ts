/**
 * The source for the nodes of a site behind one uplink: one node, elected through a Lease, watches the API server, and serves
 * the others with the protocol of `sluice serve`.
 *
 *   lease.ts         the Lease and the members of a site at the API server
 *   elector.ts       decides who leads, from the observed versions of the Lease
 *   election.ts      carries out the decisions, and follows a leader or succeeds it
 *   feed.ts          watches the leader or the API server, depending on the role
 *   serve.ts         serves the other nodes while this one leads
 *   memory.ts        stores the last leader on disk
 *   certificates.ts  the certificates of the nodes, how a leader makes its own, and the signatures of leaders
 *
 * In: a Lease, and objects of the API server or of the leader. Out: objects, to a `SourceSink`, and to the other nodes. May
 * touch: the network, listening sockets, PEM files, and a file that is opened before the write permission is dropped.
 */
import { abortedBy, type Clock, joinHostPort, type Logger, sameData } from "../../platform/mod.ts";
import type { ClusterObject, DetailFilters, Source, SourceSink } from "../../core/objects/mod.ts";
import type { ReportLink, SiteStatus } from "../reports/mod.ts";
import { createStore } from "../../kpng/store/mod.ts";
import type { WireAddress } from "../../kpng/transport/mod.ts";
import { createGrpcSource, type GrpcSourceOptions } from "../grpc/mod.ts";
import type { StateFile } from "../kept/mod.ts";
import type { ApiClient } from "../kubernetes/mod.ts";
import type { SiteCertificates } from "./certificates.ts";
import { createElection, type ElectionTiming } from "./election.ts";
import { createFeed } from "./feed.ts";
import { createLeaseClient, type Leader, type Role } from "./lease.ts";
import { openSiteMemory, type SiteMemory } from "./memory.ts";
import { addressOfNode, createSiteServer, readServerAddress } from "./serve.ts";
export {
  CLUSTER_CA,
  givenCertificates,
  KUBELET_CERTIFICATE,
  kubeletCertificates,
  type SiteCertificates,
} from "./certificates.ts";
export { readMembers, readSiteMembers } from "./lease.ts";

/** Options of `createSiteSource`. */
interface SiteSourceOptions extends Pick<GrpcSourceOptions, "nodeName" | "onLink" | "clock" | "logger" | "random"> {
  /** The name of the site. */
  readonly site: string;
  readonly api: ApiClient;
  /** Opens the API server as a source of every kind, for all nodes. */
  readonly openApi: (onLink: ReportLink) => Source;
  readonly leaseNamespace: string;
  readonly timing: ElectionTiming & {
    /** The longest Lease that a configuration permits. */
    readonly longestLeaseMs: number;
    /** How long a leader may not answer, beyond the end of its Lease, before a node watches the API server; 20 s by default. */
    readonly patienceMs?: number;
  };
  /** The address on which this node serves while it leads. */
  readonly listen: WireAddress & { readonly kind: "tcp" };
  /** The host of this node for the others; its Node's first address if undefined. */
  readonly advertisedHost: string | undefined;
  readonly certificates: SiteCertificates;
  /** Stores the leader across restarts. */
  readonly memoryFile: StateFile | undefined;
  readonly maxMessageBytes: number;
  /** Receives every change of this node's role in the site. */
  readonly onSite?: (status: SiteStatus) => void;
}

/** The source of a node in a site. */
export interface SiteSource extends Source {
  /** A sink that also fills the state which this node serves as a leader; the source must report to it. */
  tee(sink: SourceSink): SourceSink;
  /** Every object of the cluster, to keep. */
  objects(): Iterable<ClusterObject>;
}

const PATIENCE_MS = 20_000;
/** The delays of a follower that cannot connect to its leader. */
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
  const lease = createLeaseClient({
    api,
    namespace: options.leaseNamespace,
    site,
    leaseMs: options.timing.leaseMs,
    longestMs: options.timing.longestLeaseMs,
    clock,
  });

  const selfAsLeader = async (memory: SiteMemory, signal: AbortSignal): Promise<Leader> => {
    const host = options.advertisedHost ?? store.node(nodeName)?.addresses[0] ??
      await addressOfNode(api, nodeName, signal);
    const claim = {
      node: nodeName,
      address: joinHostPort(host, options.listen.port),
      certificate: await certificates.published(memory),
    };
    return { ...claim, proof: await certificates.prove({ site, ...claim }) };
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
        readTls: (members) => certificates.server(memory, members),
        members: memory.members(),
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
      const election = createElection({
        node: nodeName,
        onStandBy: feed.standBy,
        lease,
        memory,
        self: (signal) => selfAsLeader(memory, signal),
        isProven: ({ node, address, certificate, proof }) =>
          certificates.isProven({ site, node, address, certificate }, proof),
        timing: options.timing,
        onRole(role) {
          feed.enter(role);
          server.enter(role);
          report();
        },
        onMembers(members) {
          memory.rememberMembers(members);
          server.admit(members);
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

/** A sink that passes everything to both; problems go to the second one only. */
function teeOf(first: SourceSink, second: SourceSink): SourceSink {
  return {
    set(object) {
      first.set(object);
      second.set(object);
    },
    delete(ref) {
      first.delete(ref);
      second.delete(ref);
    },
    reset(kind) {
      first.reset(kind);
      second.reset(kind);
    },
    synced(kind) {
      first.synced(kind);
      second.synced(kind);
    },
    problems: second.problems,
  };
}

/** Options of `createStatusReport`. */
interface StatusReportOptions {
  readonly site: string;
  readonly node: string;
  readonly onSite: (status: SiteStatus) => void;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Reports and logs changes of a node's role in its site. */
type StatusReport = (role: Role, from: SiteStatus["from"], transitions: number) => void;

/** A report without history. */
function createStatusReport({ site, node, onSite, clock, logger }: StatusReportOptions): StatusReport {
  let last: SiteStatus | undefined;
  let sinceMs = clock.now();
  return (role, from, transitions) => {
    const isFollower = role.kind === "follower";
    const leader = role.kind === "leader" ? node : isFollower ? role.leader.node : undefined;
    const isConfirmed = (role.kind === "leader" || isFollower) && role.isConfirmed;
    const isNew = last?.role !== role.kind || last.leader !== leader;
    if (isNew) sinceMs = clock.now();
    const address = isFollower ? role.leader.address : undefined;
    const status = { name: site, role: role.kind, isConfirmed, leader, address, from, transitions, sinceMs };
    if (sameData(status, last)) return;
    if (isNew || last?.isConfirmed !== isConfirmed) logRole(role, site, logger);
    last = status;
    onSite(status);
  };
}

function logRole(role: Role, site: string, logger: Logger): void {
  if (role.kind === "alone") logger.warn("no Lease for the site, watching the API server", { site });
  if (role.kind === "leader" && role.isConfirmed) logger.info("leading the site", { site });
  if (role.kind === "leader" && !role.isConfirmed) {
    logger.warn("leading the site without its Lease: the API server cannot be reached", { site });
  }
  if (role.kind !== "follower") return;
  const { node, address } = role.leader;
  if (role.isConfirmed) logger.info("following the leader of the site", { site, leader: node, address });
  else logger.warn("following the last leader of the site: its Lease cannot be read", { site, leader: node, address });
}
