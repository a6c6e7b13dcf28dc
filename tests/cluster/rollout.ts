/** Connections to 50 pods while all of them are replaced. */
import { systemClock } from "../../platform/clock.ts";
import { BALANCED, type Cluster } from "./cluster.ts";
import { deploymentObject, deploymentPath, rolledOut } from "./deployments.ts";
import { addressesOfPods, create, createNamespace, createService, deleteNamespace, podObject } from "./pods.ts";
import type { PartOutcome, Trial } from "./results.ts";
import type { Target } from "./traffic.ts";
import {
  balanceThroughEntry,
  frontendsOf,
  MOST_LOST,
  printFailures,
  sumOf,
  type Tallies,
  underTraffic,
} from "./under_traffic.ts";

const REPLICAS = 50;
const LONG = "one long connection to another service";
const BALANCER = { IPv4: `${BALANCED.IPv4}.31`, IPv6: `${BALANCED.IPv6}:31` };
const LABELS = { app: "rolling" };

/** Replaces all pods of a Deployment under traffic. */
export async function testRollout({ cluster }: Trial): Promise<PartOutcome> {
  await createNamespace(cluster);
  await create(cluster, deploymentObject("rolling", { replicas: REPLICAS, labels: LABELS }));
  await create(cluster, podObject("steady", { node: "node2", labels: { app: "steady" } }));
  const rolling = await createService(cluster, "rolling", LABELS, { type: "LoadBalancer" });
  const steady = await createService(cluster, "steady", { app: "steady" }, {});
  await balanceThroughEntry(cluster, "rolling", BALANCER);
  await rolledOut(cluster, "rolling");
  await addressesOfPods(cluster);

  const { onNode, outside } = frontendsOf(rolling, BALANCER, false);
  const long: Target = { name: LONG, protocol: "tcp", address: steady.clusterIPs.IPv4, port: 80, isLong: true };
  let tookS = 0;
  const tallies = await underTraffic(cluster, { onNode: [...onNode, long], outside }, async () => {
    const startedMs = systemClock.monotonic();
    await restart(cluster);
    await rolledOut(cluster, "rolling");
    await addressesOfPods(cluster);
    tookS = Math.round((systemClock.monotonic() - startedMs) / 1000);
  });
  await deleteNamespace(cluster);
  return {
    results: verdicts(tallies).map(([name, passed]) => ({ name, unit: name, passed, tookMs: tookS * 1000 })),
    counts: {
      "duration of the rollout": `${tookS} s`,
      ...Object.fromEntries(
        Object.entries(tallies).map((
          [name, { attempts, failures, slowestMs }],
        ) => [name, `${failures} of ${attempts} lost, slowest ${slowestMs} ms`]),
      ),
    },
  };
}

/** Judges the tallies: the long connection lasts, and few others are lost. */
function verdicts(tallies: Tallies): readonly (readonly [name: string, passed: boolean])[] {
  const { [LONG]: long, ...others } = tallies;
  printFailures(tallies);
  const { attempts, failures } = sumOf(Object.values(others));
  return [
    [`rollout: ${LONG} lasts`, long!.failures === 0],
    ["rollout: at most one in 200 connections is lost", failures <= attempts * MOST_LOST],
  ];
}

/** As `kubectl rollout restart` does. */
async function restart({ plane }: Cluster): Promise<void> {
  const annotations = { "kubectl.kubernetes.io/restartedAt": new Date(systemClock.now()).toISOString() };
  const change = { spec: { template: { metadata: { annotations } } } };
  const { status, body } = await plane.request("PATCH", deploymentPath("rolling"), change);
  if (status !== 200) throw new Error(`cannot restart the deployment: ${body.message}`);
}
