/**
 * Examines a node before a proxy runs on it: tools, kernel, limits, and other programs that do the same job.
 *
 * In: the mode and a runner. Out: findings. May run: the tools, in trials that leave nothing behind.
 */
import type { Family, IpvsSettings, ProxyMode } from "../../core/model/mod.ts";
import { type Finding, problemFinding, problemKind } from "../../core/problems/mod.ts";
import { errorText, FAMILIES } from "../../platform/mod.ts";
import type { DepartureSettings, ModeDescription } from "../contract/mod.ts";
import { findOpenFiles, judgeOpenFiles } from "../host/mod.ts";
import { findTraces, type Mode, type Traces } from "../mod.ts";
import {
  flawsOf,
  ifInstalled,
  type KilledTool,
  type Runner,
  SHARED_TOOLS,
  ToolMissingError,
  ToolTooOldError,
  tooOld,
  watchKilledTools,
} from "../tools/mod.ts";
import { checkListeners, findFirewalls, judgeTraces, trustedPorts } from "./conflicts.ts";
export { findFirewalls, trustedPorts };

interface PreflightOptions {
  readonly mode: Mode;
  /** Every mode: another one may have left traces. */
  readonly modes: readonly Mode[];
  /** The settings of IPVS mode; undefined in other modes. */
  readonly ipvs: IpvsSettings | undefined;
  readonly runner: Runner;
  readonly uid: number | null;
  /** The kernel's release: `6.1.0-18-amd64`. */
  readonly kernel: string;
  /** The ports that the proxy listens on. */
  readonly ports: readonly number[];
  /** The limit of tracked connections in the configuration; undefined if that leaves it unchanged. */
  readonly conntrackMax: number | undefined;
  /** The mode of the Sluice that runs here; undefined if none does. */
  readonly running: ProxyMode | undefined;
  readonly settings: DepartureSettings;
}

/** Examines the node, and leaves no change on it: see `checkKernel`. */
export async function examineNode(options: PreflightOptions): Promise<readonly Finding[]> {
  const { mode, modes, ipvs, runner, uid, ports, conntrackMax, running } = options;
  const { description } = mode, { name } = description;
  const tools = await checkTools(description, runner);
  const traces = await findTraces(modes.map(({ description }) => description), runner);
  return [
    ...checkRights(uid),
    ...tools,
    { name: "release", verdict: "green", message: `Linux ${options.kernel}` },
    // A running proxy proves that the mode works, and a concurrent trial would disturb it.
    ...running === name
      ? [{ name: "kernel", verdict: "green", message: `in use by the running Sluice in ${name} mode` } as const]
      : await checkKernel(mode, ipvs, runner),
    ...await checkListeners(runner, ports, running !== undefined),
    ...judgeTraces(traces, name, running),
    ...await findFirewalls(description, runner),
    ...await checkDifferences(traces, options),
    judgeOpenFiles(await findOpenFiles(runner).catch(() => undefined)),
    await checkConntrack(runner, conntrackMax),
  ];
}

/** Lists what the mode will do differently from the one that this node is in now; nothing if it is the same mode. */
export async function checkDifferences(
  { byMode }: Pick<Traces, "byMode">,
  { mode: { description: to }, modes, runner, settings }: Pick<
    PreflightOptions,
    "mode" | "modes" | "runner" | "settings"
  >,
): Promise<readonly Finding[]> {
  const left = modes.filter(({ description }) => description.name !== to.name && byMode.get(description)?.length);
  const found = await Promise.all(
    left.map(async ({ load }) => await (await load()).differences?.({ runner, to, settings }) ?? []),
  );
  return found.flat().map(({ name, message, fix }) =>
    fix === undefined ? { name, verdict: "green", message } : problemFinding(name, "mode-differs", message, fix)
  );
}

/** Whether this process is root: otherwise the other findings may be too pessimistic. */
export function checkRights(uid: number | null): readonly Finding[] {
  if (uid === 0) return [{ name: "privileges", verdict: "green", message: "running as root" }];
  const message = `running as user ${uid}, so some checks may fail or miss something that root would see`;
  return [problemFinding("privileges", "not-root", message)];
}

/** Checks which tools of a mode are installed in a version that works. */
export async function checkTools(mode: ModeDescription, runner: Runner): Promise<readonly Finding[]> {
  return await Promise.all(
    [...mode.tools, ...SHARED_TOOLS].map(async (known): Promise<Finding> => {
      const { tool, version = ["--version"], package: name, without } = known;
      const printed = await ifInstalled(runner.run({ tool, args: version }));
      const text = printed && (firstLine(printed.stdout) || firstLine(printed.stderr) || "of an unknown version");
      const old = text && tooOld(known, text);
      if (text !== undefined && old === undefined) {
        return { name: tool, verdict: "green", message: [text, flawsOf(known, text)].filter(Boolean).join("; ") };
      }
      return problemFinding(
        tool,
        without === undefined ? "tool-missing" : "optional-tool-missing",
        old ?? `is not installed, or not on the PATH: ${without ?? `${mode.name} mode needs it`}`,
        old === undefined
          ? `run apt-get install ${name}, or install the equivalent package of your system`
          : `install a newer package ${name}, for example that of a newer release of your system`,
      );
    }),
  );
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0]!.trim();
}

