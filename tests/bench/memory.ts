/**
 * Measures the memory of the executables in `dist`, in nftables mode 12 seconds after their first sync, with manifests as the
 * source, and compares it with the recorded one:
 *
 *     deno task bench:memory
 *
 * Needs root and ./compile.sh. Ends with `N passed, N failed`, or with `left out: …` on a machine without the two processors of
 * the records: the number of threads follows theirs.
 */
import { sleep, systemClock } from "../../platform/clock.ts";
import { waitFor } from "../chaos/wait.ts";
import { runIsolated } from "../isolated.ts";
import { clusterIP, ENDPOINTS } from "./cluster.ts";
import {
  addNamespace,
  builtExecutables,
  deleteNamespace,
  manifestsOf,
  type Proxy,
  type ServiceManifest,
  type SliceManifest,
  startProxy,
  writeManifests,
} from "./executables.ts";

const IDLE_MS = 12_000;
const STARTS = 3;
/** The time between two starts: those that compete for the processors keep more garbage. */
const APART_MS = 2500;
const SYNC_MS = 60_000;
const POLL_MS = 1000;

/** The rows: services of three endpoints, and families. */
const CLUSTERS = [[30, 1], [30, 2], [1000, 1], [1000, 2]] as const;

/** The processors of the machine of the records. */
const PROCESSORS = 2;

/** Anonymous MB of each row by the version of Deno. Record a reduction here. */
const RECORDED: Readonly<Record<string, readonly number[]>> = {
  "2.7.14": [34.6, 48.4, 38.9, 56.9],
  "2.9.6": [25.4, 32.7, 30.1, 40.9],
};

/** The margin of a median above its record: 5 %, and the 2 MB by which runs differ. */
const limitOf = (recorded: number) => recorded * 1.05 + 2;

interface Memory {
  readonly resident: number;
  readonly anonymous: number;
}

/** Measures a proxy in a network namespace of its own, once it has been in sync for a while. */
async function measure(
  executable: string,
  folder: string,
  services: number,
  families: number,
  idleMs = IDLE_MS,
): Promise<Memory> {
  const namespace = `of-${crypto.randomUUID().slice(0, 8)}`;
  await addNamespace(namespace);
  const source = `${folder}/${services}-${families}`;
  const proxy = startProxy({ executable, namespace, mode: "nftables", source, cache: `${folder}/deno` });
  const address = families === 1 ? clusterIP(services - 1) : clusterIPv6(services - 1);
  const serves = () => proxy.serves({ address, protocol: "tcp", port: 80 });
  await waitFor(`${executable} to serve ${services} services`, SYNC_MS, serves, POLL_MS);
  await sleep(systemClock, idleMs);
  const memory = memoryOf(proxy);
  await proxy.kill();
  await deleteNamespace(namespace);
  return memory;
}

function memoryOf({ pid }: Proxy): Memory {
  const text = Deno.readTextFileSync(`/proc/${pid}/smaps_rollup`);
  const megabytes = (name: string) => Number(new RegExp(`^${name}: +(\\d+) kB`, "m").exec(text)![1]) / 1024;
  return { resident: megabytes("Rss"), anonymous: megabytes("Anonymous") };
}

function clusterIPv6(index: number): string {
  return `fd00:96::1:${index.toString(16)}`;
}

/** The objects of a cluster. */
function manifests(services: number, families: number): readonly (ServiceManifest | SliceManifest)[] {
  const items: (ServiceManifest | SliceManifest)[] = [];
  for (let index = 0; index < services; index++) {
    const { service, slice } = manifestsOf(index);
    items.push(service, slice);
    if (families === 1) continue;
    service.spec.clusterIPs.push(clusterIPv6(index));
    service.spec.ipFamilies.push("IPv6");
    service.spec.ipFamilyPolicy = "RequireDualStack";
    const ofIPv6 = structuredClone(slice);
    ofIPv6.metadata.name += "-6";
    ofIPv6.addressType = "IPv6";
    for (const [i, endpoint] of ofIPv6.endpoints.entries()) {
      endpoint.addresses = [`fd00:10::1:${(index * ENDPOINTS + i).toString(16)}`];
    }
    items.push(ofIPv6);
  }
  return items;
}

/** The version of Deno on which an executable runs. */
async function denoOf(executable: string, env: Record<string, string>): Promise<string> {
  const { stdout } = await new Deno.Command(executable, { args: ["version", "-o", "json"], env }).output();
  return JSON.parse(new TextDecoder().decode(stdout)).deno;
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
}

async function inside(): Promise<number> {
  const executables = builtExecutables();
  const folder = await Deno.makeTempDir({ dir: "/run" });
  for (const [services, families] of CLUSTERS) {
    writeManifests(`${folder}/${services}-${families}`, manifests(services, families));
  }
  // The first start analyses the stand-in's bundle.
  for (const executable of executables) await measure(executable, folder, 30, 1, 0);

  const rows: { readonly deno: string; readonly index: number; readonly measured: Promise<Memory>[] }[] = [];
  for (const executable of executables) {
    const deno = await denoOf(executable, { DENO_DIR: `${folder}/deno` });
    for (const index of CLUSTERS.keys()) rows.push({ deno, index, measured: [] });
    for (let start = 0; start < STARTS; start++) {
      for (const [index, [services, families]] of CLUSTERS.entries()) {
        rows.at(index - CLUSTERS.length)!.measured.push(measure(executable, folder, services, families));
        await sleep(systemClock, APART_MS);
      }
    }
  }

  console.log("| Deno | services | families | resident MB | anonymous MB | limit |");
  console.log("|---|--:|--:|--:|--:|--:|");
  let failed = 0;
  for (const { deno, index, measured } of rows) {
    const memory = await Promise.all(measured);
    const [resident, anonymous] = [median(memory.map((m) => m.resident)), median(memory.map((m) => m.anonymous))];
    const limit = limitOf(RECORDED[deno]?.[index] ?? NaN);
    const isOver = !(anonymous <= limit);
    if (isOver) failed++;
    const cells = [resident, anonymous, limit].map((megabytes) => megabytes.toFixed(1));
    console.log(`| ${[deno, ...CLUSTERS[index]!, ...cells].join(" | ")} |${isOver ? " OVER" : ""}`);
  }
  if (navigator.hardwareConcurrency !== PROCESSORS) {
    console.log(`\nleft out: the records are of a machine with ${PROCESSORS} processors`);
    return 0;
  }
  console.log(`\n${rows.length - failed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

Deno.exit(await runIsolated(import.meta.url, inside));
