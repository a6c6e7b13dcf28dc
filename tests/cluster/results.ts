/** The results of the suite, as files. */
import { existsSync } from "node:fs";
import { KUBERNETES_VERSIONS } from "../../build/api/versions.ts";
import type { Result } from "../suite.ts";
import type { Cluster } from "./cluster.ts";
import type { NetworkName, PodNetwork } from "./networks.ts";
import type { Client } from "./pods.ts";
import { type RunningProxy, sluiceBinary } from "./proxies.ts";

/** The folder of the results. */
const RESULTS = new URL("../../dist/cluster/", import.meta.url);

/** A proxy on all nodes of a cluster, and a client outside. */
export interface Trial {
  readonly cluster: Cluster;
  readonly outside: Client;
  readonly proxy: RunningProxy;
  readonly network: PodNetwork;
  /** A regular expression of the names of the end-to-end tests, the neighbours, or the events in the life of a cluster, that run. */
  readonly focus: string | undefined;
}

/** The outcome of a part of the suite. */
export interface PartOutcome {
  readonly results: readonly Result[];
  /** Measured values, by name. */
  readonly counts: Readonly<Record<string, string>>;
}

/** The outcome of a part of the suite with a proxy, as a file. */
export interface PartResult {
  readonly part: string;
  readonly proxy: string;
  /** The differences from the usual cluster, in its network and version of Kubernetes; empty for that one. */
  readonly setting: string;
  /** The day of the run, as YYYY-MM-DD. */
  readonly date: string;
  /** Versions of the programs, by name. */
  readonly versions: Readonly<Record<string, string>>;
  readonly results: readonly { readonly name: string; readonly passed: boolean }[];
  readonly counts: Readonly<Record<string, string>>;
  /** The number of warnings and errors that the proxies logged. */
  readonly complaints: number;
}

/** The file of a result. */
function fileOf({ proxy, part, setting }: Pick<PartResult, "proxy" | "part" | "setting">): URL {
  return new URL(`${[proxy, part, setting].join(" ").trim()}.json`, RESULTS);
}

/** The version that the suite tests first. */
const NEWEST = KUBERNETES_VERSIONS.at(-1)!;

/** The differences of a cluster from the usual one. */
export function settingOf(network: NetworkName, { Kubernetes = NEWEST }: Readonly<Record<string, string>>): string {
  const differences = [
    ...(Kubernetes === NEWEST ? [] : [`Kubernetes ${Kubernetes}`]),
    ...(network === "bridge" ? [] : [`${network} as CNI`]),
  ];
  return differences.join(", ");
}

/** Writes a result. With `isRepeated`, tests that did not run this time keep their last result. */
export function writeResult(result: PartResult, isRepeated: boolean): void {
  Deno.mkdirSync(RESULTS, { recursive: true });
  const file = fileOf(result);
  const all = isRepeated && existsSync(file) ? withEarlier(result, readResult(file)) : result;
  Deno.writeTextFileSync(file, JSON.stringify(all, undefined, 1));
}

/** A result with the outcomes and counts of those tests that ran earlier only, in the order of the earlier one. */
export function withEarlier(result: PartResult, earlier: PartResult): PartResult {
  const outcomes = new Map([...earlier.results, ...result.results].map((one) => [one.name, one]));
  return { ...result, results: [...outcomes.values()], counts: { ...earlier.counts, ...result.counts } };
}

function readResult(file: URL): PartResult {
  return JSON.parse(Deno.readTextFileSync(file)) as PartResult;
}

/** Reads all results. */
export function readResults(): readonly PartResult[] {
  const files = [...Deno.readDirSync(RESULTS)].map(({ name }) => name).filter((name) => name.endsWith(".json")).sort();
  return files.map((name) => readResult(new URL(name, RESULTS)));
}

/** Modules of which programs of the cluster are built, by program. */
const MODULES: Readonly<Record<string, string>> = {
  etcd: "go.etcd.io/etcd/server/v3",
  containerd: "github.com/containerd/containerd/v2",
  "cni/bridge": "github.com/containernetworking/plugins",
};

/** Versions of the programs that a cluster consists of. */
export async function versionsOf({ plane, run, programs }: Cluster): Promise<Readonly<Record<string, string>>> {
  const { body } = await plane.request("GET", "/version");
  const said = async (...command: readonly string[]) =>
    /(\d+\.\d+[^\s,]*)/.exec((await run("node1", command)).stdout)?.[1] ?? "unknown";
  const versions: Record<string, string> = { Kubernetes: String(body.gitVersion).slice(1) };
  versions.Sluice = await said(sluiceBinary(), "--version");
  for (const [program, module] of Object.entries(MODULES)) {
    const { stdout } = await run("node1", ["go", "version", "-m", `${programs}/${program}`]);
    const [, version = "unknown"] = new RegExp(`\\t${module}\\tv(\\S+)`).exec(stdout) ?? [];
    versions[program.replace("cni/bridge", "CNI plugins")] = version;
  }
  versions.iptables = await said("iptables", "--version");
  versions.nft = await said("nft", "--version");
  versions.Linux = await said("uname", "-r");
  return versions;
}
