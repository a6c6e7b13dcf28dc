/**
 * What a backend would do, without doing it: the backends as they are, on a runner that starts nothing which could change
 * anything. What they would write is the exact input of the kernel's tools; and what they would write to a kernel that
 * somebody else holds is how that differs from what it should be.
 *
 *   runner.ts               reads, if asked to, and changes nothing
 *   iptables_difference.ts  what iptables-restore would be given, as a difference by chain
 *   nft_difference.ts       what nft would be given, as a difference by chain and set
 *   ipvs_difference.ts      what ipvsadm, ipset and ip would be given, by virtual server, set and interface
 *   line_difference.ts      the lines that are one side's only
 *   difference.ts           all of them by what tool it is
 */
import type { Family, FamilyDelta } from "../../core/model/mod.ts";
import { type Clock, silentLogger } from "../../platform/mod.ts";
import type { Backend } from "../contract/mod.ts";
import { createBackendAlone } from "../mod.ts";
import type { Runner } from "../tools/mod.ts";
import type { Difference } from "./difference.ts";
import { createDifferences } from "./differences.ts";
import { createRehearsalRunner, type RehearsalOptions } from "./runner.ts";

/** What is rehearsed. */
export interface Rehearsal {
  readonly family: Family;
  /** A whole state; its settings say in which mode. */
  readonly state: FamilyDelta;
  readonly clock: Clock;
}

/**
 * Has the backend of a mode bring a kernel to a state, which stays as it is.
 * @returns the backend, which takes it for done
 */
export async function rehearse(
  { family, state, clock }: Rehearsal,
  { read, onChange, onRead }: RehearsalOptions,
): Promise<Backend> {
  if (state.settings === undefined) throw new Error("only a whole state can be rehearsed, with its settings");
  let isSetUp = false;
  const runner = createRehearsalRunner({
    read,
    // A setup tries what the tools can do, which leaves nothing behind.
    onChange: (call) => isSetUp && onChange(call),
    onRead,
  });
  const { mode, ipvs } = state.settings;
  const backend = createBackendAlone(mode, { family, runner, clock, logger: silentLogger, ipvs });
  await backend.setup();
  isSetUp = true;
  await backend.sync(state);
  return backend;
}

/**
 * How the kernel differs from a state: nothing where they are the same. It reads, and changes nothing.
 * @param read runs the tools that read
 */
export async function compareWithKernel(rehearsal: Rehearsal, read: Runner): Promise<readonly Difference[]> {
  const differences = createDifferences();
  await rehearse(rehearsal, { read, onChange: differences.onChange, onRead: differences.onRead });
  return differences.found();
}
