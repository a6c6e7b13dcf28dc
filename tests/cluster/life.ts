/** Connections through all frontends of a service while a cluster lives: changes, restarts and replacements of its parts. */
import { sleep, systemClock } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import { TIMEOUT_FACTOR, waitFor } from "../chaos/wait.ts";
import type { Result } from "../suite.ts";
import { BALANCED, type Cluster, type NodeName, NODES } from "./cluster.ts";
import { deploymentObject, rolledOut } from "./deployments.ts";
import {
  addressesOfPods,
  create,
  createNamespace,
  createService,
  deleteNamespace,
  type Frontends,
  NAMESPACE,
} from "./pods.ts";
import {
  installProxy,
  type Mode,
  type ProxyKind,
  type RunningProxy,
  sluiceBinary,
  type TrustPlace,
} from "./proxies.ts";
import type { PartOutcome, Trial } from "./results.ts";
import {
  balanceThroughEntry,
  ENTRY,
  frontendsOf,
  MOST_LOST,
  printFailures,
  sumOf,
  underTraffic,
} from "./under_traffic.ts";
import type { Tallies, Targets } from "./under_traffic.ts";

const BALANCER = { IPv4: `${BALANCED.IPv4}.41`, IPv6: `${BALANCED.IPv6}:41` };
const REPLICAS = 3;
/** The part of the traffic before and after an event. */
const CALM_MS = 5000;
/** How long the API server is away. */
const AWAY_MS = 10_000;
/** A node that starts again serves within this time, with the API server or without it. */
const SERVES_WITHIN_MS = 25_000;
const IN_EFFECT_WITHIN_MS = 60_000;
const DRAINED = "node2";
const WITNESS = "witness";
const FOLLOWS = "a change afterwards takes effect without a restart of the proxy";
/** How often blue and green switch, and switch back. */
const SWITCHES = 3;

/** The cluster, the proxy and the frontends to which an event happens. */
interface Scene extends Pick<Trial, "cluster" | "proxy" | "network"> {
  readonly frontends: Frontends;
  /** A Service of blue pods without traffic, whose changes show whether the proxies follow. */
  readonly witness: Frontends;
}

/** An observation of an event beside its tallies. */
interface Finding {
  readonly rule: string;
  readonly holds: boolean;
  readonly count: string;
}

/** The judgement of an event's tallies: what has to hold, by name. */
type Judge = (tallies: Tallies, kind: ProxyKind) => Readonly<Record<string, boolean>>;

/** An event in the life of a cluster. */
interface LifeEvent {
  happens(scene: Scene): Promise<readonly Finding[] | void>;
  readonly judge: Judge;
  /** Whether it is an event of this kind of proxy, if not of all. */
  isOf?(kind: ProxyKind): boolean;
}

/** The events by name, in the order in which they happen. */
const EVENTS: Readonly<Record<string, LifeEvent>> = {
  "the API server restarts": { happens: restartServer, judge: nothingIsLost },
  "the API server's certificate is renewed": {
    happens: async (scene) => {
      await scene.cluster.plane.renewCertificate();
      await restartServer(scene);
    },
    judge: nothingIsLost,
  },
  "the API server's CA rotates, in a file": {
    happens: (scene) => rotateAuthority(scene, "file"),
    judge: nothingIsLost,
  },
  "the API server's CA rotates, in a new kubeconfig": {
    happens: (scene) => rotateAuthority(scene, "kubeconfig"),
    judge: nothingIsLost,
  },
  "the CNI restarts, node by node": { happens: restartNetwork, judge: flowsMove },
  "the proxy is upgraded": { happens: ({ proxy }) => replace(proxy, proxy), judge: nothingIsLost },
  "the mode changes, and changes back": { happens: changeModes, judge: nothingIsLost },
  "kube-proxy takes over, and gives back": {
    happens: exchange,
    judge: nothingIsLost,
    isOf: ({ program }) => program === "sluice",
  },
  "blue and green switch six times": { happens: switchColors, judge: flowsMove },
  "a node is drained": { happens: drain, judge: fewAreLost },
  "a node reboots": { happens: reboot, judge: theNodeServesAgain },
  "a node reboots without the API server": {
    happens: rebootAlone,
    judge: (tallies, kind) => kind.program === "sluice" ? theNodeServesAgain(tallies) : othersLoseNothing(tallies),
  },
};

