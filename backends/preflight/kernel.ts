import { type Finding, problemFinding, problemKind } from "../../core/problems/mod.ts";
import type { Family, IpvsSettings } from "../../core/model/mod.ts";
import { errorText, FAMILIES } from "../../platform/mod.ts";
import type { ModeDescription } from "../contract/mod.ts";
import type { Mode } from "../mod.ts";
import { type Runner, ToolMissingError } from "../tools/mod.ts";

/** The result of trying the kernel as a family's backend uses it. */
export interface Trial {
  readonly family: Family;
  /** The failure; undefined if the trial succeeded. */
  readonly failure?: string;
  /** The missing part: a tool (which has its own finding), a right, or a feature of this host. */
  readonly lacks?: "tool" | "right" | "ability";
}

/** A module, and whether `modprobe` finds it, as a file or built in; undefined if modprobe is missing. */
export interface FoundModule {
  readonly module: string;
  readonly known: boolean | undefined;
}

/**
 * Tries what each family's backend tries in its setup: a rule, table or virtual server that no packet reaches and that
 * is removed at once.
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

/** Finds out from `modprobe` which of a mode's modules could be loaded or are built in; loads none. */
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

/** Judges the trials: one family that cannot be served is a warning, two are an error. Missing tools are judged elsewhere. */
export function judgeTrials(mode: string, trials: readonly Trial[]): readonly Finding[] {
  const tried = trials.filter(({ lacks }) => lacks !== "tool");
  const someWork = tried.some(({ lacks }) => lacks === undefined);
  const isSame = tried.length === trials.length && tried.every(({ failure }) => failure === tried[0]!.failure);
  return (isSame ? tried.slice(0, 1) : tried).map(({ family, failure, lacks }): Finding => {
    const name = isSame ? "kernel" : `kernel ${family}`;
    if (failure === undefined) return { name, verdict: "green", message: `supports ${mode} mode (tested)` };
    if (lacks === "right") return problemFinding(name, "kernel-permission-missing", failure);
    if (!someWork) return problemFinding(name, "kernel-unfit", failure);
    const { fix } = problemKind("kernel-unfit");
    const orElse = `no action if the cluster does not use ${family}; otherwise ${fix}`;
    return problemFinding(name, "family-unsupported", failure, orElse);
  });
}

/** Judges the modules: after successful trials, none that was tried is missing. */
export function judgeModules(modules: readonly FoundModule[], trials: readonly Trial[]): Finding {
  const missing = modules.filter(({ known }) => known === false).map(({ module }) => module);
  const name = "modules";
  if (modules.every(({ known }) => known === undefined)) {
    return problemFinding(name, "modules-missing", "cannot be checked without modprobe", "run apt-get install kmod");
  }
  if (missing.length === 0) return { name, verdict: "green", message: "all available" };
  const message = `modprobe does not find ${missing.join(", ")}`;
  if (trials.some(({ lacks }) => lacks === undefined)) {
    return { name, verdict: "green", message: `${message}, but the kernel passed the test` };
  }
  return problemFinding(name, "modules-missing", message);
}
