/**
 * Opens the source of objects: an API server, manifests in a folder, a state file, or another Sluice or KPNG over gRPC.
 *
 * In: the configuration. Out: objects, to a `SourceSink`. May touch: the network, files, credential plugins.
 */
import { type Clock, loadYaml, type Logger, type RunProgram } from "../platform/mod.ts";
import type { ApiRequestOutcome, ReportLink, SiteStatus } from "./reports/mod.ts";
import {
  type Configuration,
  isServer,
  labelKeys,
  LONGEST_LEASE_MS,
  readSiteAddress,
  sourceText,
  watchedKinds,
} from "../config/mod.ts";
import { type ApiWrite, createDecode, type DetailFilters, KINDS, type Source } from "../core/objects/mod.ts";
import type { KeptSourceOptions, StateFile } from "./kept/mod.ts";
import type { ApiClient, ApiErrorKind } from "./kubernetes/mod.ts";
import type { SiteSource } from "./site/mod.ts";

/** Writing to the API server. */
interface ApiAccess {
  /** Sends a request; rejects if the API server refuses it. */
  readonly send: (request: ApiWrite, signal: AbortSignal) => Promise<unknown>;
  /** Whether only an administrator can fix the error. */
  readonly isRefusal: (error: unknown) => boolean;
}

/** The name of a Service. */
interface ServiceRef {
  readonly namespace: string;
  readonly name: string;
}

/** An opened source and its resources. */
export interface OpenSource {
  readonly source: Source;
  /** The URL of the API server; undefined for other sources. */
  readonly server?: string;
  /** Sends Events about this node; undefined without an API server. */
  readonly events?: ApiAccess & {
    /** Reads the UID of a Service; undefined if it does not exist. */
    readonly uidOf: (service: ServiceRef, signal: AbortSignal) => Promise<string | undefined>;
    /** Whether the error says that the object of the request does not exist. */
    readonly isGone: (error: unknown) => boolean;
  };
  /** Reads and patches this node's Node; undefined without an API server. */
  readonly ownNode?: ApiAccess & {
    readonly readNode: (signal: AbortSignal) => Promise<unknown>;
  };
  /** Lists the cluster's other Nodes as the end of a sentence; undefined if no Node is needed. */
  readonly otherNodes?: (signal: AbortSignal) => Promise<string>;
  close(): void;
}

/** The errors after which sending an Event again is pointless. */
const REFUSALS: readonly ApiErrorKind[] = ["unauthorized", "forbidden", "not-found", "conflict", "rejected", "garbled"];

/** The errors of requests for a Node that only an administrator can fix. A Node may be registered after its proxy starts. */
const NODE_REFUSALS: readonly ApiErrorKind[] = REFUSALS.filter((kind) => kind !== "not-found" && kind !== "conflict");

/** The state files of this process, independent of the configuration of a run. */
export interface KeptState extends Pick<KeptSourceOptions, "file" | "isKernelEmpty" | "pods"> {
  /** The file with the last leader of the site; undefined without a site. */
  readonly siteFile?: StateFile;
}

/** Options of `openSource`. */
export interface SourceOptions {
  readonly configuration: Configuration;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Runs the credential plugin of a kubeconfig. */
  readonly runProgram?: RunProgram;
  /** Called for every request sent to an API server. */
  readonly onApiRequest?: (outcome: ApiRequestOutcome) => void;
  /** Receives the state of the link to the server, if the source is one. */
  readonly onLink?: ReportLink;
  /** Keeps the state of a server, to serve it at the next start if the server does not answer; without effect on files. */
  readonly kept?: KeptState & Pick<KeptSourceOptions, "objects" | "onServing" | "receiverIfNotServed">;
  /** Takes part in the configured site, if any. */
  readonly site?: SitePart;
  /** The environment, for the in-cluster address; the process's by default. */
  readonly env?: (name: string) => string | undefined;
}

/** The dependencies of taking part in a site. */
interface SitePart {
  /** Stores the leader across restarts; undefined without a state directory. */
  readonly memoryFile: StateFile | undefined;
  /** Receives every change of this node's role in the site. */
  readonly onSite: (status: SiteStatus) => void;
}

/** An opened source that may take part in a site. */
interface Opened extends OpenSource {
  readonly site?: SiteSource;
}

/**
 * Opens the configured source: for what this node's proxy needs, or with `details` for everything (all kinds, all nodes, and
 * these labels and annotations of Kubernetes' objects), to pass it on. Throws an Error that names the problem and its place.
 */
export async function openSource(options: SourceOptions, details?: DetailFilters): Promise<OpenSource> {
  const { configuration: { source, nodeName, serviceProxyName, stateDelayMs, site }, kept } = options;
  if (kept === undefined || !isServer(source)) return forSite(await openConfigured(options, details));
  const failure = Promise.withResolvers<void>();
  const onLink: ReportLink = (stream, server, event) => {
    // With several servers, the next one is tried at once.
    if (event.type === "failed" && event.retryInMs > 0) failure.resolve();
    options.onLink?.(stream, server, event);
  };
  const opened = await openConfigured({ ...options, onLink }, details);
  const { createKeptSource } = await import("./kept/mod.ts");
  const keptSource = createKeptSource({
    ...kept,
    source: opened.source,
    origin: {
      node: nodeName,
      source: [sourceText(source), opened.server, opened.site && `site ${site.name}`]
        .filter((part) => part !== undefined).join(" "),
      proxyName: serviceProxyName ?? "",
    },
    delayMs: stateDelayMs,
    failed: failure.promise,
    // Every node of a site keeps the whole state, to serve it if it leads.
    kinds: opened.site === undefined ? watchedKinds(options.configuration) : KINDS,
    objects: opened.site?.objects ?? kept.objects,
    clock: options.clock,
    logger: options.logger,
  });
  return forSite({ ...opened, source: keptSource });
}

