import { type Clock, loadYaml, type Logger, type RunProgram } from "../platform/mod.ts";
import type { ApiRequestOutcome, EventRecorderOptions, ReportLink } from "../observe/mod.ts";
import { type Configuration, isServer, sourceText } from "../config/mod.ts";
import { createDecode, type DetailFilters, KINDS, type Source } from "../core/objects/mod.ts";
import type { KeptSourceOptions } from "./kept/mod.ts";
import type { ApiErrorKind } from "./kubernetes/mod.ts";

/** An opened source and its resources. */
export interface OpenSource {
  readonly source: Source;
  /** The URL of the API server; undefined for other sources. */
  readonly server?: string;
  /** Sends Events about this node; undefined without an API server. */
  readonly events?: Pick<EventRecorderOptions, "send" | "uidOf" | "isRefusal">;
  /** Lists the cluster's other Nodes as the end of a sentence; undefined if no Node is needed. */
  readonly otherNodes?: (signal: AbortSignal) => Promise<string>;
  close(): void;
}

/** The errors after which sending an Event again is pointless. */
const REFUSALS: readonly ApiErrorKind[] = ["unauthorized", "forbidden", "not-found", "rejected", "garbled"];

/** The kept state of this process, whatever the configuration of a run. */
export type KeptState = Pick<KeptSourceOptions, "file" | "isKernelEmpty" | "pods">;

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
  readonly kept?: KeptState & Pick<KeptSourceOptions, "objects" | "onServing">;
  /** The environment, for the in-cluster address; the process's by default. */
  readonly env?: (name: string) => string | undefined;
}

/**
 * Opens the configured source: for what this node's proxy needs, or with `details` for everything (all kinds, all nodes, and
 * these labels and annotations of Kubernetes' objects), to pass it on. Throws an Error that names the problem and its place.
 */
export async function openSource(options: SourceOptions, details?: DetailFilters): Promise<OpenSource> {
  const { configuration: { source, nodeName, serviceProxyName, stateDelayMs, modeDescription }, kept } = options;
  if (kept === undefined || !isServer(source)) return await openConfigured(options, details);
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
      source: [sourceText(source), opened.server].filter((part) => part !== undefined).join(" "),
      proxyName: serviceProxyName ?? "",
    },
    delayMs: stateDelayMs,
    failed: failure.promise,
    kinds: modeDescription.kinds,
    clock: options.clock,
    logger: options.logger,
  });
  return { ...opened, source: keptSource };
}

async function openConfigured(
  { configuration, logger, clock, runProgram, onApiRequest, onLink, env, kept }: SourceOptions,
  details?: DetailFilters,
): Promise<OpenSource> {
  const { source: choice, nodeName } = configuration;
  const { serviceProxyName, maxMessageBytes } = configuration;
  const inFull = details !== undefined;
  const decode = createDecode({ serviceProxyName, details, podsOf: kept?.pods && nodeName });
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
        readServiceUid,
        sendObject,
      } = await import("./kubernetes/mod.ts");
      const { kubeconfig, master, modeDescription } = configuration;
      const api = await connectToApi({ kubeconfig, master, runProgram, env, logger, clock, onRequest: onApiRequest });
      const source = createKubernetesSource({
        api,
        kinds: inFull ? KINDS : modeDescription.kinds,
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
      };
      const otherNodes = async (signal: AbortSignal) => otherNodesText(nodeName, await listNodeNames(api, signal));
      return { source, server: api.server, events, otherNodes, close: () => api.close() };
    }
  }
}
