/** The node before a proxy runs on it: its tools, its kernel, and who else is at work there. */
import { type Finding, problemFinding } from "../../core/problems/mod.ts";
import type { IpvsSettings, ProxyMode } from "../../core/model/mod.ts";
import type { Mode } from "../mod.ts";
import { findOpenFiles, judgeOpenFiles } from "../host/mod.ts";
import type { Runner } from "../tools/mod.ts";
import { findListeners, findTraces, judgeListeners, judgeTraces } from "./conflicts.ts";
import { findConntrackSize, judgeConntrack } from "./conntrack.ts";
import { findModules, judgeModules, judgeTrials, tryKernel } from "./kernel.ts";
import { findTools, judgeTools } from "./tools.ts";

/** What the node is looked at for. */
export interface PreflightOptions {
  readonly mode: Mode;
  /** Every mode: another one may have left traces. */
  readonly modes: readonly Mode[];
  /** What IPVS mode is told; undefined in other modes. */
  readonly ipvs: IpvsSettings | undefined;
  readonly runner: Runner;
  readonly uid: number | null;
  /** The kernel's release: `6.1.0-18-amd64`. */
  readonly kernel: string;
  /** The ports that the proxy listens on. */
  readonly ports: readonly number[];
  /** The limit of tracked connections that the configuration asks for; undefined where it leaves it as it is. */
  readonly conntrackMax: number | undefined;
  /** The mode of the Sluice that runs here; undefined where none does. */
  readonly running: ProxyMode | undefined;
}

/** Looks at the node, and changes nothing on it that lasts: see `tryKernel`. */
export async function examineNode(options: PreflightOptions): Promise<readonly Finding[]> {
  const { mode, modes, ipvs, runner, uid, ports, conntrackMax, running } = options;
  const { description } = mode, { name } = description;
  const tools = await findTools(description, runner);
  // What runs is tried already, and a try beside it would be in its way.
  const trials = running === name ? undefined : await tryKernel(mode, ipvs, runner);
  return [
    ...judgeRights(uid),
    ...judgeTools(description, tools),
    { name: "release", verdict: "green", message: `Linux ${options.kernel}` },
    ...(trials === undefined
      ? [
        {
          name: "kernel",
          verdict: "green",
          message: `is in use by the Sluice that runs here, in ${name} mode`,
        } as const,
      ]
      : [...judgeTrials(name, trials), judgeModules(await findModules(description, runner), trials)]),
    ...judgeListeners(await findListeners(runner), ports, running !== undefined),
    ...judgeTraces(await findTraces(modes.map(({ description }) => description), runner), name, running),
    judgeOpenFiles(await findOpenFiles(runner).catch(() => undefined)),
    judgeConntrack(await findConntrackSize(runner), conntrackMax),
  ];
}

/** Whether this process is root: without it, the rest may be judged too badly. */
export function judgeRights(uid: number | null): readonly Finding[] {
  if (uid === 0) return [{ name: "rights", verdict: "green", message: "this runs as root" }];
  return [problemFinding("rights", "not-root", `this runs as user ${uid}, who may not see or do what root may`)];
}
