/**
 * Opens the source of objects: an API server, manifests in a folder, a state file, or another Sluice or KPNG over gRPC.
 *
 * In: the configuration. Out: objects, to a `SourceSink`. May touch: the network, files, credential plugins.
 */
export { type KeptState, openSource, type SourceOptions } from "./open.ts";
