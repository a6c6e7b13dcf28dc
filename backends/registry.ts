import type { ProxyMode } from "../core/model/mod.ts";
import { type Backend, type BackendOptions, IPTABLES_VARIANT_TOOLS, type ModeDescription } from "./contract/mod.ts";
import { IPTABLES_MODE } from "./iptables/mod.ts";
import { IPVS_MODE } from "./ipvs/mod.ts";
import { loadResets, NFTABLES_MODE } from "./nftables/mod.ts";
import type { ModeCode } from "./takeover.ts";
import { flawsOf, type Runner, SHARED_TOOLS, tooOld, versionIn, watchKilledTools } from "./tools/mod.ts";
import { USERSPACE_MODE } from "./userspace/mod.ts";

/** An entry of the registry: a mode's description, and its code, which is loaded when it is first needed. */
export interface Mode {
  readonly description: ModeDescription;
  readonly load: () => Promise<ModeCode>;
}

/** Every mode; the first one is the default (kube-proxy's). To add a mode, add its folder and a line here. */
export const MODES: readonly Mode[] = [
  IPTABLES_MODE,
  NFTABLES_MODE,
  IPVS_MODE,
  USERSPACE_MODE,
];

/** The descriptions of every mode. */
export const MODE_DESCRIPTIONS: readonly ModeDescription[] = MODES.map(({ description }) => description);

/** A mode by its name. Throws if there is no such mode. */
export function findMode(name: ProxyMode, modes: readonly Mode[] = MODES): Mode {
  const mode = modes.find(({ description }) => description.name === name);
  if (mode === undefined) throw new Error(`there is no mode ${JSON.stringify(name)}`);
  return mode;
}

/** The description of a mode. Throws if there is no such mode. */
export function describeMode(name: ProxyMode, modes: readonly Mode[] = MODES): ModeDescription {
  return findMode(name, modes).description;
}

/** The backend of a mode, which takes over from the other modes. */
export async function loadBackend(
  name: ProxyMode,
  options: BackendOptions,
  modes: readonly Mode[] = MODES,
): Promise<Backend> {
  const { withTakeover } = await import("./takeover.ts"), withResets = await loadResets();
  const chosen = findMode(name, modes);
  const others = modes.filter((mode) => mode !== chosen);
  const watched = { ...options, runner: reportingKilledTools(options) };
  const taken = withTakeover(await chosen.load(), others.map(({ load }) => load), watched);
  const backend = withResets(taken, watched, chosen.description.settings.resetsConnections === true);
  return {
    ...backend,
    async configure() {
      await Promise.all([backend.configure?.(), logOldTools(chosen.description, watched)]);
    },
  };
}

/** Logs which tools of a mode are too old, or have flaws in their versions. */
async function logOldTools(
  { tools }: ModeDescription,
  { runner, logger }: Pick<BackendOptions, "runner" | "logger">,
): Promise<void> {
  const versioned = [...tools, ...SHARED_TOOLS].filter(({ since, flaws }) => since ?? flaws);
  await Promise.all(versioned.map(async (known) => {
    const { tool, version: args = ["--version"] } = known;
    const printed = await runner.run({ tool, args }).then(({ stdout }) => stdout, () => "");
    const old = tooOld(known, printed), flaws = flawsOf(known, printed);
    if (old !== undefined) logger.warn("a tool is too old", { tool, reason: old });
    else if (flaws !== "") logger.info("known flaws of a tool", { tool, version: versionIn(printed), flaws });
  }));
}

/** Deletes the rules of every mode that other proxies do not take over, and returns their names. Throws as `removeOwn` does. */
export async function removeOwnRules(runner: Runner): Promise<readonly string[]> {
  const deleted: string[] = [];
  for (const { load } of MODES) deleted.push(...await (await load()).removeOwn?.(runner) ?? []);
  return deleted;
}

/** The runner of a backend, which reports the tools that signals end. */
function reportingKilledTools({ runner, onProblems }: BackendOptions): Runner {
  if (onProblems === undefined) return runner;
  return watchKilledTools(
    runner,
    (killed) => onProblems("tools", killed.map(({ tool, detail }) => ({ code: "tool-killed", subject: tool, detail }))),
  );
}

/**
 * The names of the tools that backends run, in every mode and both families: a mode removes leftovers of other modes, a changed
 * configuration may select another mode, and a worker can restart its sibling only with permissions that it has itself. Some
 * may not be installed on a given host.
 */
export function backendTools(modes: readonly Mode[] = MODES): readonly string[] {
  const ofModes = modes.flatMap(({ description: { tools } }) =>
    tools.flatMap(({ tool, companions = [] }) => [tool, ...companions])
  );
  return [...new Set([...ofModes, ...SHARED_TOOLS.map(({ tool }) => tool), ...IPTABLES_VARIANT_TOOLS, "modprobe"])];
}
