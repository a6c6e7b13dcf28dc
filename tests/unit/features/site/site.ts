/** Nodes of a site in this process, with real sockets and a fake clock, behind a fake API server. */
import type { ClusterObject } from "../../../../core/objects/mod.ts";
import type { ClusterAccess, FeatureFile } from "../../../../features/contract.ts";
import { silentLogger } from "../../../../platform/mod.ts";
import { createDecode, KINDS } from "../../../../core/objects/mod.ts";
import { createTracking, type Tracking } from "../../../../core/tracking/mod.ts";
import type { TlsFiles } from "../../../../kpng/address/mod.ts";
import { createGrpcSource } from "../../../../sources/grpc/mod.ts";
import { connectToApi, createKubernetesSource, readObject, sendObject } from "../../../../sources/kubernetes/mod.ts";
import type { KeptState, StateFile } from "../../../../sources/kept/state_file.ts";
import { createKeptSource } from "../../../../sources/kept/kept_source.ts";
import { isProven, prove, type SiteCertificates } from "../../../../features/site/certificates.ts";
import type { SiteStatus } from "../../../../features/site/part.ts";
import { createSiteSource } from "../../../../features/site/source.ts";
import { createCertificateAuthority } from "../../../fakes/certificates.ts";
import { type FakeApiServer, startFakeApiServer } from "../../../fakes/api_server.ts";
import { rawService, rawSlice } from "../../../fakes/raw_objects.ts";
import { featureNode } from "../../../fakes/feature_node.ts";
import { createFakeClock, type FakeClock } from "../../../fakes/clock.ts";
import { passing, passingDuring } from "../../../fakes/wait.ts";
import { reservePort } from "../../../fakes/sockets.ts";

/** A node of the site. */
export interface SiteNode {
  readonly name: string;
  readonly port: number;
  readonly tracking: Tracking;
  /** The newest status. */
  status(): SiteStatus | undefined;
  /** The objects of its trackers, as `Service default/web`. */
  names(): readonly string[];
  problems(): readonly string[];
  /** Settles when its source ends. */
  readonly ended: Promise<void>;
  /** Ends it without any farewell to the API server. */
  kill(): Promise<void>;
}

/** The files of a node, which survive its restart. */
export interface Disk {
  readonly site: FeatureFile;
  readonly state: StateFile;
}

/** The choices of a test for a node. */
interface NodeOptions {
  readonly disk?: Disk;
  readonly certificates?: SiteCertificates;
  /** The port on which it serves; a free one by default. */
  readonly port?: number;
  /** Its source at the API server; by default one that works. */
  readonly watchApi?: ClusterAccess["watchApi"];
}

/** A site whose nodes are started by a test. */
export interface SiteUnderTest {
  readonly server: FakeApiServer;
  start(name: string, options?: NodeOptions): Promise<SiteNode>;
  /** The certificate files of a node. */
  files(name: string): Promise<TlsFiles>;
  /** Lets time pass until `done` is true. */
  until(done: () => boolean): Promise<void>;
}

/** A state file in memory. */
export function createDisk(): Disk {
  let bytes: Uint8Array | undefined;
  let kept: KeptState | undefined;
  return {
    site: {
      path: "site",
      read: () => Promise.resolve(bytes),
      write: (written) => Promise.resolve(void (bytes = written)),
    },
    state: {
      path: "state",
      read: () => Promise.resolve({ state: kept, ignored: [] }),
      write: (_origin, state) => Promise.resolve(void (kept = state)),
    },
  };
}

const TIMING = { leaseMs: 6_000, renewMs: 1_800, longestLeaseMs: 600_000, spreadMs: 300, patienceMs: 6_000 };

/** How much time passes in a turn of the event loop: a request that takes less than 80 turns is in time. */
const TURN_MS = 50;

/** Runs `test` with a site, whose nodes and server end with it. */
export async function withSite(test: (site: SiteUnderTest) => Promise<void>): Promise<void> {
  const clock = createFakeClock(Date.now());
  const server = startFakeApiServer();
  server.leases.install("north", ["a", "b", "c"]);
  const authority = await createCertificateAuthority("site");
  const running = new Set<() => Promise<void>>();
  const files = async (name: string): Promise<TlsFiles> => {
    const { cert, key } = await authority.issue(name);
    return { ca: authority.cert, crt: cert, key };
  };
  try {
    await test({
      server,
      files,
      async start(name, { disk = createDisk(), certificates, ...options } = {}) {
        const given = await files(name);
        const node = await startNode(name, server, {
          disk,
          certificates: certificates ?? sameFiles(given),
          ...options,
          clock,
        });
        running.add(node.kill);
        return node;
      },
      until: (done) => passing(clock, done, TURN_MS),
    });
  } finally {
    await Promise.all([...running].map((kill) => kill()));
    await server.close();
  }
}

