/** Runs the executables in `dist` in network namespaces, with manifests as the source, to measure their memory. */
import { TABLE } from "../../backends/nftables/table.ts";
import type { Protocol } from "../../core/model/mod.ts";
import { UNIT_ENVIRONMENT } from "../compiled/lab.ts";
import { serviceText, sliceText } from "./api_text.ts";

/** A Service as JSON, to be changed by a benchmark. */
export interface ServiceManifest {
  readonly metadata: { readonly name: string };
  readonly spec: {
    [field: string]: unknown;
    readonly clusterIPs: string[];
    readonly ipFamilies: string[];
    readonly ports: { protocol: string; nodePort?: number }[];
  };
  status: object;
}

/** An EndpointSlice as JSON, to be changed by a benchmark. */
export interface SliceManifest {
  readonly metadata: { name: string };
  addressType: string;
  endpoints: { addresses: string[] }[];
  readonly ports: { protocol: string }[];
}

/** The paths of the executables in `dist`. Throws if there are none. */
export function builtExecutables(): readonly string[] {
  const dist = new URL("../../dist/", import.meta.url).pathname;
  const executables = ["sluice", "sluice-stand-in"].map((name) => dist + name).filter(exists);
  if (executables.length === 0) throw new Error("dist/sluice is missing: run ./compile.sh");
  return executables;
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch {
    return false;
  }
}

/** The Service of an index, and its slice of three IPv4 endpoints. */
export function manifestsOf(index: number): {
  readonly service: ServiceManifest;
  readonly slice: SliceManifest;
} {
  return {
    service: { apiVersion: "v1", ...JSON.parse(serviceText(index)) },
    slice: { apiVersion: "discovery.k8s.io/v1", ...JSON.parse(sliceText(index)) },
  };
}

/** Writes objects to a folder, as a source. */
export function writeManifests(folder: string, items: readonly (ServiceManifest | SliceManifest)[]): void {
  Deno.mkdirSync(folder);
  Deno.writeTextFileSync(`${folder}/all.json`, JSON.stringify({ apiVersion: "v1", kind: "List", items }));
}

/** A frontend in the rules of a mode. */
export interface SoughtFrontend {
  readonly address: string;
  readonly protocol: Protocol;
  readonly port: number;
}

/** A proxy in a network namespace. */
export interface Proxy {
  readonly pid: number;
  /** Whether the kernel has the rules of a frontend. */
  serves(frontend: SoughtFrontend): Promise<boolean>;
  /** Kills it; its rules stay. */
  kill(): Promise<void>;
}

/** The options of `startProxy`. */
export interface ProxyOptions {
  readonly executable: string;
  /** The name of the network namespace. */
  readonly namespace: string;
  readonly mode: "nftables" | "iptables";
  /** The folder with the manifests. */
  readonly source: string;
  /** The folder of the runtime's cache. */
  readonly cache: string;
  /** Further flags. */
  readonly flags?: readonly string[];
}

/** Starts a proxy with the unit's environment. */
export function startProxy({ executable, namespace, mode, source, cache, flags = [] }: ProxyOptions): Proxy {
  const inside = ["netns", "exec", namespace];
  const child = new Deno.Command("ip", {
    args: [
      ...[...inside, executable, "--proxy-mode", mode, "--source", `file:${source}`, "--hostname-override", "node"],
      ...["--control-socket", "", "--oom-score-adj", "0", ...flags],
    ],
    // The stand-in's Deno caches an analysis of the bundle, which another version of Deno would delete.
    env: { ...UNIT_ENVIRONMENT, DENO_DIR: cache },
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  return {
    pid: child.pid,
    async serves({ address, protocol, port }) {
      if (mode === "iptables") {
        const { stdout } = await run("ip", [...inside, "iptables-save", "-t", "nat"]);
        return new TextDecoder().decode(stdout).includes(` -d ${address}/32 -p ${protocol} `);
      }
      const element = `{ ${address} . ${protocol} . ${port} }`, family = address.includes(":") ? "ip6" : "ip";
      return (await run("ip", [...inside, "nft", "get", "element", family, TABLE, "services", element])).success;
    },
    async kill() {
      child.kill("SIGKILL");
      await child.status;
    },
  };
}

/** Adds an empty network namespace. */
export async function addNamespace(name: string): Promise<void> {
  await run("ip", ["netns", "add", name]);
  await run("ip", ["-n", name, "link", "set", "lo", "up"]);
}

/** Deletes a network namespace; the kernel frees its memory later. */
export async function deleteNamespace(name: string): Promise<void> {
  await run("ip", ["netns", "delete", name]);
}

/** Runs a tool to its end, with its output. */
export async function run(tool: string, args: readonly string[]): Promise<Deno.CommandOutput> {
  return await new Deno.Command(tool, { args: [...args], stdin: "null", stderr: "null" }).output();
}
