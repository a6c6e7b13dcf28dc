import { type Clock, loadYaml, type Logger, type RunProgram } from "../platform/mod.ts";
import type { ApiRequestOutcome, EventRecorderOptions } from "../observe/mod.ts";
import type { Configuration } from "../config/mod.ts";
import { decodeObject, decodeObjectInFull, KINDS, kindsOf, type Source } from "../core/objects/mod.ts";
import type { ApiErrorKind } from "./kubernetes/mod.ts";

/** A source, and how to let go of what it holds once it has ended. */
export interface OpenSource {
  readonly source: Source;
  /** Where Events about this node go; undefined where there is no API to take them. */
  readonly events?: Pick<EventRecorderOptions, "send" | "isRefusal">;
  /** The end of a sentence: which Nodes the cluster has instead of this one. Undefined where no Node is needed. */
  readonly otherNodes?: (signal: AbortSignal) => Promise<string>;
  close(): void;
}

/**
 * What is wanted of a source: what the proxy of this node needs, or everything, for those who hand it on: all kinds of
 * objects, all nodes, and what load balancing does not need.
 */
export type Extent = "node" | "everything";

/** What repeating a request does not change, other than it does for the source's own. */
const REFUSALS: readonly ApiErrorKind[] = ["unauthorized", "forbidden", "not-found", "rejected", "garbled"];

/** What opening a source takes. */
export interface SourceOptions {
  readonly configuration: Configuration;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Runs the credential plugin that a kubeconfig names. */
  readonly runProgram?: RunProgram;
  /** Told of every request that is sent to an API server. */
  readonly onApiRequest?: (outcome: ApiRequestOutcome) => void;
  /** The environment, for the in-cluster address; the process's by default. */
  readonly env?: (name: string) => string | undefined;
}

/** Opens the source that the configuration names. Throws an Error that says what is missing or wrong, and where. */
export async function openSource(
  { configuration, logger, clock, runProgram, onApiRequest, env }: SourceOptions,
  extent: Extent = "node",
): Promise<OpenSource> {
  const { source: choice, nodeName } = configuration;
  const inFull = extent === "everything";
  const decode = inFull ? decodeObjectInFull : decodeObject;
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
      const { address, scope } = choice;
      const tls = readTlsFiles(choice.tls, "--api-client-tls");
      if (tls !== undefined && address.kind === "unix") {
        throw new Error("--api-client-tls-…: a unix socket is not spoken to with TLS");
      }
      return { source: createGrpcSource({ address, tls, scope, nodeName, inFull, clock, logger }), close };
    }
    case "kube": {
      const { ApiError, connectToApi, createKubernetesSource, listNodeNames, otherNodesText, sendObject } =
        await import("./kubernetes/mod.ts");
      const { kubeconfig, master, mode } = configuration;
      const api = await connectToApi({ kubeconfig, master, runProgram, env, logger, clock, onRequest: onApiRequest });
      const source = createKubernetesSource({
        api,
        kinds: inFull ? KINDS : kindsOf(mode),
        nodeName: inFull ? undefined : nodeName,
        decode,
        logger,
        clock,
      });
      const events: OpenSource["events"] = {
        send: (request, signal) => sendObject(api, request, signal),
        isRefusal: (error) => error instanceof ApiError && REFUSALS.includes(error.kind),
      };
      const otherNodes = async (signal: AbortSignal) => otherNodesText(nodeName, await listNodeNames(api, signal));
      return { source, events, otherNodes, close: () => api.close() };
    }
  }
}
