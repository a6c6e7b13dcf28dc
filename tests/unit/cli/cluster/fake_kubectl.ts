/** A kubectl in memory: lists of nodes and pods, and an answer for each pod. */
import type { Runner, ToolResult } from "../../../../backends/tools/mod.ts";
import { createKubectl, type Kubectl } from "../../../../cli/cluster/mod.ts";

/** The cluster that a fake kubectl shows. */
export interface FakeCluster {
  /** Names of nodes, with whether they are ready; or kubectl's error. */
  readonly nodes: Readonly<Record<string, boolean>> | string;
  /** The lines that kubectl prints for pods, columns separated by `|`. */
  readonly pods: readonly string[];
  /** The result of `kubectl exec POD -- sluice …`. */
  readonly exec: (pod: string, args: readonly string[]) => Promise<Partial<ToolResult>> | Partial<ToolResult>;
}

/** Creates kubectl for a cluster. `calls` collects its command lines. */
export function fakeKubectl({ nodes, pods, exec }: FakeCluster, calls: string[] = []): Kubectl {
  const runner: Runner = {
    async run({ args, onLine }) {
      calls.push(args.join(" "));
      const [verb, what] = args;
      const done = { exitCode: 0, stdout: "", stderr: "" };
      if (verb === "get" && what === "nodes") {
        if (typeof nodes === "string") return { ...done, exitCode: 1, stderr: nodes };
        const lines = Object.entries(nodes).map(([name, ready]) => `${name}\t${ready ? "True" : "False"}\n`);
        return { ...done, stdout: lines.join("") };
      }
      if (verb === "get") return { ...done, stdout: pods.map((line) => `${line.replaceAll("|", "\t")}\n`).join("") };
      const result = { ...done, ...await exec(what!, args.slice(args.indexOf("sluice") + 1)) };
      if (onLine === undefined) return result;
      result.stdout.split("\n").slice(0, -1).forEach(onLine);
      return { ...result, stdout: "" };
    },
  };
  return createKubectl(runner, {}, [], new AbortController().signal);
}

/** The line of a pod that is running on a node. */
export function runningPod(node: string, name = `sluice-${node}`): string {
  return `${node}|${name}|Running||||2026-01-01T00:00:00Z`;
}

/** The output of `sluice status -o json` on a node, with changes. */
export function statusOutput(view: Record<string, unknown>, needy: Record<string, unknown> = {}): string {
  const state = { tone: "good", words: "all in sync" };
  return JSON.stringify({
    status: { version: "0.2.0", mode: "nftables", atMs: 100_000, inOrder: true, state, sinceMs: 40_000, ...view },
    needy: { total: 0, services: [], ...needy },
  });
}
