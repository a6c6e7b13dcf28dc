/** The command line of a suite of scenarios, and how it runs them. */
import { systemClock } from "../platform/clock.ts";
import { errorText } from "../platform/log.ts";
import { runIsolated } from "./isolated.ts";
import { seedOfScenarios } from "./seed.ts";
import { type Result, runSuite } from "./suite.ts";

/** A scenario, as far as the command line selects it. */
export interface Selectable {
  readonly name: string;
  /** Whether the merge gate runs it: one of each kind of fault, quick and telling. */
  readonly inGate?: boolean;
}

/** How scenarios run. */
export interface Conditions {
  /** The seed of every random choice. */
  readonly seed: number;
  /** Whether nothing else may run at the same time. */
  readonly alone: boolean;
  /** The options of the suite that were given. */
  readonly options: ReadonlySet<string>;
}

/** A suite of scenarios. */
export interface ScenarioSuite<S extends Selectable> {
  /** As in `deno task test:NAME`. */
  readonly name: string;
  /** The `import.meta.url` of its program. */
  readonly self: string;
  /** Further modules that it starts, relative to the project's folder. */
  readonly programs?: readonly string[];
  readonly scenarios: readonly S[];
  /** Its own options and what they do. */
  readonly options?: Readonly<Record<string, string>>;
  /** Why a scenario cannot run here or with these options; undefined if it can. */
  leftOut?(scenario: S, options: ReadonlySet<string>): string | undefined;
  run(scenarios: readonly S[], conditions: Conditions): Promise<readonly Result[]>;
}

const OPTIONS = {
  "--gate": "only the scenarios of the merge gate, with a fixed seed",
  "--list": "print the names, with `gate` before those of the merge gate",
  "--help": "print this",
} as const;
const GATE_SEED = 1;

/** Reads the command line and runs the selected scenarios, isolated. Resolves with the exit status. */
export async function runScenarios<S extends Selectable>(suite: ScenarioSuite<S>): Promise<number> {
  const given = Deno.args.filter((arg) => arg.startsWith("-")), parts = Deno.args.filter((arg) => !arg.startsWith("-"));
  const known: Readonly<Record<string, string>> = { ...suite.options, ...OPTIONS };
  const unknown = given.find((option) => !Object.hasOwn(known, option));
  const options = new Set(given);
  const chosen = suite.scenarios.filter(({ name, inGate }) =>
    (!options.has("--gate") || inGate) && (parts.length === 0 || parts.some((part) => name.includes(part)))
  );
  if (unknown !== undefined || options.has("--help")) {
    const lines = Object.entries(known).map(([option, text]) => `  ${option.padEnd(8)} ${text}`);
    console.log([`deno task test:${suite.name} [OPTION]… [PART OF A NAME]…`, ...lines].join("\n"));
    if (unknown === undefined) return 0;
    console.error(`unknown option ${unknown}`);
    return 2;
  }
  if (options.has("--list")) {
    for (const { name, inGate } of chosen) console.log(`${inGate ? "gate" : "    "}  ${name}`);
    return 0;
  }
  return await runIsolated(suite.self, () => runChosen(suite, chosen, options), suite.programs);
}

async function runChosen<S extends Selectable>(
  { name: suite, leftOut, run, options: own = {} }: ScenarioSuite<S>,
  chosen: readonly S[],
  options: ReadonlySet<string>,
): Promise<number> {
  const seed = seedOfScenarios(options.has("--gate") ? GATE_SEED : undefined);
  console.log(`seed: ${seed}`);
  const units = chosen.filter((scenario) => {
    const why = leftOut?.(scenario, options);
    if (why !== undefined) console.log(`left out: ${scenario.name}: ${why}`);
    return why === undefined;
  });
  const repeated = ["deno task", `test:${suite}`, ...[...options].filter((option) => Object.hasOwn(own, option))];
  return await runSuite({
    name: suite,
    units: units.map(({ name }) => name),
    attempt: (names, alone) => run(units.filter(({ name }) => names.includes(name)), { seed, alone, options }),
    repeat: ({ name }) => `CHAOS_SEED=${seed} ${repeated.join(" ")} "${name}"`,
  });
}

/** Runs one scenario, prints its error, and measures it. */
export async function attempt(name: string, run: () => Promise<void>): Promise<Result> {
  const startedMs = systemClock.monotonic();
  const passed = await run().then(() => true, (error) => {
    console.log(`FAILED: ${name}: ${errorText(error)}`);
    return false;
  });
  return { name, unit: name, passed, tookMs: systemClock.monotonic() - startedMs };
}
