/**
 * Measures the kernel memory of the rules of `dist/sluice`, and compares it with the recorded one:
 *
 *     deno task bench:kernel-memory [SHAPE]…
 *
 * Each row is a cluster in a network namespace of its own. Once the kernel has its rules, the proxy is killed, and the memory that
 * the kernel gets back with the namespace is counted. What other programs take or free in that second counts, too, so a row
 * that differs from its record is measured again. Needs root, ./compile.sh and 5 minutes. Ends with `N passed, N failed`.
 */
import type { Protocol } from "../../core/model/mod.ts";
import { sleep, systemClock } from "../../platform/clock.ts";
import { waitFor } from "../chaos/wait.ts";
import { runIsolated } from "../isolated.ts";
import { clusterIP } from "./cluster.ts";
import {
  addNamespace,
  builtExecutables,
  deleteNamespace,
  manifestsOf,
  run,
  type ServiceManifest,
  type SliceManifest,
  startProxy,
  writeManifests,
} from "./executables.ts";

const SYNC_MS = 60_000;
const POLL_MS = 200;
/** From the rules of the last service to the end of the sync. */
const SETTLE_MS = 1000;
/** The kernel frees the memory of a namespace after its deletion. */
const FREED_MS = 500;
const MOST_READINGS = 20;
/** Two readings that differ by less have settled, in MB. */
const SETTLED = 0.2;
const TRIES = 3;

const MODES = ["nftables", "iptables"] as const;
type Mode = typeof MODES[number];

/** The flags without the features that add sets, and with them. */
const FLAGS: Readonly<Record<Mode, readonly (readonly string[])[]>> = {
  nftables: [["--reset-gone-connections=false"], ["--traffic-metrics", "--endpoint-failure-detection"]],
  iptables: [["--reset-gone-connections=false"], ["--traffic-metrics"]],
};

type Objects = readonly (ServiceManifest | SliceManifest)[];

/** A cluster of services of three endpoints. */
interface Shape {
  readonly services: number;
  readonly protocol?: Protocol;
  /** Changes the objects of a service. */
  readonly change?: (index: number, service: ServiceManifest, slice: SliceManifest) => void;
  /** The slices of a service, in place of the one of three endpoints. */
  readonly slices?: (slice: SliceManifest) => readonly SliceManifest[];
}

const ENDPOINTS_PER_SLICE = 1000;
const outside = (index: number) => `100.64.${index >> 8}.${index & 255}`;
const withNodePort = (index: number, { spec }: ServiceManifest, type: string) => {
  spec.type = type;
  spec.ports[0]!.nodePort = 30_000 + index;
};

const withAffinity = (_: number, { spec }: ServiceManifest) => void (spec.sessionAffinity = "ClientIP");
/** This number of full slices. */
const slicesOf = (count: number) => (slice: SliceManifest): readonly SliceManifest[] =>
  Array.from({ length: count }, (_, k) => ({
    ...slice,
    metadata: { ...slice.metadata, name: `${slice.metadata.name}-${k}` },
    endpoints: Array.from({ length: ENDPOINTS_PER_SLICE }, (_, n) => ({
      ...slice.endpoints[0]!,
      addresses: [`10.200.${k * 4 + (n >> 8)}.${n & 255}`],
    })),
  }));

const SHAPES: Readonly<Record<string, Shape>> = {
  "1 × 3": { services: 1 },
  "1,000 × 3": { services: 1000 },
  "… session affinity": { services: 1000, change: withAffinity },
  "… node ports": { services: 1000, change: (index, service) => withNodePort(index, service, "NodePort") },
  "… load balancers, 5 source ranges": {
    services: 1000,
    change(index, service) {
      withNodePort(index, service, "LoadBalancer");
      service.status = { loadBalancer: { ingress: [{ ip: outside(index) }] } };
      service.spec.loadBalancerSourceRanges = [1, 2, 3, 4, 5].map((k) => `10.${k}.${index >> 8}.${index & 255}/32`);
    },
  },
  "… external IPs": { services: 1000, change: (index, { spec }) => spec.externalIPs = [outside(index)] },
  "… UDP": {
    services: 1000,
    protocol: "udp",
    change(_, { spec }, slice) {
      for (const port of [...spec.ports, ...slice.ports]) port.protocol = "UDP";
    },
  },
  "100 × 3, session affinity": { services: 100, change: withAffinity },
  "1 × 5,000": { services: 1, slices: slicesOf(5) },
  "1 × 1,000, session affinity": { services: 1, slices: slicesOf(1), change: withAffinity },
  "1 × 5,000, session affinity": { services: 1, slices: slicesOf(5), change: withAffinity },
};

/** MB of each shape, by mode, without and with the features. Record a reduction here. */
const RECORDED: Readonly<Record<Mode, Readonly<Record<string, readonly [number, number]>>>> = {
  nftables: {
    "1 × 3": [0.1, 0.1],
    "1,000 × 3": [0.3, 0.3],
    "… session affinity": [0.4, 0.4],
    "… node ports": [0.6, 0.8],
    "… load balancers, 5 source ranges": [1.3, 1.6],
    "… external IPs": [0.6, 1.0],
    "… UDP": [0.4, 0.3],
    "100 × 3, session affinity": [0.1, 0.1],
    "1 × 5,000": [0.2, 0.2],
    "1 × 1,000, session affinity": [2.8, 2.8],
    "1 × 5,000, session affinity": [14.9, 14.9],
  },
  iptables: {
    "1 × 3": [0.1, 0.1],
    "1,000 × 3": [2.1, 2.1],
    "… session affinity": [17.5, 17.8],
    "… node ports": [3.3, 3.2],
    "… load balancers, 5 source ranges": [6.5, 7.2],
    "… external IPs": [3.5, 3.0],
    "… UDP": [2.1, 2.3],
    "100 × 3, session affinity": [1.3, 1.1],
    "1 × 5,000": [2.7, 3.0],
    "1 × 1,000, session affinity": [4.9, 6.6],
    "1 × 5,000, session affinity": [29.1, 30.5],
  },
};

