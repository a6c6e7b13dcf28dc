/** Who answers the commands that ask: a running proxy, or this process, on a source that it reads once. */
import type { Answers } from "../../answers/mod.ts";
import type { ControlAnswers } from "../../answers/control/mod.ts";
import { choice, type ChoiceFlag } from "../../config/mod.ts";
import type { Family, FamilyDelta, RuleDescription, ServicePortKey } from "../../core/model/mod.ts";
import { FAMILIES, writeToStderr } from "../../platform/mod.ts";
import type { Invocation } from "./command.ts";

/**
 * The answers of the running proxy, through its control socket; or, where a source is named or no proxy runs, those of
 * this process on the source that the configuration names. Standard error says which.
 */
export async function answersOf(invocation: Invocation): Promise<Answers | ControlAnswers> {
  const { configuration: { controlSocket: path }, flags } = invocation;
  if (path === undefined || flags.has("source")) return await answersOfSource(invocation);
  const { askProxy, NoProxyError } = await import("../../answers/control/mod.ts");
  try {
    const answers = await askProxy(path);
    writeToStderr(`sluice: the proxy at ${path} answers\n`);
    return answers;
  } catch (error) {
    if (!(error instanceof NoProxyError)) throw error;
    writeToStderr(`sluice: ${error.message}; the source is read instead\n`);
    return await answersOfSource(invocation);
  }
}

async function answersOfSource(invocation: Invocation): Promise<Answers> {
  const { clock } = invocation;
  const { answerOffline } = await import("../../answers/mod.ts");
  const rules = (family: Family, state: FamilyDelta, key: ServicePortKey) => renderedRules(family, state, key, clock);
  return await answerOffline({ ...invocation, rules });
}

async function renderedRules(
  family: Family,
  state: FamilyDelta,
  key: ServicePortKey,
  clock: Invocation["clock"],
): Promise<RuleDescription | undefined> {
  const { dryRun } = await import("../../backends/dry_run/mod.ts");
  const backend = await dryRun({ family, state, clock }, { read: undefined, onChange: () => {} });
  return backend.describe?.(key);
}

/** What was chosen by a flag of the command's own: the first of its words where it was not given. */
export function chosen<C extends string>({ flags }: Invocation, { name, values }: ChoiceFlag<C>): C {
  const given = flags.get(name);
  return values.find((value) => value === given) ?? values[0];
}

/** Says what is wrong with the command line, and returns the exit status for that. */
export function misused(complaint: string): 2 {
  writeToStderr(`sluice: ${complaint}\n`);
  return 2;
}

/** JSON for people and programs alike. */
export function jsonText(data: unknown): string {
  return `${JSON.stringify(data, null, 2)}\n`;
}

/** The flag for one IP family. */
export const FAMILY_FLAG = choice("family", ["IPv4", "IPv6"], "IPv4 or IPv6; both without it.");

/** The families that are asked for. */
export function familiesOf(invocation: Invocation): readonly Family[] {
  return invocation.flags.has(FAMILY_FLAG.name) ? [chosen(invocation, FAMILY_FLAG)] : FAMILIES;
}
