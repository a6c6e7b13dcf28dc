/** Connections to 50 pods while all of them are replaced. */
import { systemClock } from "../../platform/clock.ts";
import { FAMILIES } from "../../platform/mod.ts";
import { waitFor } from "../chaos/wait.ts";
import { addressesOf, BALANCED, type Cluster, sh } from "./cluster.ts";
import {
  addressesOfPods,
  balance,
  create,
  createNamespace,
  createService,
  deleteNamespace,
  NAMESPACE,
  netexec,
  POD_PORT,
  podObject,
} from "./pods.ts";
import type { PartOutcome, Trial } from "./results.ts";
import type { Tally, Target } from "./traffic.ts";

const REPLICAS = 50;
const SERVED_WITHIN_MS = 60_000;
const ROLLED_OUT_WITHIN_MS = 900_000;
/** A pod serves for so long after the API server has been told that it ends, as graceful servers do. */
const GRACE_S = 5;
/** On a machine with too few processors, some pods hear that they end, and end, before the proxies do. */
const MOST_LOST = 1 / 200;
const LONG = "one long connection to another service";
const BALANCER = { IPv4: `${BALANCED.IPv4}.31`, IPv6: `${BALANCED.IPv6}:31` };
const LABELS = { app: "rolling" };

/** Replaces all pods of a Deployment under traffic. */
export async function testRollout({ cluster }: Trial): Promise<PartOutcome> {
  await createNamespace(cluster);
  await create(cluster, deployment());
  await create(cluster, podObject("steady", { node: "node2", labels: { app: "steady" } }));
  const rolling = await createService(cluster, "rolling", LABELS, { type: "LoadBalancer" });
  const steady = await createService(cluster, "steady", { app: "steady" }, {});
  await balance(cluster, "rolling", BALANCER);
  await sh(
    FAMILIES.map((family) => `ip route replace ${BALANCER[family]} via ${addressesOf("node1")[family]}`).join("\n"),
  );
  await rolledOut(cluster);
  await addressesOfPods(cluster);

  const both = (name: string, addresses: typeof BALANCER, ports: Readonly<Record<"tcp" | "udp", number>>): Target[] =>
    FAMILIES.flatMap((family) =>
      (["tcp", "udp"] as const).map((protocol) => ({
        name: `${name}, ${family}, ${protocol.toUpperCase()}`,
        protocol,
        address: addresses[family],
        port: ports[protocol],
        isLong: false,
      }))
    );
  const ports = { tcp: 80, udp: 80 };
  const onNode = [
    ...both("cluster IP from a node", rolling.clusterIPs, ports),
    {
      name: LONG,
      protocol: "tcp",
      address: steady.clusterIPs.IPv4,
      port: 80,
      isLong: true,
    },
  ] as const;
  const outside = [
    ...both("node port from outside", addressesOf("node1"), rolling.nodePorts),
    ...both("load balancer IP from outside", BALANCER, ports),
  ];
  await served(cluster, rolling.clusterIPs.IPv4);
  const traffic = [
    cluster.start("node3", trafficCommand(onNode), { stdin: "piped", stdout: "piped" }),
    new Deno.Command("env", { args: trafficCommand(outside), stdin: "piped", stdout: "piped" }).spawn(),
  ];
  const startedMs = systemClock.monotonic();
  await restart(cluster);
  await rolledOut(cluster);
  await addressesOfPods(cluster);
  const tookS = Math.round((systemClock.monotonic() - startedMs) / 1000);
  const tallies: Record<string, Tally> = {};
  for (const child of traffic) {
    await child.stdin.close();
    Object.assign(tallies, JSON.parse(new TextDecoder().decode((await child.output()).stdout)));
  }
  await deleteNamespace(cluster);
  return {
    results: verdicts(tallies).map(([name, passed]) => ({ name, unit: name, passed, tookMs: tookS * 1000 })),
    figures: {
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
function verdicts(tallies: Readonly<Record<string, Tally>>): readonly (readonly [name: string, passed: boolean])[] {
  const { [LONG]: long, ...others } = tallies;
  let attempts = 0, lost = 0;
  for (const [name, tally] of Object.entries(others)) {
    attempts += tally.attempts;
    lost += tally.failures;
    if (tally.failures > 0) console.log(`${name}: ${tally.failures} lost: ${tally.examples.join("; ")}`);
  }
  return [
    [`rollout: ${LONG} lasts`, long!.failures === 0],
    ["rollout: at most one in 200 connections is lost", lost <= attempts * MOST_LOST],
  ];
}

function trafficCommand(targets: readonly Target[]): string[] {
  const script = new URL("./traffic.ts", import.meta.url).pathname;
  const options = ["run", "--quiet", "--cached-only", "--no-check", "--unstable-net", "--allow-net"];
  return [Deno.execPath(), ...options, script, JSON.stringify(targets)];
}

function deployment(): unknown {
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "rolling", namespace: NAMESPACE },
    spec: {
      replicas: REPLICAS,
      selector: { matchLabels: LABELS },
      strategy: { rollingUpdate: { maxUnavailable: 0, maxSurge: "25%" } },
      template: {
        metadata: { labels: LABELS },
        spec: {
          terminationGracePeriodSeconds: GRACE_S + 5,
          containers: [{ ...netexec(POD_PORT), lifecycle: { preStop: { sleep: { seconds: GRACE_S } } } }],
        },
      },
    },
  };
}

/** Resolves once the node reaches a service. */
async function served(cluster: Cluster, address: string): Promise<void> {
  await waitFor("the service is served", SERVED_WITHIN_MS, async () => {
    return (await cluster.run("node3", ["curl", "-sfm", "1", `http://${address}/hostname`])).code === 0;
  }, 200);
}

const PATH = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/rolling`;

/** As `kubectl rollout restart` does. */
async function restart({ plane }: Cluster): Promise<void> {
  const annotations = { "kubectl.kubernetes.io/restartedAt": new Date(systemClock.now()).toISOString() };
  const { status, body } = await plane.request("PATCH", PATH, { spec: { template: { metadata: { annotations } } } });
  if (status !== 200) throw new Error(`cannot restart the deployment: ${body.message}`);
}

async function rolledOut({ plane }: Cluster): Promise<void> {
  await waitFor("the deployment is rolled out", ROLLED_OUT_WITHIN_MS, async () => {
    const { metadata, status } = (await plane.request("GET", PATH)).body;
    const counts = [status.replicas, status.updatedReplicas, status.availableReplicas];
    return status.observedGeneration === metadata.generation && counts.every((count) => count === REPLICAS);
  }, 500);
}
