import { isServer } from "../../config/mod.ts";
import type { ServingOptions } from "../../kpng/server/mod.ts";
import type { Command, Invocation } from "./command.ts";
import { type ClusterStore, openClusterStore } from "./cluster_store.ts";
import { DETAIL_FLAGS } from "./detail_flags.ts";
import { openTelemetry } from "./telemetry.ts";
import {
  LISTEN_FLAGS,
  OPERATOR_FLAGS,
  readServeAddresses,
  readWorkerCount,
  type ServeAddresses,
  WORKERS_FLAG,
} from "./serve_flags.ts";

/** `sluice serve`: the cluster's state over gRPC, for other instances and for KPNG programs. */
export const serveCommand: Command = {
  lasts: true,
  name: "serve",
  summary: "Serve the cluster's state over gRPC (KPNG's protocol) to nodes, relays and KPNG programs.",
  arguments: [],
  flags: [...LISTEN_FLAGS, WORKERS_FLAG, ...OPERATOR_FLAGS, ...DETAIL_FLAGS],
  examples: [
    { line: "sluice serve --kubeconfig kubeconfig", does: "watch the API server once, serve on loopback" },
    {
      line: "sluice serve --source grpc://10.0.0.1:12090 --listen tcp://:12090 --listen-tls-ca ca.pem " +
        "--listen-tls-crt relay.pem --listen-tls-key relay.key",
      does: "a relay for the nodes of a rack, with client certificates",
    },
  ],
  async start(invocation) {
    const addresses = await readServeAddresses(invocation);
    const givenWorkers = readWorkerCount(invocation);
    const { followCertificates } = await import("./certificates.ts");
    const { readTlsFiles } = await import("../../kpng/transport/mod.ts");
    const tls = readTlsFiles(addresses.tls, "--listen-tls");
    const { createSourceLink } = await import("../../observe/mod.ts");
    const { createServingMetrics } = await import("../../observe/serving/mod.ts");
    const { configuration: { source }, clock, logger, signal } = invocation;
    const link = createSourceLink(clock);
    const metrics = createServingMetrics({
      figures: () => serving.figures(),
      source: () => cluster.figures(),
      link: isServer(source) ? link.current : undefined,
      servers: () => cluster.servers(),
      problems: () => cluster.problems.counts(),
    });
    const cluster = await openClusterStore(invocation, signal, {
      onApiRequest: metrics.apiRequest,
      onLink: link.report,
    });
    const { startServing } = await import("../../kpng/server/mod.ts");
    const { store } = cluster;
    const instance = { "service.name": "sluice-serve", "service.instance.id": Deno.hostname() };
    const telemetry = await openTelemetry(["metrics"], instance, invocation, cluster.problems.report);
    telemetry?.attach(metrics, clock.now());
    const workers = await servingWorkersOf(givenWorkers, invocation);
    const serving = await startServing({
      address: addresses.listen,
      tls,
      store,
      clock,
      logger,
      onLag: metrics.lag,
      workers,
    });
    try {
      void followCertificates({ paths: addresses.tls, current: tls, renew: serving.renew, clock, logger, signal });
      await startOperatorServers(addresses, cluster, metrics, invocation);
      await cluster.ended;
      return 0;
    } finally {
      await serving.close();
      await telemetry?.stop();
      logger.info("stopped serving");
    }
  },
};

async function servingWorkersOf(given: number | undefined, { clock }: Invocation): Promise<ServingOptions["workers"]> {
  const { defaultServingWorkers, servingWorkers } = await import("../../workers/mod.ts");
  return { count: given ?? defaultServingWorkers(), spawn: servingWorkers(clock) };
}

async function startOperatorServers(
  { healthzBindAddress, metricsBindAddress }: ServeAddresses,
  { figures: source, problems }: ClusterStore,
  metrics: { expose(): Promise<string> },
  { clock, logger, signal }: Invocation,
): Promise<void> {
  const { startServingServers } = await import("../../observe/serving/mod.ts");
  await startServingServers({
    healthzBindAddress,
    metricsBindAddress,
    source,
    metrics,
    problems,
    clock,
    logger,
    signal,
  });
}