/** Certificates from files that do not change. */
export function sameFiles(files: TlsFiles): SiteCertificates {
  return {
    prove: (claim) => prove(claim, files),
    isProven: (claim, proof) => isProven(claim, proof, files),
    published: () => Promise.resolve(""),
    server: (_memory, names) => Promise.resolve({ tls: files, clients: { names, organization: undefined } }),
    client: () => Promise.resolve(files),
  };
}

async function startNode(
  name: string,
  server: FakeApiServer,
  { certificates, disk, port = reservePort(), watchApi, clock }:
    & NodeOptions
    & Required<Pick<NodeOptions, "certificates" | "disk">>
    & { readonly clock: FakeClock },
): Promise<SiteNode> {
  const logger = silentLogger;
  const problems = new Map<string, readonly string[]>();
  const tracking = createTracking({
    kinds: KINDS,
    nodeName: name,
    bindAddress: "",
    clock,
    onChange: () => {},
    onProblems: (scope, list) => problems.set(scope, list.map(({ code }) => code)),
  });
  const api = await connectToApi({ kubeconfig: undefined, master: server.url, logger, clock });
  const none = () => false;
  const decode = createDecode({
    details: { serviceLabels: none, serviceAnnotations: none, nodeLabels: none, nodeAnnotations: none },
  });
  const cluster: ClusterAccess = {
    nodeName: name,
    api: {
      read: (resource, path, signal) => readObject(api, { resource, path }, signal),
      send: (request, signal) => sendObject(api, request, signal),
    },
    watchApi: watchApi ??
      ((onLink) => createKubernetesSource({ api, kinds: KINDS, nodeName: undefined, decode, onLink, logger, clock })),
    watchServer({ address, ...how }, onLink) {
      const addresses = [address], inFull = true, scope = "global";
      return Promise.resolve(
        createGrpcSource({ addresses, ...how, scope, nodeName: name, inFull, onLink, clock, logger }),
      );
    },
    file: disk.site,
    onLink() {},
    clock,
    logger,
  };
  const source = createSiteSource(cluster, {
    site: "north",
    leaseNamespace: "sluice-sites",
    timing: TIMING,
    listen: { kind: "tcp", host: "127.0.0.1", port },
    advertisedHost: "127.0.0.1",
    certificates,
  });
  const running = source.startRun(featureNode({ tracking, clock }));
  const kept = createKeptSource({
    source,
    file: disk.state,
    origin: { node: name, source: "kube site north", proxyName: "" },
    delayMs: 100,
    kinds: KINDS,
    objects: source.objects,
    onServing: () => {},
    clock,
    logger,
  });
  const ended = new AbortController();
  const run = kept.run(source.tee(tracking), ended.signal);
  run.catch(() => {});
  return {
    name,
    port,
    tracking,
    ended: run,
    status: () => running.status?.()?.data as SiteStatus | undefined,
    names: () => Array.from(tracking.objects(), nameOf).sort(),
    problems: () => [...problems.values()].flat(),
    async kill() {
      ended.abort(new Error("killed"));
      await passingDuring(clock, run.catch(() => {}));
      api.close();
    },
  };
}

function nameOf(object: ClusterObject): string {
  return `${object.kind} ${"namespace" in object ? `${object.namespace}/` : ""}${object.name}`;
}

/** Creates the objects of a service with one endpoint in the API. */
export function applyService(server: FakeApiServer, name: string, address: string): void {
  const spec = { clusterIP: "10.96.0.1", clusterIPs: ["10.96.0.1"], ports: [{ port: 80, protocol: "TCP" }] };
  server.apply(
    { kind: "Service", ...rawService(`default/${name}`, spec) } as never,
    { kind: "EndpointSlice", ...rawSlice(`default/${name}-1`, { ports: { "": 8080 }, endpoints: [address] }) } as never,
  );
}

/** Creates Nodes in the API. */
export function applyNodes(server: FakeApiServer, ...names: readonly string[]): void {
  const addresses = [{ type: "InternalIP", address: "127.0.0.1" }];
  server.apply(
    ...names.map((name) => ({ kind: "Node" as const, metadata: { name }, status: { addresses } })),
  );
}
