import { type Finding, problemFinding, problemKind } from "../../core/problems/mod.ts";
import type { Family, IpvsSettings } from "../../core/model/mod.ts";
import { errorText, FAMILIES } from "../../platform/mod.ts";
import type { ModeDescription } from "../contract/mod.ts";
import type { Mode } from "../mod.ts";
import { type Runner, ToolMissingError } from "../tools/mod.ts";

/** What came of a try to use the kernel as a family's backend does. */
export interface Trial {
  readonly family: Family;
  /** What went wrong; undefined where it worked. */
  readonly failure?: string;
  /** What that was for want of: a tool, which is told by itself; a right; or anything that this host cannot do. */
  readonly lacks?: "tool" | "right" | "ability";
}

/** A module, and whether `modprobe` knows it as a file or as built in; undefined where it cannot be asked. */
export interface FoundModule {
  readonly module: string;
  readonly known: boolean | undefined;
}

/**
 * Tries what each family's backend tries at its start: a rule, table or virtual server that no packet meets, and that is
 * taken away at once.
 */
export async function tryKernel(
  mode: Mode,
  ipvs: IpvsSettings | undefined,
  runner: Runner,
): Promise<readonly Trial[]> {
  const { examine } = await mode.load();
  return await Promise.all(FAMILIES.map(async (family) => {
    try {
      await examine({ family, ipvs, runner });
      return { family };
    } catch (error) {
      return { family, failure: errorText(error), lacks: whatIsMissing(error) };
    }
  }));
}

function whatIsMissing(error: unknown): Trial["lacks"] {
  if (error instanceof Error && (error instanceof ToolMissingError || error.cause instanceof ToolMissingError)) {
    return "tool";
  }
  return /not permitted|Permission denied|must be root|CAP_NET_ADMIN/i.test(errorText(error)) ? "right" : "ability";
}

/** Asks `modprobe` which of a mode's modules it would load or has built in; loads none. */
export async function findModules(
  { modules }: Pick<ModeDescription, "modules">,
  runner: Runner,
): Promise<readonly FoundModule[]> {
  return await Promise.all(modules.map(async (module) => {
    try {
      const { exitCode } = await runner.run({ tool: "modprobe", args: ["--dry-run", "--quiet", module] });
      return { module, known: exitCode === 0 };
    } catch (error) {
      if (!(error instanceof ToolMissingError)) throw error;
      return { module, known: undefined };
    }
  }));
}

/** What the trials mean; a family that cannot be served is a loss, both are the end. A missing tool is told elsewhere. */
export function judgeTrials(mode: string, trials: readonly Trial[]): readonly Finding[] {
  const tried = trials.filter(({ lacks }) => lacks !== "tool");
  const someWork = tried.some(({ lacks }) => lacks === undefined);
  const isSame = tried.length === trials.length && tried.every(({ failure }) => failure === tried[0]!.failure);
  return (isSame ? tried.slice(0, 1) : tried).map(({ family, failure, lacks }): Finding => {
    const name = isSame ? "kernel" : `kernel ${family}`;
    if (failure === undefined) return { name, verdict: "green", message: `takes what ${mode} mode gives it (tried)` };
    if (lacks === "right") return problemFinding(name, "kernel-permission-missing", failure);
    if (!someWork) return problemFinding(name, "kernel-unfit", failure);
    const { fix } = problemKind("kernel-unfit");
    const orElse = `nothing, if the cluster does not use ${family}; otherwise ${fix}`;
    return problemFinding(name, "family-unsupported", failure, orElse);
  });
}

/** What the modules mean beside the trials: where those worked, nothing is missing that was tried. */
export function judgeModules(modules: readonly FoundModule[], trials: readonly Trial[]): Finding {
  const missing = modules.filter(({ known }) => known === false).map(({ module }) => module);
  const name = "modules";
  if (modules.every(({ known }) => known === undefined)) {
    return problemFinding(name, "modules-missing", "cannot be looked for without modprobe", "apt-get install kmod");
  }
  if (missing.length === 0) return { name, verdict: "green", message: "all are there" };
  const message = `modprobe does not know ${missing.join(", ")}`;
  if (trials.some(({ lacks }) => lacks === undefined)) {
    return { name, verdict: "green", message: `${message}, but the kernel does what was tried` };
  }
  return problemFinding(name, "modules-missing", message);
}
