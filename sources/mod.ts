/**
 * Where objects come from: an API server, manifests in a folder, a state file, another Sluice or KPNG over gRPC.
 *
 * In: the configuration. Out: objects, to a `ClusterListener`. May touch: the network, files, credential plugins.
 */
export { openSource, type SourceOptions } from "./open.ts";
