/** The results of the suite, as files. */
import type { Result } from "../suite.ts";
import type { Cluster } from "./cluster.ts";
import { sluiceBinary } from "./proxies.ts";

/** The folder of the results. */
export const RESULTS = new URL("../../dist/cluster/", import.meta.url);

/** The outcome of a part of the suite. */
export interface PartOutcome {
  readonly results: readonly Result[];
  /** Measured values, by name. */
  readonly figures: Readonly<Record<string, string>>;
}

/** The outcome of a part of the suite with a proxy, as a file. */
export interface PartResult {
  readonly part: string;
  readonly proxy: string;
  /** The day of the run, as YYYY-MM-DD. */
  readonly date: string;
  /** Versions of the programs, by name. */
  readonly versions: Readonly<Record<string, string>>;
  readonly results: readonly { readonly name: string; readonly passed: boolean }[];
  readonly figures: Readonly<Record<string, string>>;
  /** The number of warnings and errors that the proxies logged. */
  readonly complaints: number;
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
