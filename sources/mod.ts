/**
 * Opens the source of objects: an API server, manifests in a folder, a state file, or another Sluice or KPNG over gRPC.
 *
 * In: the configuration. Out: objects, to a `SourceSink`. May touch: the network, files, credential plugins.
 */
import { type Clock, type ClockAndLogger, loadYaml, type RunProgram } from "../platform/mod.ts";
import { type Configuration, isServer, labelKeys, sourceText, watchedKinds } from "../config/mod.ts";
import {
  ApiError,
  type ApiErrorKind,
  type ApiRequestOutcome,
  type ApiWrite,
  createDecode,
  type DetailFilters,
  KINDS,
  type ObjectRef,
  type ReportLink,
  type Source,
} from "../core/objects/mod.ts";
import { type ClusterAccess, type FeatureFile, featuresOn, type FeatureSource } from "../features/mod.ts";
import type { KeptSourceOptions, StateFile, StateOrigin } from "./kept/mod.ts";
import type { ApiClient } from "./kubernetes/mod.ts";

interface ApiAccess {
  /** Sends a request; rejects if the API server refuses it. */
  readonly send: (request: ApiWrite, signal: AbortSignal) => Promise<unknown>;
  /** Whether only an administrator can fix the error. */
  readonly isRefusal: (error: unknown) => boolean;
}

/** An opened source and its resources. */
export interface OpenSource {
  readonly source: Source;
  /** The URL of the API server; undefined for other sources. */
  readonly server?: string;
  /** Sends Events about this node; undefined without an API server. */
  readonly events?: ApiAccess & {
    /** Reads the UID of a Service; undefined if it does not exist. */
    readonly uidOf: (service: Omit<ObjectRef, "kind">, signal: AbortSignal) => Promise<string | undefined>;
    /** Whether the error says that the object of the request does not exist. */
    readonly isGone: (error: unknown) => boolean;
  };
  /** Reads and patches this node's Node; undefined without an API server. */
  readonly ownNode?: ApiAccess & {
    readonly readNode: (signal: AbortSignal) => Promise<unknown>;
  };
  /** Lists the cluster's other Nodes as the end of a sentence; undefined if no Node is needed. */
  readonly otherNodes?: (signal: AbortSignal) => Promise<string>;
  /** The feature that has taken the place of the API server, by its name; empty if none has. */
  readonly features: ReadonlyMap<string, FeatureSource>;
  close(): void;
}

/** The errors after which sending an Event again is pointless. */
const REFUSALS: readonly ApiErrorKind[] = ["unauthorized", "forbidden", "not-found", "conflict", "rejected", "garbled"];

/** The errors of requests for a Node that only an administrator can fix. A Node may be registered after its proxy starts. */
const NODE_REFUSALS: readonly ApiErrorKind[] = REFUSALS.filter((kind) => kind !== "not-found" && kind !== "conflict");

/** The state files of this process, independent of the configuration of a run. */
export interface KeptState extends Pick<KeptSourceOptions, "file" | "isKernelEmpty" | "pods"> {
  readonly featureFiles?: ReadonlyMap<string, StateFile>;
}

/** Options of `openSource`. */
export interface SourceOptions extends ClockAndLogger {
  readonly configuration: Configuration;
  readonly runProgram?: RunProgram;
  /** Called for every request sent to an API server. */
  readonly onApiRequest?: (outcome: ApiRequestOutcome) => void;
  /** Receives the state of the link to the server, if the source is one. */
  readonly onLink?: ReportLink;
  /** Keeps the state of a server, to serve it at the next start if the server does not answer; without effect on files. */
  readonly kept?: KeptState & Pick<KeptSourceOptions, "objects" | "onServing">;
  /** Whether it is the source of a node's proxy, for which a feature may take the place of the API server. */
  readonly isOfNode?: boolean;
  /** The environment, for the in-cluster address; the process's by default. */
  readonly env?: (name: string) => string | undefined;
}

