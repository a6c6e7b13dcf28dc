import { type Finding, problemFinding } from "../../core/problems/mod.ts";
import { type Runner, ToolMissingError } from "../tools/mod.ts";

/** The number of connections that the kernel tracks, and its limit. */
export interface ConntrackSize {
  readonly count: number;
  readonly max: number;
}

/** Reads the size of the conntrack table; undefined if there is none, or if sysctl is missing. */
export async function findConntrackSize(runner: Runner): Promise<ConntrackSize | undefined> {
  try {
    const args = ["-n", "net.netfilter.nf_conntrack_count", "net.netfilter.nf_conntrack_max"];
    const { stdout } = await runner.run({ tool: "sysctl", args });
    const [count, max] = stdout.trim().split("\n").map(Number);
    return count === undefined || max === undefined || Number.isNaN(count + max) ? undefined : { count, max };
  } catch (error) {
    if (!(error instanceof ToolMissingError)) throw error;
    return undefined;
  }
}

const WARN_FROM = 0.75, ALARM_FROM = 0.95;

/** Judges the size; `wanted` is the limit in the configuration, undefined if that leaves it unchanged. */
export function judgeConntrack(size: ConntrackSize | undefined, wanted: number | undefined): Finding {
  const name = "connections";
  if (size === undefined) {
    return problemFinding(
      name,
      "conntrack-filling",
      "the size of connection tracking cannot be read: the module nf_conntrack is not loaded, or sysctl is missing",
      "run modprobe nf_conntrack, or ignore this: the first rule loads it",
    );
  }
  const { count, max } = size;
  const now = `${count} of ${max} connections tracked`;
  const raised = wanted !== undefined && wanted > max ? `; Sluice raises the limit to ${wanted}` : "";
  const share = count / Math.max(max, raised === "" ? 0 : wanted!);
  if (share < WARN_FROM) return { name, verdict: "green", message: now + raised };
  const message = `${now}${raised}: new connections are dropped when the table is full`;
  return problemFinding(name, share < ALARM_FROM ? "conntrack-filling" : "conntrack-full", message);
}