/** The source, which also fills the state that this node serves if it leads its site. */
function forSite({ site, ...opened }: Opened): OpenSource {
  if (site === undefined) return opened;
  const { source } = opened;
  return { ...opened, source: { run: (sink, signal) => source.run(site.tee(sink), signal) } };
}

async function openConfigured(
  options: SourceOptions,
  details?: DetailFilters,
): Promise<Opened> {
  const { configuration, logger, clock, runProgram, onApiRequest, onLink, env, kept } = options;
  const { source: choice, nodeName } = configuration;
  const { serviceProxyName, maxMessageBytes } = configuration;
  const inFull = details !== undefined;
  const keys = labelKeys(configuration);
  const podsOf = kept?.pods && ((node: string) => node === nodeName);
  const decode = createDecode({ serviceProxyName, details, podsOf, labelKeys: keys });
  const close = () => {};
  switch (choice.kind) {
    case "file": {
      await loadYaml();
      const { createManifestSource } = await import("./manifests/mod.ts");
      return { source: createManifestSource({ path: choice.path, decode, clock, logger }), close };
    }
    case "state": {
      await loadYaml();
      const { createStateSource } = await import("./state/mod.ts");
      return { source: createStateSource({ path: choice.path, inFull, clock, logger }), close };
    }
    case "grpc": {
      const { createGrpcSource } = await import("./grpc/mod.ts");
      const { readTlsFiles } = await import("../kpng/transport/mod.ts");
      const { addresses, scope } = choice;
      const tls = readTlsFiles(choice.tls, "--api-client-tls");
      if (tls !== undefined && addresses.some(({ kind }) => kind === "unix")) {
        throw new Error("--api-client-tls-…: TLS is not supported on unix sockets");
      }
      const shared = { tls, scope, nodeName, inFull, maxMessageBytes, onLink, clock, logger };
      return { source: createGrpcSource({ addresses, ...shared }), close };
    }
    case "kube": {
      const {
        ApiError,
        connectToApi,
        createKubernetesSource,
        listNodeNames,
        otherNodesText,
        readNode,
        readServiceUid,
        sendObject,
      } = await import("./kubernetes/mod.ts");
      const { kubeconfig, master } = configuration;
      const api = await connectToApi({ kubeconfig, master, runProgram, env, logger, clock, onRequest: onApiRequest });
      const site = options.site && configuration.site.name !== ""
        ? await openSite(options, options.site, api)
        : undefined;
      const source = site ?? createKubernetesSource({
        api,
        kinds: inFull ? KINDS : watchedKinds(configuration),
        labelKeys: keys,
        nodeName: inFull ? undefined : nodeName,
        serviceProxyName,
        decode,
        onLink,
        logger,
        clock,
      });
      const events: OpenSource["events"] = {
        send: (request, signal) => sendObject(api, request, signal),
        uidOf: (service, signal) => readServiceUid(api, service, signal),
        isRefusal: (error) => error instanceof ApiError && REFUSALS.includes(error.kind),
        isGone: (error) => error instanceof ApiError && error.kind === "not-found",
      };
      const ownNode: OpenSource["ownNode"] = {
        send: events.send,
        readNode: (signal) => readNode(api, nodeName, signal),
        isRefusal: (error) => error instanceof ApiError && NODE_REFUSALS.includes(error.kind),
      };
      const otherNodes = async (signal: AbortSignal) => otherNodesText(nodeName, await listNodeNames(api, signal));
      return { source, site, server: api.server, events, ownNode, otherNodes, close: () => api.close() };
    }
  }
}

/** Opens the source of a node in a site; each node reads every kind in full, to serve it if it leads. */
async function openSite(
  { configuration, onLink, kept, clock, logger }: SourceOptions,
  { memoryFile, onSite }: SitePart,
  api: ApiClient,
): Promise<SiteSource> {
  const { createKubernetesSource } = await import("./kubernetes/mod.ts");
  const {
    CLUSTER_CA,
    createSiteSource,
    givenCertificates,
    KUBELET_CERTIFICATE,
    kubeletCertificates,
    NO_DETAILS,
  } = await import("./site/mod.ts");
  const { nodeName, serviceProxyName, maxMessageBytes, site } = configuration;
  const { leaseDurationMs: leaseMs, renewPeriodMs: renewMs, leaseNamespace } = site;
  // The other nodes of the site keep the state that they get from this one.
  const podsOf = kept?.pods && ((node: string) => node !== "");
  const decode = createDecode({ serviceProxyName, details: NO_DETAILS, podsOf });
  const kinds = KINDS;
  const { tlsCAFile, tlsCertFile, tlsPrivateKeyFile } = site;
  const certificates = tlsPrivateKeyFile === ""
    ? kubeletCertificates({ ca: tlsCAFile || CLUSTER_CA, crt: tlsCertFile || KUBELET_CERTIFICATE })
    : givenCertificates({ ca: tlsCAFile, crt: tlsCertFile, key: tlsPrivateKeyFile });
  const listen = readSiteAddress(site.listenAddress)!;
  return createSiteSource({
    site: site.name,
    nodeName,
    api,
    openApi: (onLink) =>
      createKubernetesSource({ api, kinds, nodeName: undefined, serviceProxyName, decode, onLink, logger, clock }),
    leaseNamespace,
    timing: { leaseMs, renewMs, longestLeaseMs: LONGEST_LEASE_MS },
    listen,
    advertisedHost: site.advertiseAddress || undefined,
    certificates,
    memoryFile,
    maxMessageBytes,
    onLink,
    onSite,
    clock,
    logger,
  });
}