/** Lets all events happen, or those whose names match the focus, each under traffic. */
export async function testLife({ cluster, proxy, network, focus }: Trial): Promise<PartOutcome> {
  await createNamespace(cluster);
  for (const color of ["blue", "green"]) await create(cluster, colored(color));
  const frontends = await createService(cluster, "life", { color: "blue" }, { type: "LoadBalancer" });
  const witness = await createService(cluster, WITNESS, { color: "blue" }, {});
  await balanceThroughEntry(cluster, "life", BALANCER);
  for (const color of ["blue", "green"]) await rolledOut(cluster, color);

  const short = frontendsOf(frontends, BALANCER, false), long = frontendsOf(frontends, BALANCER, true);
  const targets: Targets = {
    onNode: [...short.onNode, ...long.onNode],
    outside: [...short.outside, ...long.outside],
  };
  const pattern = new RegExp(focus ?? "");
  const results: Result[] = [], counts: Record<string, string> = {};
  for (const [name, { happens, judge, isOf = () => true }] of Object.entries(EVENTS)) {
    if (!pattern.test(name) || !isOf(proxy.kind)) continue;
    let tookMs = 0;
    let findings: readonly Finding[] = [];
    const tallies = await underTraffic(cluster, targets, async () => {
      await sleep(systemClock, CALM_MS);
      const startedMs = systemClock.monotonic();
      findings = await happens({ cluster, proxy, network, frontends, witness }) ?? [];
      tookMs = systemClock.monotonic() - startedMs;
      await sleep(systemClock, CALM_MS);
    });
    counts[name] = [describe(tallies), ...findings.map(({ count }) => count)].join("; ");
    console.log(`${name}, ${Math.round(tookMs / 1000)} s: ${counts[name]}`);
    printFailures(tallies);
    const found = findings.map(({ rule, holds }) => [rule, holds] as const);
    for (const [rule, passed] of [...Object.entries(judge(tallies, proxy.kind)), ...found]) {
      const unit = `life: ${name}: ${rule}`;
      if (!passed) console.log(`FAILED ${unit}`);
      results.push({ name: unit, unit, passed, tookMs });
    }
  }
  await deleteNamespace(cluster);
  return { results, counts };
}

/** Pods of a color, none on the node through which connections come from outside. */
function colored(color: string): unknown {
  const notEntry = { key: "kubernetes.io/hostname", operator: "NotIn", values: [ENTRY] };
  const required = { nodeSelectorTerms: [{ matchExpressions: [notEntry] }] };
  return deploymentObject(color, {
    replicas: REPLICAS,
    labels: { color },
    pods: { affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } } },
  });
}

/** The tallies of new connections, long TCP connections and long UDP flows; of all targets, or those whose names contain `part`. */
function byKind(tallies: Tallies, part = "") {
  const of = (isOfKind: (name: string) => boolean) =>
    Object.entries(tallies).filter(([name]) => name.includes(part) && isOfKind(name)).map(([, tally]) => tally);
  const isLong = (name: string) => name.startsWith("long: ");
  return {
    created: of((name) => !isLong(name)),
    streams: of((name) => isLong(name) && name.endsWith("TCP")),
    flows: of((name) => isLong(name) && name.endsWith("UDP")),
  };
}

function describe(tallies: Tallies): string {
  const { created, streams, flows } = byKind(tallies), all = sumOf(created), datagrams = sumOf(flows);
  const lasting = streams.filter(({ failures }) => failures === 0).length;
  const outage = all.outageMs > 0 ? `, longest outage ${(all.outageMs / 1000).toFixed(1)} s` : "";
  return `${all.failures} of ${all.attempts} lost, slowest ${all.slowestMs} ms${outage}; ` +
    `${lasting} of ${streams.length} long ones last; ${datagrams.failures} of ${datagrams.attempts} datagrams lost`;
}

/** Judges new connections and long ones, TCP and UDP, or those whose names contain `part`. */
function connectionsLast(tallies: Tallies, part?: string): Readonly<Record<string, boolean>> {
  const { created, streams } = byKind(tallies, part);
  return {
    "no new connection is lost": sumOf(created).failures === 0,
    "long connections last": sumOf(streams).failures === 0,
  };
}

function losesNothing(tallies: Tallies, part?: string): Readonly<Record<string, boolean>> {
  return {
    ...connectionsLast(tallies, part),
    "no datagram is lost": sumOf(byKind(tallies, part).flows).failures === 0,
  };
}