/**
 * Opens the configured source: for what this node's proxy needs, or with `details` for everything (all kinds, all nodes, and
 * these labels and annotations of Kubernetes' objects), to pass it on. Throws an Error that names the problem and its place.
 */
export async function openSource(options: SourceOptions, details?: DetailFilters): Promise<OpenSource> {
  const { configuration: { source, nodeName, serviceProxyName, stateDelayMs }, kept } = options;
  if (kept === undefined || !isServer(source)) return heardByFeature(await openConfigured(options, details));
  const failure = Promise.withResolvers<void>();
  const onLink: ReportLink = (stream, server, event) => {
    // With several servers, the next one is tried at once.
    if (event.type === "failed" && event.retryInMs > 0) failure.resolve();
    options.onLink?.(stream, server, event);
  };
  const opened = await openConfigured({ ...options, onLink }, details);
  const { createKeptSource } = await import("./kept/mod.ts");
  const [feature] = opened.features.values();
  const keptSource = createKeptSource({
    ...kept,
    source: opened.source,
    origin: {
      node: nodeName,
      source: [sourceText(source), opened.server, featureOf(options)?.origin(options.configuration)]
        .filter((part) => part !== undefined).join(" "),
      proxyName: serviceProxyName ?? "",
    },
    delayMs: stateDelayMs,
    failed: failure.promise,
    kinds: feature === undefined ? watchedKinds(options.configuration) : KINDS,
    objects: feature?.objects ?? kept.objects,
    clock: options.clock,
    logger: options.logger,
  });
  return heardByFeature({ ...opened, source: keptSource });
}

/** The source, which also reports to the feature that has taken the place of the API server, if any. */
function heardByFeature(opened: OpenSource): OpenSource {
  const [feature] = opened.features.values();
  if (feature === undefined) return opened;
  return { ...opened, source: { run: (sink, signal) => opened.source.run(feature.tee(sink), signal) } };
}

/** The feature that takes the place of the API server; undefined if none does. */
function featureOf({ configuration, isOfNode }: SourceOptions) {
  if (!isOfNode || configuration.source.kind !== "kube") return undefined;
  const [feature] = featuresOn(configuration, configuration.modeDescription).flatMap(({ name, source }) =>
    source === undefined ? [] : [{ name, ...source }]
  );
  return feature;
}

async function openConfigured(options: SourceOptions, details?: DetailFilters): Promise<OpenSource> {
  const { configuration, logger, clock, runProgram, onApiRequest, onLink, env, kept } = options;
  const { source: choice, nodeName, serviceProxyName, maxMessageBytes } = configuration;
  const inFull = details !== undefined;
  const keys = labelKeys(configuration);
  const podsOf = kept?.pods && ((node: string) => node === nodeName);
  const decode = createDecode({ serviceProxyName, details, podsOf, labelKeys: keys });
  const none = { features: new Map(), close() {} };
  switch (choice.kind) {
    case "file": {
      const { createManifestSource } = await import("./manifests/mod.ts");
      return { source: createManifestSource({ path: choice.path, decode, clock, logger }), ...none };
    }
    case "state": {
      await loadYaml();
      const { createStateSource } = await import("./state/mod.ts");
      return { source: createStateSource({ path: choice.path, inFull, clock, logger }), ...none };
    }
    case "grpc": {
      const { createGrpcSource } = await import("./grpc/mod.ts");
      const { readTlsFiles } = await import("../kpng/address/mod.ts");
      const { addresses, scope } = choice;
      const tls = readTlsFiles(choice.tls, "--api-client-tls");
      if (tls !== undefined && addresses.some(({ kind }) => kind === "unix")) {
        throw new Error("--api-client-tls-…: TLS is not supported on unix sockets");
      }
      const shared = { tls, scope, nodeName, inFull, maxMessageBytes, onLink, clock, logger };
      return { source: createGrpcSource({ addresses, ...shared }), ...none };
    }
    case "kube": {
      const kubernetes = await import("./kubernetes/mod.ts");
      const { kubeconfig, master } = configuration, onRequest = onApiRequest;
      const api = await kubernetes.connectToApi({ kubeconfig, master, runProgram, env, logger, clock, onRequest });
      const features = await openFeature(options, api);
      const [ofFeature] = features.values();
      const extent = inFull ? { kinds: KINDS, nodeName: undefined } : { kinds: watchedKinds(configuration), nodeName };
      const shared = { ...extent, labelKeys: keys, serviceProxyName, decode, onLink, logger, clock };
      const source = ofFeature ?? kubernetes.createKubernetesSource({ api, ...shared });
      const events: OpenSource["events"] = {
        send: (request, signal) => kubernetes.sendObject(api, request, signal),
        uidOf: (service, signal) => kubernetes.readServiceUid(api, service, signal),
        isRefusal: (error) => error instanceof ApiError && REFUSALS.includes(error.kind),
        isGone: (error) => error instanceof ApiError && error.kind === "not-found",
      };
      const ownNode: OpenSource["ownNode"] = {
        send: events.send,
        readNode: (signal) => kubernetes.readNode(api, nodeName, signal),
        isRefusal: (error) => error instanceof ApiError && NODE_REFUSALS.includes(error.kind),
      };
      const otherNodes = async (signal: AbortSignal) =>
        kubernetes.otherNodesText(nodeName, await kubernetes.listNodeNames(api, signal));
      return { source, features, server: api.server, events, ownNode, otherNodes, close: () => api.close() };
    }
  }
}

