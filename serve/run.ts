import { isServer } from "../config/mod.ts";
import { startProcessFeatures } from "../features/mod.ts";
import { readTlsFiles, type TlsPaths, type WireAddress } from "../kpng/address/mod.ts";
import { startServing } from "../kpng/server/mod.ts";
import { createSourceLink } from "../observe/process/mod.ts";
import { createTopic } from "../platform/mod.ts";
import type { ApiRequestOutcome } from "../core/objects/mod.ts";
import { defaultServingWorkers, spawnServingWorker } from "../workers/serving.ts";
import { followCertificates } from "./certificates.ts";
import { type ClusterOptions, openClusterStore } from "./cluster_store.ts";
import { createServingMetrics, startServingServers } from "./operator.ts";

/** Options of `runServer`. */
export interface ServerOptions extends Omit<ClusterOptions, "onApiRequest" | "onLink" | "onProblems"> {
  readonly listen: WireAddress;
  /** The paths of the PEM files. */
  readonly tls: TlsPaths;
  /** The number of workers that write to the watchers; by default, it follows from the number of cores. */
  readonly workers: number | undefined;
  /** `address:port` of the health server; undefined for none. */
  readonly healthzBindAddress: string | undefined;
  /** `address:port` of the metrics server; undefined for none. */
  readonly metricsBindAddress: string | undefined;
}

/** Serves the cluster's state until the signal is aborted. Throws an Error if it cannot start, or its source cannot work. */
export async function runServer(options: ServerOptions): Promise<void> {
  const { configuration, clock, logger, signal } = options;
  const current = readTlsFiles(options.tls, "--listen-tls");

  // The source, which is read when everything else is ready.
  const link = createSourceLink(clock);
  const requestEnded = createTopic<[ApiRequestOutcome]>();
  const cluster = await openClusterStore({ ...options, onApiRequest: requestEnded.publish, onLink: link.report });
  const { store, problems, servers, lastEventMs } = cluster;

  // The watchers.
  const changeWritten = createTopic<[lagMs: number]>();
  const serving = await startServing({
    address: options.listen,
    tls: current,
    store,
    clock,
    logger,
    onLag: changeWritten.publish,
    workers: { count: options.workers ?? await defaultServingWorkers(), spawn: spawnServingWorker },
  });
  const renewal = { paths: options.tls, current, renew: serving.renew, clock, logger, signal };

  // The operator.
  const source = () => ({ isReady: store.ready(), lastEventMs: lastEventMs() });
  const metrics = createServingMetrics({
    count: serving.count,
    source,
    link: isServer(configuration.source) ? link.current : undefined,
    servers,
    problems: problems.counts,
  });
  requestEnded.subscribe(metrics.apiRequest);
  changeWritten.subscribe(metrics.lag);
  const features = await startProcessFeatures({
    ...{ nodeName: undefined, reportProblems: problems.report, clock, logger },
    environment: (name) => Deno.env.get(name),
  });
  for (const feature of features.values()) feature.attach(metrics, clock.now());

  try {
    void followCertificates(renewal);
    await Promise.all([cluster.run(), startServingServers({ ...options, source, metrics, problems })]);
  } finally {
    await serving.close();
    for (const feature of features.values()) await feature.stop();
    logger.info("stopped serving");
  }
}