/** The result of trying the kernel as a family's backend uses it. */
interface Trial {
  readonly family: Family;
  /** The failure; undefined if the trial succeeded. */
  readonly failure?: string;
  /** The missing part: a tool, which is missing or too old and has its own finding, a right, or a feature of this host. */
  readonly lacks?: "tool" | "right" | "ability";
  /** The tool that a signal ended, which decides nothing about this host. */
  readonly killed?: KilledTool;
}

/** Tries what each family's backend tries in its setup, which leaves nothing behind, and checks the modules. */
export async function checkKernel(
  { description: { name, modules }, load }: Mode,
  ipvs: IpvsSettings | undefined,
  runner: Runner,
): Promise<readonly Finding[]> {
  const { examine } = await load();
  const trials = await Promise.all(FAMILIES.map(async (family): Promise<Trial> => {
    let killed: KilledTool | undefined;
    const watched = watchKilledTools(runner, ([first]) => killed = first);
    try {
      await examine({ family, ipvs, runner: watched });
      return { family };
    } catch (error) {
      if (killed !== undefined) return { family, failure: killed.detail, lacks: "ability", killed };
      return { family, failure: errorText(error), lacks: whatIsMissing(error) };
    }
  }));
  const isTested = trials.some(({ lacks }) => lacks === undefined);
  return [...judgeTrials(name, trials), await checkModules(modules, isTested, runner)];
}

function whatIsMissing(error: unknown): Trial["lacks"] {
  const isOfTool = (cause: unknown) => cause instanceof ToolMissingError || cause instanceof ToolTooOldError;
  if (isOfTool(error) || error instanceof Error && isOfTool(error.cause)) return "tool";
  return /not permitted|Permission denied|must be root|CAP_NET_ADMIN/i.test(errorText(error)) ? "right" : "ability";
}

/** Evaluates the trials: one family that cannot be served is a warning, two are an error. Tools are reported elsewhere. */
function judgeTrials(mode: string, trials: readonly Trial[]): readonly Finding[] {
  const tried = trials.filter(({ lacks }) => lacks !== "tool");
  const someWork = tried.some(({ lacks }) => lacks === undefined);
  const isSame = tried.length === trials.length && tried.every(({ failure }) => failure === tried[0]!.failure);
  return (isSame ? tried.slice(0, 1) : tried).map(({ family, failure, lacks, killed }): Finding => {
    const name = isSame ? "kernel" : `kernel ${family}`;
    if (failure === undefined) return { name, verdict: "green", message: `supports ${mode} mode (tested)` };
    if (killed !== undefined) return problemFinding(killed.tool, "tool-killed", killed.detail);
    if (lacks === "right") return problemFinding(name, "kernel-permission-missing", failure);
    if (!someWork) return problemFinding(name, "kernel-unfit", failure);
    const { fix } = problemKind("kernel-unfit");
    const orElse = `no action if the cluster does not use ${family}; otherwise ${fix}`;
    return problemFinding(name, "family-unsupported", failure, orElse);
  });
}

/** Asks `modprobe` which modules can be loaded or are built in; loads none. */
async function checkModules(modules: readonly string[], isTested: boolean, runner: Runner): Promise<Finding> {
  const name = "modules";
  const found = await Promise.all(
    modules.map((module) => ifInstalled(runner.run({ tool: "modprobe", args: ["--dry-run", "--quiet", module] }))),
  );
  if (found.every((tried) => tried === undefined)) {
    return problemFinding(name, "modules-missing", "cannot be checked without modprobe", "run apt-get install kmod");
  }
  const missing = modules.filter((_, i) => found[i] !== undefined && found[i].exitCode !== 0);
  if (missing.length === 0) return { name, verdict: "green", message: "all available" };
  const message = `modprobe does not find ${missing.join(", ")}`;
  if (isTested) return { name, verdict: "green", message: `${message}, but the kernel passed the test` };
  return problemFinding(name, "modules-missing", message);
}

const WARN_FROM = 0.75, ALARM_FROM = 0.95;

/**
 * Checks how full the table of tracked connections is.
 * @param wanted its limit in the configuration; undefined if that leaves it unchanged
 */
export async function checkConntrack(runner: Runner, wanted: number | undefined): Promise<Finding> {
  const name = "connections";
  const args = ["-n", "net.netfilter.nf_conntrack_count", "net.netfilter.nf_conntrack_max"];
  const printed = await ifInstalled(runner.run({ tool: "sysctl", args }));
  const [count = NaN, max = NaN] = printed?.stdout.trim().split("\n").map(Number) ?? [];
  if (Number.isNaN(count + max)) {
    return problemFinding(
      name,
      "conntrack-filling",
      "the size of connection tracking cannot be read: the module nf_conntrack is not loaded, or sysctl is missing",
      "run modprobe nf_conntrack, or ignore this: the first rule loads it",
    );
  }
  const now = `${count} of ${max} connections tracked`;
  const raised = wanted !== undefined && wanted > max ? `; Sluice raises the limit to ${wanted}` : "";
  const share = count / Math.max(max, wanted ?? 0);
  if (share < WARN_FROM) return { name, verdict: "green", message: now + raised };
  const message = `${now}${raised}: new connections are dropped when the table is full`;
  return problemFinding(name, share < ALARM_FROM ? "conntrack-filling" : "conntrack-full", message);
}