const NONE = () => false;
/** No label or annotation is passed on: proxies need none. */
const NO_DETAILS: DetailFilters = {
  serviceLabels: NONE,
  serviceAnnotations: NONE,
  nodeLabels: NONE,
  nodeAnnotations: NONE,
};

/** Lets a feature take the place of the API server. It gets every kind in full, since it may serve other nodes. */
async function openFeature(options: SourceOptions, api: ApiClient): Promise<ReadonlyMap<string, FeatureSource>> {
  const feature = featureOf(options);
  if (feature === undefined) return new Map();
  const { createKubernetesSource, readObject, sendObject } = await import("./kubernetes/mod.ts");
  const { configuration, onLink = () => {}, kept, clock, logger } = options;
  const { nodeName, serviceProxyName, maxMessageBytes } = configuration;
  // The other nodes keep the state that they get from this one.
  const podsOf = kept?.pods && ((node: string) => node !== "");
  const decode = createDecode({ serviceProxyName, details: NO_DETAILS, podsOf });
  const { name, origin, load } = feature;
  const { openSource } = await load();
  const file = kept?.featureFiles?.get(name);
  const shared = { nodeName: undefined, serviceProxyName, decode, logger, clock };
  const cluster: ClusterAccess = {
    nodeName,
    api: {
      read: (resource, path, signal) => readObject(api, { resource, path }, signal),
      send: (request, signal) => sendObject(api, request, signal),
    },
    watchApi: (onLink) => createKubernetesSource({ api, kinds: KINDS, onLink, ...shared }),
    async watchServer({ address, ...server }, onLink) {
      const { createGrpcSource } = await import("./grpc/mod.ts");
      const inFull = { scope: "global", inFull: true, nodeName, maxMessageBytes } as const;
      return createGrpcSource({ addresses: [address], ...server, ...inFull, onLink, clock, logger });
    },
    file: file && fileOf(file, { node: nodeName, source: origin(configuration), proxyName: "" }, clock),
    onLink,
    clock,
    logger,
  };
  return new Map([[name, openSource(cluster, configuration)]]);
}

/** A file of the state directory, as a feature uses it. */
function fileOf(file: StateFile, origin: StateOrigin, clock: Clock): FeatureFile {
  return {
    path: file.path,
    read: async () => (await file.read(origin)).state?.payload,
    write: (payload) => file.write(origin, { payload, atMs: clock.now() }),
  };
}
