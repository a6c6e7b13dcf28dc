/** Observes a running Sluice: its metrics and the resources of its process. */
import { METRICS_URL } from "./sluice.ts";

/** The sum of a metric over the series whose labels contain a text; undefined if there is none. */
export async function metric(name: string, labels = ""): Promise<number | undefined> {
  const response = await fetch(METRICS_URL);
  const values = (await response.text()).split("\n")
    .map((line) => /^(\w+)(\{.*\})? (\S+)$/.exec(line))
    .filter((match) => match !== null && match[1] === name && (match[2] ?? "").includes(labels))
    .map((match) => Number(match![3]));
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
}

/** The number of syncs of a family, or of both. */
export async function syncs(family = ""): Promise<number> {
  return await metric("kubeproxy_sync_proxy_rules_duration_seconds_count", family) ?? 0;
}

/** Resources of a process. */
export interface ProcessUsage {
  /** Of all its threads since the start, without ended children, in milliseconds. */
  readonly cpuMs: number;
  readonly residentMB: number;
  readonly openFiles: number;
  readonly children: number;
}

/** The resources that a process uses now. */
export function processUsage(pid: number): ProcessUsage {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  const tasks = [...Deno.readDirSync(`/proc/${pid}/task`)];
  const ticks = Deno.readTextFileSync(`/proc/${pid}/stat`).replace(/^.*\) /, "").split(" ");
  return {
    // In ticks of 10 ms, user and system time.
    cpuMs: (Number(ticks[11]) + Number(ticks[12])) * 10,
    residentMB: Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024,
    openFiles: [...Deno.readDirSync(`/proc/${pid}/fd`)].length,
    children: tasks.flatMap(({ name }) => childrenOf(`/proc/${pid}/task/${name}`)).length,
  };
}

/** The process IDs of a thread's children; none if it has ended. */
function childrenOf(task: string): readonly string[] {
  try {
    return Deno.readTextFileSync(`${task}/children`).split(" ").filter((child) => child.trim() !== "");
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}