/** A datagram whose flow moves to another pod before the answer may be lost. */
function flowsMove(tallies: Tallies): Readonly<Record<string, boolean>> {
  const { created, flows } = byKind(tallies, "UDP"), { attempts, failures } = sumOf([...created, ...flows]);
  return {
    ...connectionsLast(tallies, "TCP"),
    "at most one in 200 datagrams is lost": failures <= attempts * MOST_LOST,
  };
}

function nothingIsLost(tallies: Tallies): Readonly<Record<string, boolean>> {
  return losesNothing(tallies);
}

function fewAreLost(tallies: Tallies): Readonly<Record<string, boolean>> {
  const { attempts, failures } = sumOf(byKind(tallies).created);
  return { "at most one in 200 new connections is lost": failures <= attempts * MOST_LOST };
}

/** Judges the connections that do not pass the node. */
function othersLoseNothing(tallies: Tallies): Readonly<Record<string, boolean>> {
  return losesNothing(tallies, "cluster IP from a node");
}

function theNodeServesAgain(tallies: Tallies): Readonly<Record<string, boolean>> {
  const { created, flows } = byKind(tallies, "from outside");
  return {
    ...othersLoseNothing(tallies),
    [`the node serves again within ${SERVES_WITHIN_MS / 1000} s`]:
      sumOf([...created, ...flows]).outageMs < SERVES_WITHIN_MS,
  };
}

async function restartServer({ cluster: { plane }, proxy }: Scene): Promise<void> {
  await plane.killServer();
  await sleep(systemClock, AWAY_MS);
  await plane.startServer();
  await proxy.healthy();
}

/** Ends a proxy and starts another, or the same, in its place on all nodes. */
async function replace(old: RunningProxy, next: RunningProxy): Promise<void> {
  await old.stop();
  for (const node of NODES) next.start(node);
  await next.healthy();
}

async function changeModes({ proxy }: Scene): Promise<void> {
  const { mode, program } = proxy.kind, other: Mode = mode === "iptables" ? "nftables" : "iptables";
  for (const next of [other, mode]) {
    if (program === "kube-proxy") await proxy.stop();
    proxy.configure(next);
    for (const node of NODES) proxy.start(node);
    await proxy.healthy();
    await sleep(systemClock, CALM_MS);
  }
}

/** Goes from Sluice back to kube-proxy in the same mode, and from there to Sluice again, as docs/migrate.md says. */
async function exchange({ cluster, proxy }: Scene): Promise<void> {
  const { mode } = proxy.kind;
  const other = await installProxy(cluster, { name: `kube-proxy ${mode}`, program: "kube-proxy", mode });
  await replace(proxy, other);
  if (mode === "nftables") {
    for (const node of NODES) {
      await waitFor(`kube-proxy serves on ${node}`, IN_EFFECT_WITHIN_MS, async () => {
        return (await cluster.run(node, [sluiceBinary(), "--cleanup", "--only-own"])).code === 0;
      }, 500);
    }
  }
  await sleep(systemClock, CALM_MS);
  await replace(other, proxy);
}

/** Changes the selector of the Service to the pods of the other color, and back, several times. */
async function switchColors({ cluster, frontends }: Scene): Promise<void> {
  for (const color of Array(SWITCHES).fill(["green", "blue"]).flat()) {
    await select(cluster, "life", color);
    await served(cluster, frontends, color, ["node3"]);
    await sleep(systemClock, CALM_MS);
  }
}

/** Changes the selector of a Service; resolves once its EndpointSlices have the pods of this color only. */
async function select({ plane }: Cluster, name: string, color: string): Promise<void> {
  const path = `/api/v1/namespaces/${NAMESPACE}/services/${name}`;
  const { status, body } = await plane.request("PATCH", path, { spec: { selector: { color } } });
  if (status !== 200) throw new Error(`cannot change the selector: ${body.message}`);
  const slices = `/apis/discovery.k8s.io/v1/namespaces/${NAMESPACE}/endpointslices`;
  await waitFor(`the EndpointSlices of ${name} have the ${color} pods`, IN_EFFECT_WITHIN_MS, async () => {
    const answer = await plane.request("GET", `${slices}?labelSelector=kubernetes.io/service-name=${name}`);
    const endpoints = (answer.body.items as readonly Slice[]).flatMap(({ endpoints }) => endpoints ?? []);
    return endpoints.length > 0 && endpoints.every(({ targetRef }) => targetRef.name.startsWith(color));
  }, 200);
}

