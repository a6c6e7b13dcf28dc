/** What can be seen of a running Sluice: its metrics, and what it holds of the machine. */
import { METRICS_URL } from "./sluice.ts";

/** The sum of a metric over its series whose labels contain a text; undefined where it is not there. */
export async function metric(name: string, labels = ""): Promise<number | undefined> {
  const response = await fetch(METRICS_URL);
  const values = (await response.text()).split("\n")
    .map((line) => /^(\w+)(\{.*\})? (\S+)$/.exec(line))
    .filter((match) => match !== null && match[1] === name && (match[2] ?? "").includes(labels))
    .map((match) => Number(match![3]));
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
}

/** How many syncs a family has done, or both. */
export async function syncs(family = ""): Promise<number> {
  return await metric("kubeproxy_sync_proxy_rules_duration_seconds_count", family) ?? 0;
}

/** What a process holds. */
export interface Holdings {
  readonly residentMB: number;
  readonly handles: number;
  readonly children: number;
}

/** What a process holds now. */
export function holdings(pid: number): Holdings {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  const tasks = [...Deno.readDirSync(`/proc/${pid}/task`)];
  return {
    residentMB: Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]) / 1024,
    handles: [...Deno.readDirSync(`/proc/${pid}/fd`)].length,
    children:
      tasks.flatMap(({ name }) =>
        Deno.readTextFileSync(`/proc/${pid}/task/${name}/children`).split(" ").filter((child) => child.trim() !== "")
      ).length,
  };
}