/** The limit of a row: 10 %, and the 0.7 MB by which measurements on a quiet machine differ. */
const limitOf = (recorded: number) => recorded * 1.1 + 0.7;

function objectsOf({ services, change, slices = (slice) => [slice] }: Shape): Objects {
  return Array.from({ length: services }, (_, index) => {
    const { service, slice } = manifestsOf(index);
    change?.(index, service, slice);
    return [service, ...slices(slice)];
  }).flat();
}

/** The memory that no process shows, in MB. */
function kernelMemory(): number {
  const text = Deno.readTextFileSync("/proc/meminfo");
  const kilobytes = ["SUnreclaim", "VmallocUsed", "Percpu"].map((name) =>
    new RegExp(`^${name}: +(\\d+) kB`, "m").exec(text)!
  );
  return kilobytes.reduce((sum, [, value]) => sum + Number(value), 0) / 1024;
}

/** The kernel's memory once it does not change any more. */
async function settledMemory(): Promise<number> {
  let before = kernelMemory();
  for (let reading = 0; reading < MOST_READINGS; reading++) {
    await sleep(systemClock, FREED_MS);
    const now = kernelMemory();
    if (Math.abs(now - before) < SETTLED) return now;
    before = now;
  }
  return before;
}

/** The memory that `fill` takes in a new namespace, until that is deleted. */
async function takenBy(fill: (namespace: string) => Promise<void>): Promise<number> {
  const namespace = "measured";
  await addNamespace(namespace);
  await fill(namespace);
  const taken = await settledMemory();
  await deleteNamespace(namespace);
  return taken - await settledMemory();
}

const KNOWN_SETS = 50, MB_PER_KNOWN_SET = 2;

/** Measures sets of a known size. Throws if the measurement is wrong. */
async function checkMeasurement(): Promise<void> {
  const set = (index: number) => `add set ip known s${index} { type ipv4_addr; size 65535; flags dynamic; }`;
  const statements = ["add table ip known", ...Array.from({ length: KNOWN_SETS }, (_, index) => set(index))];
  const taken = await takenBy(async (namespace) => {
    await run("ip", ["netns", "exec", namespace, "nft", statements.join("; ")]);
  });
  const known = KNOWN_SETS * MB_PER_KNOWN_SET;
  if (Math.abs(taken - known) > known * 0.05) {
    throw new Error(`${known} MB were measured as ${taken.toFixed(1)}: is the machine quiet?`);
  }
}

/** The memory of the rules of a source. */
async function measure(
  executable: string,
  mode: Mode,
  shape: Shape,
  source: string,
  flags: readonly string[],
): Promise<number> {
  return await takenBy(async (namespace) => {
    const proxy = startProxy({ executable, namespace, mode, source, cache: `${source}/../deno`, flags });
    const last = { address: clusterIP(shape.services - 1), protocol: shape.protocol ?? "tcp", port: 80 };
    await waitFor(`${executable} to serve ${source}`, SYNC_MS, () => proxy.serves(last), POLL_MS);
    await sleep(systemClock, SETTLE_MS);
    await proxy.kill();
  });
}

async function inside(args: readonly string[]): Promise<number> {
  const executable = builtExecutables()[0]!, folder = await Deno.makeTempDir({ dir: "/run" });
  const unknown = args.find((name) => !(name in SHAPES));
  if (unknown !== undefined) throw new Error(`no shape ${unknown}: ${Object.keys(SHAPES).join("; ")}`);
  await checkMeasurement();
  let passed = 0, failed = 0;
  console.log("| mode | shape | MB | with the features | limits |");
  console.log("|---|---|--:|--:|--:|");
  for (const [number, [name, shape]] of Object.entries(SHAPES).entries()) {
    if (args.length > 0 && !args.includes(name)) continue;
    writeManifests(`${folder}/${number}`, objectsOf(shape));
    for (const mode of MODES) {
      const cells: string[] = [], limits: string[] = [];
      for (const [index, flags] of FLAGS[mode].entries()) {
        const recorded = RECORDED[mode][name]?.[index] ?? NaN, limit = limitOf(recorded);
        let taken = NaN;
        for (let tries = 0; tries < TRIES && !(Math.abs(taken - recorded) <= limit - recorded); tries++) {
          taken = await measure(executable, mode, shape, `${folder}/${number}`, flags);
        }
        const isOver = !(taken <= limit);
        if (isOver) failed++;
        else passed++;
        cells.push(taken.toFixed(1) + (isOver ? " OVER" : ""));
        limits.push(limit.toFixed(1));
      }
      console.log(`| ${[mode, name, ...cells, limits.join(", ")].join(" | ")} |`);
    }
  }
  console.log(`\n${passed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

Deno.exit(await runIsolated(import.meta.url, inside));