interface Slice {
  readonly endpoints: readonly { readonly targetRef: { readonly name: string } }[] | null;
}

/** Resolves once pods of this color serve on these nodes. */
async function served(
  { run }: Cluster,
  { clusterIPs }: Frontends,
  color: string,
  nodes: readonly NodeName[],
): Promise<void> {
  const curl = ["curl", "-sm", "1", `http://${clusterIPs.IPv4}/hostname`];
  for (const node of nodes) {
    const isServed = async () => (await run(node, curl)).stdout.startsWith(color);
    await waitFor(`the ${color} pods serve on ${node}`, IN_EFFECT_WITHIN_MS, isServed, 200);
  }
}

/** As Kubernetes documents it: both authorities are trusted, the server changes its certificate, the old one is no longer trusted. */
async function rotateAuthority(scene: Scene, place: TrustPlace): Promise<readonly Finding[]> {
  const { cluster: { plane }, proxy } = scene, [current, next] = plane.authorities();
  proxy.trust([current, next], place);
  await plane.rotateAuthority();
  await restartServer(scene);
  const first = await follows(scene, "green");
  proxy.trust([next], place);
  await restartServer(scene);
  const second = first === undefined ? undefined : await follows(scene, "blue");
  if (first !== undefined && second !== undefined) {
    const slowest = (Math.max(first, second) / 1000).toFixed(1);
    return [{ rule: FOLLOWS, holds: true, count: `changes afterwards in effect within ${slowest} s` }];
  }
  await replace(proxy, proxy);
  await follows(scene, "blue");
  const limitS = IN_EFFECT_WITHIN_MS * TIMEOUT_FACTOR / 1000;
  return [{ rule: FOLLOWS, holds: false, count: `**changes afterwards not in effect within ${limitS} s**` }];
}

/** How long changed EndpointSlices take to be in effect on all nodes, in milliseconds; undefined if they are not. */
async function follows({ cluster, witness }: Scene, color: string): Promise<number | undefined> {
  await select(cluster, WITNESS, color);
  const startedMs = systemClock.monotonic();
  try {
    await served(cluster, witness, color, NODES);
  } catch (error) {
    console.log(errorText(error));
    return undefined;
  }
  return systemClock.monotonic() - startedMs;
}

async function restartNetwork({ cluster, network }: Scene): Promise<void> {
  for (const node of NODES) {
    await network.restart(node);
    await addressesOfPods(cluster);
    await sleep(systemClock, CALM_MS);
  }
}

/** As `kubectl drain` does; pods can be scheduled there again afterwards. */
async function drain({ cluster }: Scene): Promise<void> {
  const { plane } = cluster;
  const cordon = (unschedulable: boolean) =>
    plane.request("PATCH", `/api/v1/nodes/${DRAINED}`, { spec: { unschedulable } });
  await cordon(true);
  const pods = `/api/v1/namespaces/${NAMESPACE}/pods`;
  const { items } = (await plane.request("GET", `${pods}?fieldSelector=spec.nodeName=${DRAINED}`)).body;
  for (const { metadata: { name } } of items as readonly { readonly metadata: { readonly name: string } }[]) {
    const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name, namespace: NAMESPACE } };
    const { status, body } = await plane.request("POST", `${pods}/${name}/eviction`, eviction);
    if (status !== 201) throw new Error(`cannot evict ${name}: ${body.message}`);
  }
  await addressesOfPods(cluster);
  await cordon(false);
}

async function reboot({ cluster, proxy }: Scene): Promise<void> {
  await proxy.stop([ENTRY]);
  await cluster.reboot(ENTRY);
  proxy.start(ENTRY);
  await proxy.healthy();
}

/** Reboots the node while the API server is away, which returns only after the node should serve. */
async function rebootAlone({ cluster, proxy }: Scene): Promise<void> {
  await cluster.plane.killServer();
  await proxy.stop([ENTRY]);
  await cluster.reboot(ENTRY);
  proxy.start(ENTRY);
  await sleep(systemClock, SERVES_WITHIN_MS);
  await cluster.plane.startServer();
  // kube-proxy has ended in the meantime.
  proxy.start(ENTRY);
  await proxy.healthy();
}
