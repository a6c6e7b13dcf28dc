import type { Family, FamilyDelta } from "../../core/model/mod.ts";
import { type Clock, silentLogger } from "../../platform/mod.ts";
import type { Backend } from "../contract/mod.ts";
import { describeMode, loadBackendAlone, type Mode, MODES } from "../mod.ts";
import type { Runner } from "../tools/mod.ts";
import { createDifferences, type Difference } from "./differences.ts";
import { createDryRunner, type DryRunnerOptions } from "./runner.ts";

/** The state that a dry run brings a family to. */
export interface DryRun {
  readonly family: Family;
  /** A full snapshot; its settings name the mode. */
  readonly state: FamilyDelta;
  readonly clock: Clock;
  /** The known modes; `MODES` by default. */
  readonly modes?: readonly Mode[];
}

/**
 * Syncs a full snapshot with the backend of its mode, on a runner that collects changes and carries out none.
 * @returns the backend, which considers the state applied
 */
export async function dryRun(
  { family, state, clock, modes = MODES }: DryRun,
  options: DryRunnerOptions,
): Promise<Backend> {
  if (state.settings === undefined) throw new Error("a dry run needs a full snapshot with its settings");
  const { mode, ipvs } = state.settings;
  let isSetUp = false;
  const runner = createDryRunner({
    read: options.read,
    // Setup only tries out the tools, and leaves nothing behind.
    onChange: (call) => isSetUp && options.onChange(call),
  }, describeMode(mode, modes).tools);
  const backend = await loadBackendAlone(mode, { family, runner, clock, logger: silentLogger, ipvs }, modes);
  await backend.setup();
  isSetUp = true;
  await backend.sync(state);
  return backend;
}

/**
 * Compares the kernel with a state; changes nothing.
 * @param read runs the tools that read
 * @returns the differences; none if the kernel is in that state
 */
export async function compareWithKernel(run: DryRun, read: Runner): Promise<readonly Difference[]> {
  const differences = createDifferences();
  await dryRun(run, { read, onChange: ({ changes }) => differences.add(changes()) });
  return differences.found();
}
