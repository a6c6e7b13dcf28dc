import type { Clock } from "../../platform/clock.ts";
import type { Logger } from "../../platform/log.ts";
import type { Configuration } from "../config/mod.ts";
import { decodeObject } from "../objects/decode.ts";
import { kindsOf } from "./kinds.ts";
import type { Source } from "./source.ts";

/** A source, and how to let go of what it holds once it has ended. */
export interface OpenSource {
  readonly source: Source;
  close(): void;
}

/** Opens the source that the configuration names. Throws an Error that says what is missing or wrong, and where. */
export async function openSource(configuration: Configuration, logger: Logger, clock: Clock): Promise<OpenSource> {
  const choice = configuration.source;
  if (choice.kind === "file") {
    const { createManifestSource } = await import("./manifests/mod.ts");
    return { source: createManifestSource({ path: choice.path, clock, logger }), close() {} };
  }
  const { connectToApi, createKubernetesSource } = await import("./kubernetes/mod.ts");
  const { kubeconfig, master, nodeName } = configuration;
  const api = connectToApi({ kubeconfig, master, logger, clock });
  const source = createKubernetesSource({
    api,
    kinds: kindsOf(configuration.mode),
    nodeName,
    decode: decodeObject,
    logger,
    clock,
  });
  return { source, close: () => api.close() };
}
